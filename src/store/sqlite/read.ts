/**
 * Questions about jobs and workers. Reads never wait for writers: WAL gives each its own snapshot.
 *
 * Which way to a list is the shortest is decided here and not by the engine, which does not know that most jobs have
 * ended and few run: left alone it walks through all ids because the answer is wanted in their order.
 */

import type { Job, ShownState, StateName } from "../../core/job.ts";
import type { SqlRow } from "../../platform/platform.ts";
import type { AttemptRecord, Checkpoint, QueueCount, WorkerRecord } from "../../core/records.ts";
import type {
  Backlog,
  BacklogQuery,
  CheckpointQuery,
  LeaseHealth,
  Dependency,
  JobOutline,
  ListQuery,
  OldestPending,
  Selection,
  UnmetDependency,
} from "../queries.ts";
import { SATISFIED } from "../shared/columns.ts";
import { Conditions, SHOWN, SORT_COLUMNS, narrowCheckpoints, narrowList, orderOf } from "../shared/filters.ts";
import { MOST_PRIORITIES, toQueueCount } from "../shared/history.ts";
import { toAttempt, toCheckpoint, toJob, toWorker } from "../shared/rows.ts";
import { firstReady, readyQueues } from "./acquire.ts";
import { earliest } from "../shared/verdicts.ts";
import { nextStart } from "./limits.ts";
import type { Database } from "./open.ts";
import { SELECT_JOB, SQL, WITHOUT_COMMAND } from "./statements.ts";

const IS_ONE_OF = "IN (SELECT value FROM json_each(?))";

/** With placeholders and lists as this engine has them. */
export function select({ ids, queues, task }: Selection): Conditions {
  const only = new Conditions("?");
  if (ids) only.add(`id ${IS_ONE_OF}`, JSON.stringify(ids));
  const [queue] = queues ?? [];
  if (queues?.length === 1) only.add("queue = ?", queue ?? "");
  else if (queues) only.add(`queue ${IS_ONE_OF}`, JSON.stringify(queues));
  if (task !== undefined) only.add("task = ?", task);
  return only;
}

export function jobs(db: Database, ids: readonly number[]): (Job | null)[] {
  return ids.map((id) => {
    const row = db.sql(SQL.job).get(id);
    return row === null ? null : toJob(row);
  });
}

/** What a state that is shown is a part of. */
const STORED: Partial<Record<ShownState, StateName>> = {
  blocked: "blocked",
  scheduled: "scheduled",
  pending: "pending",
  completed: "completed",
  failed: "failed",
  cancelled: "cancelled",
};
const HELD: readonly ShownState[] = ["running", "cancelling"];

export function list(db: Database, query: ListQuery): Job[] {
  return listed(db, query, SELECT_JOB).map(toJob);
}

export function outlines(db: Database, query: ListQuery): JobOutline[] {
  return listed(db, query, "SELECT id, state, reason FROM jobs") as unknown as JobOutline[];
}

function listed(db: Database, query: ListQuery, columns: string): SqlRow[] {
  const states = statesOf(query);
  if (states?.length === 0) return [];
  const only = select(query);
  if (query.holder !== undefined) only.add("holder = ?", query.holder);
  const share = states === null || !isById(query) ? null : shareOf(db, states);
  const by_index = states !== null && !isWalk(query, states) && share !== "most";
  if (by_index && share === "many") {
    const near = nearby(db, query, columns, states);
    if (near.length === query.limit) return near;
  }
  narrowList(only, query, by_index ? "+id" : "id");
  if (states !== null && !by_index && share !== "most" && query.behind_id === 0) beginAtFirst(db, query, only, states);
  const limit = `LIMIT ${only.bind(query.limit)}`;
  const text = by_index
    ? `${columns} WHERE id IN (SELECT id FROM (${byIndex(query, only, states, limit)})) ORDER BY ${orderOf(query)}`
    : walk(columns, query, only, states, limit);
  return db.sql(text).all(...only.params);
}

/** Null: whatever their state. */
function statesOf({ states, holder }: ListQuery): readonly ShownState[] | null {
  if (holder === undefined) return states === undefined ? null : [...new Set(states)];
  return HELD.filter((state) => states?.includes(state) ?? true);
}

