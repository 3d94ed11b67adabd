/** Questions about jobs and workers. Reads never wait for writers: each statement has its own snapshot. */

import type { Job } from "../../core/job.ts";
import type { SqlRow } from "../../platform/platform.ts";
import type { AttemptRecord, Checkpoint, QueueCount, WorkerRecord } from "../../core/records.ts";
import type {
  Backlog,
  BacklogQuery,
  CheckpointQuery,
  JobOutline,
  LeaseHealth,
  ListQuery,
  OldestPending,
  Selection,
  UnmetDependency,
  Dependency,
} from "../queries.ts";
import { SATISFIED } from "../shared/columns.ts";
import { Conditions, SHOWN, narrowCheckpoints, narrowList, orderOf } from "../shared/filters.ts";
import { MOST_PRIORITIES, toQueueCount } from "../shared/history.ts";
import { toAttempt, toCheckpoint, toJob, toWorker } from "../shared/rows.ts";
import { earliest } from "../shared/verdicts.ts";
import { byId, toList } from "./session/arrays.ts";
import type { Connection } from "./session/session.ts";
import { SELECT_JOB, SQL, WITHOUT_COMMAND, readyQueues } from "./statements.ts";

/** With placeholders and lists as this engine has them. */
export function select({ ids, queues, task }: Selection): Conditions {
  const only = new Conditions("$");
  if (ids) only.add("id = ANY (?::bigint[])", toList(ids));
  if (queues) only.add("queue = ANY (?::text[])", toList(queues));
  if (task !== undefined) only.add("task = ?", task);
  return only;
}

export async function jobs(db: Connection, ids: readonly number[]): Promise<(Job | null)[]> {
  if (ids.length === 0) return [];
  const rows = await db.query(`${SELECT_JOB} WHERE id = ANY ($1::bigint[])`, [ids]);
  const found = byId(rows);
  return ids.map((id) => {
    const row = found.get(id);
    return row === undefined ? null : toJob(row);
  });
}

export async function list(db: Connection, query: ListQuery): Promise<Job[]> {
  return (await listed(db, query, SELECT_JOB)).map(toJob);
}

export async function outlines(db: Connection, query: ListQuery): Promise<JobOutline[]> {
  return (await listed(db, query, "SELECT id, state, reason FROM lease.jobs")) as unknown as JobOutline[];
}

async function listed(db: Connection, query: ListQuery, columns: string): Promise<SqlRow[]> {
  const only = select(query);
  if (query.states) only.say(`(${query.states.map((state) => SHOWN[state]).join(" OR ") || "FALSE"})`);
  if (query.holder !== undefined) only.add("state = 'running' AND holder = ?", query.holder);
  narrowList(only, query);
  const text = `${columns} ${only.where()} ORDER BY ${orderOf(query)} LIMIT ${only.bind(query.limit)}`;
  return db.query(text, only.params);
}

export async function checkpoints(db: Connection, query: CheckpointQuery): Promise<Checkpoint[]> {
  const only = new Conditions("$");
  const idRows = (ids: readonly number[]) => `unnest(${only.bind(toList(ids))}::bigint[]) AS each (job)`;
  narrowCheckpoints(only, query, { checkpoints: "lease.checkpoints", idRows });
  const text = `SELECT * FROM lease.checkpoints ${only.where()} ORDER BY id DESC LIMIT ${only.bind(query.limit)}`;
  return (await db.query(text, only.params)).map(toCheckpoint);
}

/** What has been folded, and what has not been yet. */
export const TALLIES = `SELECT queue, state, retries, count FROM lease.tallies
  UNION ALL SELECT queue, state, retries, count FROM lease.deltas WHERE state NOT IN ('pending', 'running')`;