/**
 * What else was asked for leads to few jobs, or the next page begins where the last one ended, or completed jobs are
 * asked for in order of id: they are most of all, so the first of them are near.
 */
function isWalk({ ids, key, task, behind_id, sort = "id" }: ListQuery, states: readonly ShownState[]): boolean {
  // There are only as many as slots.
  if (ids === undefined && states.every((state) => HELD.includes(state))) return false;
  if (ids !== undefined || key !== undefined || task !== undefined || behind_id !== undefined) return true;
  return sort === "id" && states.includes("completed");
}

function isById({ sort = "id" }: ListQuery): boolean {
  return sort === "id";
}

const MANY = 5_000;

/** `most`: nearly every job is in one of these states, so the next of them is near. `many`: to sort them all takes a while. */
function shareOf(db: Database, states: readonly ShownState[]): "most" | "many" | "few" {
  const of = counts(db).map(({ state, count }) => ({ count, asked: states.some((name) => STORED[name] === state) }));
  const sum = (rows: typeof of) => rows.reduce((total, { count }) => total + count, 0);
  const asked = sum(of.filter((row) => row.asked));
  if (asked <= MANY) return "few";
  return asked >= sum(of) / 2 ? "most" : "many";
}

/** So many ids are walked through to see whether those that come first are among them: they most often are. */
const NEAR = 20_000;

function nearby(db: Database, query: ListQuery, columns: string, states: readonly ShownState[]): SqlRow[] {
  const only = select(query);
  narrowList(only, query);
  only.say(
    query.newest_first ? `id > (SELECT max(id) FROM jobs) - ${NEAR}` : `id < (SELECT min(id) FROM jobs) + ${NEAR}`,
  );
  const limit = `LIMIT ${only.bind(query.limit)}`;
  return db.sql(walk(columns, query, only, states, limit)).all(...only.params);
}

/** The first page of a walk: the indexes of the states know the first of them, before which very many others may be. */
function beginAtFirst(db: Database, query: ListQuery, only: Conditions, states: readonly ShownState[]): void {
  const ids = states.map((state) => {
    const found = select(query);
    const text = `SELECT min(+id) AS id FROM jobs ${found.where(SHOWN[state])}`;
    return db.sql(text).get(...found.params)?.["id"] as number | null;
  });
  const known = ids.filter((id) => id !== null);
  only.add("id >= ?", known.length === 0 ? Number.MAX_SAFE_INTEGER : Math.min(...known));
}

/**
 * By id, or by the index of what else was asked for, but not by that of a state: hence the `+`. Where nothing has to be
 * sorted each job is read once; else only what it is sorted by is carried along.
 */
function walk(
  columns: string,
  query: ListQuery,
  only: Conditions,
  states: readonly ShownState[] | null,
  limit: string,
): string {
  if (states !== null) only.say(`(${states.map((state) => SHOWN[state].replace("state", "+state")).join(" OR ")})`);
  const order = `ORDER BY ${orderOf(query)}`;
  if (isById(query)) return `${columns} ${only.where()} ${order} ${limit}`;
  return `${columns} WHERE id IN (SELECT id FROM jobs ${only.where()} ${order} ${limit}) ${order}`;
}

/** Each state by its own index, and the first of each together; here `+` keeps from walking through all ids. */
function byIndex(query: ListQuery, only: Conditions, states: readonly ShownState[], limit: string): string {
  const column = SORT_COLUMNS[query.sort ?? "id"];
  const columns = column === "id" ? "id" : `id, ${column}`;
  const order = `ORDER BY ${orderOf(query, "+id")} ${limit}`;
  const parts = states.map(
    (state) => `SELECT * FROM (SELECT ${columns} FROM jobs ${only.where(SHOWN[state])} ${order})`,
  );
  return `${parts.join(" UNION ALL ")} ORDER BY ${orderOf(query)} ${limit}`;
}

export function checkpoints(db: Database, query: CheckpointQuery): Checkpoint[] {
  const only = new Conditions("?");
  const idRows = (ids: readonly number[]) => `(SELECT value AS job FROM json_each(${only.bind(JSON.stringify(ids))}))`;
  narrowCheckpoints(only, query, { checkpoints: "checkpoints", idRows });
  const text = `SELECT * FROM checkpoints ${only.where()} ORDER BY id DESC LIMIT ${only.bind(query.limit)}`;
  const rows = db.sql(text).all(...only.params);
  return rows.map(toCheckpoint);
}

/** The given queues; null: all. */
const NAMED = "(?1 IS NULL OR queue IN (SELECT value FROM json_each(?1)))";

// Running jobs are few, and counted; of the others it is kept how many there are in all, and how many are not pending.
const COUNTS = `WITH held AS MATERIALIZED (
    SELECT queue, count(*) AS number FROM jobs INDEXED BY jobs_expiry WHERE state = 'running' AND ${NAMED} GROUP BY queue
  ), found (queue, state, retrying, number) AS (
    SELECT queue, 'pending', 0, sum(iif(state = 'all', count, -count))
        - coalesce((SELECT number FROM held WHERE held.queue = tallies.queue), 0)
      FROM tallies WHERE ${NAMED} GROUP BY queue
    UNION ALL SELECT queue, 'running', 0, number FROM held
    UNION ALL SELECT queue, state, sum(iif(state = 'scheduled' AND retries > 0, count, 0)), sum(count)
      FROM tallies WHERE state <> 'all' AND ${NAMED} GROUP BY queue, state)
  SELECT queue, state, retrying, number AS count FROM found WHERE number > 0 ORDER BY queue, state`;

/** Of whole queues from what is kept about them; of what is named more closely, job by job. */
export function counts(db: Database, selection: Selection = {}): QueueCount[] {
  const { ids, queues, task } = selection;
  if (ids === undefined && task === undefined) {
    return db
      .sql(COUNTS)
      .all(queues === undefined ? null : JSON.stringify(queues))
      .map(toQueueCount);
  }
  const only = select(selection);
  const text = `SELECT queue, state, count(*) AS count FROM jobs ${only.where()} GROUP BY 1, 2 ORDER BY 1, 2`;
  return db.sql(text).all(...only.params) as unknown as QueueCount[];
}

const FIRST_BELOW = `SELECT priority, run_at_ms FROM jobs WHERE state = 'pending' AND queue = ?1
  AND ${WITHOUT_COMMAND} = ?2 AND gate = ?3 AND priority < ?4 ORDER BY priority DESC, run_at_ms LIMIT 1`;
const NEXT_GATE = `SELECT min(gate) AS gate FROM jobs WHERE state = 'pending' AND queue = ?1 AND ${WITHOUT_COMMAND} = ?2
  AND gate > ?3`;

/** Steps from one gate and priority of a queue to the next: of each, the first by the index is the oldest. */
export function oldestPending(db: Database): OldestPending[] {
  const found: OldestPending[] = [];
  for (const queue of readyQueues(db)) {
    const since_ms = Math.min(...[0, 1].flatMap((without_command) => gateHeads(db, queue, without_command)));
    if (since_ms !== Infinity) found.push({ queue, since_ms });
  }
  return found;
}

function gateHeads(db: Database, queue: string, without_command: number): number[] {
  const found: number[] = [];
  for (let gate: string | null = ""; gate !== null && found.length < MOST_PRIORITIES;) {
    found.push(...heads(db, queue, without_command, gate));
    gate = (db.sql(NEXT_GATE).get(queue, without_command, gate)?.["gate"] ?? null) as string | null;
  }
  return found;
}

function heads(db: Database, queue: string, without_command: number, gate: string): number[] {
  const found: number[] = [];
  for (let below = Number.MAX_SAFE_INTEGER; found.length < MOST_PRIORITIES;) {
    const first = db.sql(FIRST_BELOW).get(queue, without_command, gate, below);
    if (first === null) break;
    found.push(first["run_at_ms"] as number);
    below = first["priority"] as number;
  }
  return found;
}