const NAMED = "($1::text[] IS NULL OR queue = ANY ($1::text[]))";
const COUNTS = `WITH kept AS MATERIALIZED (
    SELECT queue, state, retries, sum(count)::bigint AS count FROM (${TALLIES}) AS tallies WHERE ${NAMED}
    GROUP BY queue, state, retries
  ), held AS MATERIALIZED (
    SELECT queue, count(*) AS count FROM lease.jobs WHERE state = 'running' AND ${NAMED} GROUP BY queue
  ), found (queue, state, retrying, count) AS (
    SELECT queue, 'pending', 0, sum(CASE state WHEN 'all' THEN count ELSE -count END)::bigint
        - coalesce((SELECT held.count FROM held WHERE held.queue = kept.queue), 0)
      FROM kept GROUP BY queue
    UNION ALL SELECT queue, 'running', 0, count FROM held
    UNION ALL SELECT queue, state, coalesce(sum(count) FILTER (WHERE state = 'scheduled' AND retries > 0), 0)::bigint,
      sum(count)::bigint FROM kept WHERE state <> 'all' GROUP BY queue, state
  ) SELECT queue, state, retrying, count FROM found WHERE count > 0 ORDER BY queue COLLATE "C", state`;

/** Of whole queues from what is kept about them; of what is named more closely, job by job. */
export async function counts(db: Connection, selection: Selection = {}): Promise<QueueCount[]> {
  const { ids, queues, task } = selection;
  if (ids === undefined && task === undefined) return (await db.query(COUNTS, [queues ?? null])).map(toQueueCount);
  const only = select(selection);
  const text = `SELECT queue, state, count(*) AS count FROM lease.jobs ${only.where()} GROUP BY queue, state
    ORDER BY queue COLLATE "C", state`;
  return (await db.query(text, only.params)) as unknown as QueueCount[];
}

const RETRY_COUNTS = `SELECT retries, sum(count)::bigint AS jobs FROM (${TALLIES}) AS tallies
  WHERE state IN ('completed', 'failed') GROUP BY retries HAVING sum(count) > 0 ORDER BY retries`;

/** Steps from queue to queue, and in each from one priority to the next: of each, the first by the index is the oldest. */
const FIRST = "SELECT priority, run_at_ms FROM lease.jobs WHERE state = 'pending' AND queue =";
const BY_TURN = "ORDER BY priority DESC, run_at_ms, id LIMIT 1";
const NEXT_GATE = (behind: string) => `(SELECT min(gate) FROM lease.jobs WHERE state = 'pending' AND ${behind})`;
const OLDEST = `WITH RECURSIVE ${readyQueues("")}, gates (queue, kind, gate) AS (
    SELECT ready.name, kind, ${NEXT_GATE(`queue = ready.name AND ${WITHOUT_COMMAND} = kind`)}
      FROM ready CROSS JOIN (VALUES (0), (1)) AS kinds (kind) WHERE ready.name IS NOT NULL
    UNION ALL SELECT gates.queue, kind,
        ${NEXT_GATE(`jobs.queue = gates.queue AND ${WITHOUT_COMMAND} = gates.kind AND jobs.gate > gates.gate`)}
      FROM gates WHERE gates.gate IS NOT NULL
  ), step (queue, kind, gate, priority, since_ms, number) AS (
    SELECT gates.queue, kind, gates.gate, head.priority, head.run_at_ms, 1 FROM gates CROSS JOIN LATERAL (
      ${FIRST} gates.queue AND ${WITHOUT_COMMAND} = gates.kind AND gate = gates.gate ${BY_TURN}
    ) AS head WHERE gates.gate IS NOT NULL
    UNION ALL SELECT step.queue, kind, step.gate, next.priority, next.run_at_ms, number + 1
      FROM step CROSS JOIN LATERAL (
        ${FIRST} step.queue AND ${WITHOUT_COMMAND} = step.kind AND gate = step.gate AND priority < step.priority ${BY_TURN}
      ) AS next WHERE number < ${MOST_PRIORITIES}
  ) SELECT queue, min(since_ms) AS since_ms FROM step GROUP BY queue ORDER BY queue COLLATE "C"`;

export async function oldestPending(db: Connection): Promise<OldestPending[]> {
  return (await db.query(OLDEST)) as unknown as OldestPending[];
}

export async function retryCounts(db: Connection) {
  return (await db.query(RETRY_COUNTS)) as { retries: number; jobs: number }[];
}

const LINKS = `SELECT job_id AS job, parent_id AS parent, kind FROM lease.dependencies
  WHERE job_id = ANY ($1::bigint[]) ORDER BY 1, 2`;