const UNMET = `SELECT d.job_id AS job, d.parent_id AS parent, d.kind, parent.state,
    coalesce(parent.finished_at_ms, iif(parent.state = 'running', parent.started_at_ms, parent.created_at_ms)) AS since_ms
  FROM dependencies AS d JOIN jobs AS parent ON parent.id = d.parent_id JOIN jobs AS child ON child.id = d.job_id
  WHERE d.job_id IN (SELECT value FROM json_each(?1)) AND child.state = 'blocked' AND NOT ${SATISFIED}
  ORDER BY d.job_id, d.parent_id`;

export function parents(db: Database, ids: readonly number[]): UnmetDependency[] {
  return db.sql(UNMET).all(JSON.stringify(ids)) as unknown as UnmetDependency[];
}

const LINKS = `SELECT job_id AS job, parent_id AS parent, kind FROM dependencies
  WHERE job_id IN (SELECT value FROM json_each(?1)) ORDER BY 1, 2`;

export function links(db: Database, ids: readonly number[]): Dependency[] {
  return db.sql(LINKS).all(JSON.stringify(ids)) as unknown as Dependency[];
}

export function attempts(db: Database, id: number): AttemptRecord[] {
  return db.sql(SQL.attempts).all(id).map(toAttempt);
}

const RETRY_COUNTS = `SELECT retries, sum(count) AS jobs FROM tallies WHERE state IN ('completed', 'failed')
  GROUP BY retries HAVING jobs > 0 ORDER BY retries`;

export function retryCounts(db: Database) {
  return db.sql(RETRY_COUNTS).all() as { retries: number; jobs: number }[];
}

const LEASES = `SELECT count(*) AS held, count(*) FILTER (WHERE expires_at_ms < ?1) AS stale,
    min(expires_at_ms) FILTER (WHERE expires_at_ms >= ?1) AS next_expires_at_ms
  FROM jobs INDEXED BY jobs_expiry WHERE state = 'running'`;

export function leaseHealth(db: Database): LeaseHealth {
  return db.sql(LEASES).get(db.now_ms()) as unknown as LeaseHealth;
}

export function topPriority(db: Database, query: BacklogQuery): number | null {
  return (firstReady(db, query)?.["priority"] ?? null) as number | null;
}

export function nextDue(db: Database): number | null {
  const due_ms = db.sql(SQL.nextDue).get()?.["at_ms"] ?? null;
  return earliest(due_ms as number | null, nextStart(db));
}

export function backlog(db: Database, { queues, task, commands_only = false }: BacklogQuery): Backlog {
  const only = select({ ...(queues === null ? {} : { queues }), ...(task === null ? {} : { task }) });
  if (commands_only) only.say(`${WITHOUT_COMMAND} = 0`);
  // By the index of the state: a task may have very many jobs that have ended.
  const from = (index: string, condition: string) => `FROM jobs INDEXED BY ${index} ${only.where(condition)}`;
  const text = `SELECT (SELECT count(*) FROM jobs ${only.where("state = 'pending'")}) AS pending,
    (SELECT count(*) ${from("jobs_expiry", "state = 'running'")}) AS running,
    (SELECT count(*) ${from("jobs_retrying", "state = 'scheduled' AND token > 0")}) AS retrying,
    (SELECT count(*) ${from("jobs_due", "state = 'scheduled'")}) AS scheduled,
    (SELECT count(*) ${from("jobs_blocked", "state = 'blocked'")}) AS blocked,
    (SELECT min(run_at_ms) ${from("jobs_due", "state = 'scheduled'")}) AS next_due_ms`;
  const found = db.sql(text).get(...only.params) as unknown as Backlog & { scheduled: number; blocked: number };
  const { scheduled, blocked, ...rest } = found;
  return { ...rest, waiting: scheduled - found.retrying + blocked };
}

const WORKERS = "SELECT * FROM workers ORDER BY stopped_at_ms IS NOT NULL, started_at_ms, id";
const WORKERS_LIVE_ON = "SELECT * FROM workers WHERE host = ?1 AND stopped_at_ms IS NULL";

export function workers(db: Database, query?: { live_on: string }): WorkerRecord[] {
  const rows = query === undefined ? db.sql(WORKERS).all() : db.sql(WORKERS_LIVE_ON).all(query.live_on);
  return rows.map(toWorker);
}