export async function links(db: Connection, ids: readonly number[]): Promise<Dependency[]> {
  return (await db.query(LINKS, [ids])) as unknown as Dependency[];
}

const UNMET = `SELECT d.job_id AS job, d.parent_id AS parent, d.kind, parent.state, coalesce(parent.finished_at_ms,
    CASE parent.state WHEN 'running' THEN parent.started_at_ms ELSE parent.created_at_ms END) AS since_ms
  FROM lease.dependencies AS d JOIN lease.jobs AS parent ON parent.id = d.parent_id
  JOIN lease.jobs AS child ON child.id = d.job_id AND child.state = 'blocked'
  WHERE d.job_id = ANY ($1::bigint[]) AND NOT ${SATISFIED}
  ORDER BY d.job_id, d.parent_id`;

export async function parents(db: Connection, ids: readonly number[]): Promise<UnmetDependency[]> {
  return (await db.query(UNMET, [ids])) as unknown as UnmetDependency[];
}

/** The jobs of the given queues (null: all) and task (null: any). */
const MINE = `($1::text[] IS NULL OR queue = ANY ($1::text[])) AND ($2::text IS NULL OR task = $2::text)
  AND (NOT $3::boolean OR ${WITHOUT_COMMAND} = 0)`;

const BACKLOG = `SELECT
  (SELECT count(*) FROM lease.jobs WHERE state = 'pending' AND ${MINE}) AS pending,
  (SELECT count(*) FROM lease.jobs WHERE state = 'running' AND ${MINE}) AS running,
  (SELECT count(*) FROM lease.jobs WHERE state = 'scheduled' AND token > 0 AND ${MINE}) AS retrying,
  (SELECT count(*) FROM lease.jobs WHERE state = 'scheduled' AND token = 0 AND ${MINE})
    + (SELECT count(*) FROM lease.jobs WHERE state = 'blocked' AND ${MINE}) AS waiting,
  (SELECT min(run_at_ms) FROM lease.jobs WHERE state = 'scheduled' AND ${MINE}) AS next_due_ms`;

export async function backlog(db: Connection, query: BacklogQuery): Promise<Backlog> {
  const [row] = await db.query(BACKLOG, [query.queues, query.task, query.commands_only ?? false]);
  return row as unknown as Backlog;
}

export async function topPriority(db: Connection, query: BacklogQuery): Promise<number | null> {
  const statement = query.commands_only === true ? SQL.topCommandPriority : SQL.topPriority;
  const [row] = await db.query(statement, [query.queues, query.task]);
  return (row?.["priority"] ?? null) as number | null;
}

export async function attempts(db: Connection, id: number): Promise<AttemptRecord[]> {
  return (await db.query(SQL.attempts, [id])).map(toAttempt);
}

export async function nextDue(db: Connection): Promise<number | null> {
  const [row] = await db.query(SQL.nextDue);
  return earliest((row?.["at_ms"] ?? null) as number | null, (row?.["start_ms"] ?? null) as number | null);
}

const LEASES = `SELECT count(*) AS held, count(*) FILTER (WHERE expires_at_ms < clock.ms) AS stale,
    min(expires_at_ms) FILTER (WHERE expires_at_ms >= clock.ms) AS next_expires_at_ms
  FROM (SELECT lease.now_ms() AS ms OFFSET 0) AS clock JOIN lease.jobs ON state = 'running'`;

export async function leaseHealth(db: Connection): Promise<LeaseHealth> {
  const [row] = await db.query(LEASES);
  return row as unknown as LeaseHealth;
}

const WORKERS = `SELECT * FROM lease.workers ORDER BY stopped_at_ms IS NOT NULL, started_at_ms, id COLLATE "C"`;
const WORKERS_LIVE_ON = "SELECT * FROM lease.workers WHERE host = $1 AND stopped_at_ms IS NULL";

export async function workers(db: Connection, query?: { live_on: string }): Promise<WorkerRecord[]> {
  const rows = await (query === undefined ? db.query(WORKERS) : db.query(WORKERS_LIVE_ON, [query.live_on]));
  return rows.map(toWorker);
}
