/**
 * Questions about jobs. Reads never wait for writers: WAL gives each its own snapshot.
 */

import { assert } from "../../core/errors.ts";
import type { Job, ShownState } from "../../core/job.ts";
import type { Checkpoint, QueueCount } from "../../core/records.ts";
import type { SqlValue } from "../../platform/platform.ts";
import type {
  Backlog,
  CheckpointQuery,
  ExpiredLease,
  ExpiredQuery,
  ListQuery,
  Selection,
  UnmetDependency,
} from "../queries.ts";
import { toAttempt, toCheckpoint, toJob } from "../rows.ts";
import type { Statements } from "./statements.ts";
import { SELECT_JOB } from "./statements.ts";

export function jobs(statements: Statements, ids: readonly number[]): (Job | null)[] {
  return ids.map((id) => {
    const row = statements.get("job").get(id);
    return row === null ? null : toJob(row);
  });
}

/** Conditions that are put together at run time; `?` stands for the value. */
class Conditions {
  readonly params: SqlValue[] = [];
  readonly #parts: string[] = [];

  add(sql: string, value: SqlValue): void {
    this.params.push(value);
    this.#parts.push(sql.replace("?", `?${this.params.length}`));
  }

  /** One without a value. */
  say(sql: string): void {
    this.#parts.push(sql);
  }

  where(): string {
    return this.#parts.length === 0 ? "" : `WHERE ${this.#parts.join(" AND ")}`;
  }
}

const IS_ONE_OF = "IN (SELECT value FROM json_each(?))";

function select({ ids, queues, task }: Selection): Conditions {
  const only = new Conditions();
  if (ids) only.add(`id ${IS_ONE_OF}`, JSON.stringify(ids));
  if (queues) only.add(`queue ${IS_ONE_OF}`, JSON.stringify(queues));
  if (task !== undefined) only.add("task = ?", task);
  return only;
}

/** In words of the indexes: a state that is shown may be a part of one that is stored. */
const SHOWN: Readonly<Record<ShownState, string>> = {
  blocked: "state = 'blocked'",
  scheduled: "state = 'scheduled' AND token = 0",
  retrying: "state = 'scheduled' AND token > 0",
  pending: "state = 'pending'",
  running: "state = 'running' AND cancel_requested_at_ms IS NULL",
  cancelling: "state = 'running' AND cancel_requested_at_ms IS NOT NULL",
  completed: "state = 'completed' AND finished_at_ms IS NOT NULL",
  failed: "state = 'failed' AND finished_at_ms IS NOT NULL",
  cancelled: "state = 'cancelled' AND finished_at_ms IS NOT NULL",
};

const SORT_COLUMNS: Readonly<Record<NonNullable<ListQuery["sort"]>, string>> = {
  id: "id",
  priority: "priority",
  due: "run_at_ms",
  started: "started_at_ms",
  finished: "finished_at_ms",
  attempts: "token",
};

export function list(statements: Statements, query: ListQuery): Job[] {
  const only = select(query);
  if (query.states) only.say(`(${query.states.map((state) => SHOWN[state]).join(" OR ") || "FALSE"})`);
  if (query.key !== undefined) only.add("key = ?", query.key);
  if (query.holder !== undefined) only.add("state = 'running' AND holder = ?", query.holder);
  if (query.behind_id !== undefined) only.add(query.newest_first ? "id < ?" : "id > ?", query.behind_id);
  if (query.since_ms !== undefined) {
    only.add("coalesce(finished_at_ms, started_at_ms, created_at_ms) >= ?", query.since_ms);
  }
  const order = query.newest_first ? "DESC" : "ASC";
  const column = SORT_COLUMNS[query.sort ?? "id"];
  const by = column === "id" ? `id ${order}` : `${column} ${order} NULLS LAST, id ${order}`;
  return statements
    .sql(`${SELECT_JOB} ${only.where()} ORDER BY ${by} LIMIT ?${only.params.length + 1}`)
    .all(...only.params, query.limit)
    .map(toJob);
}

export function checkpoints(statements: Statements, query: CheckpointQuery): Checkpoint[] {
  const only = new Conditions();
  if (query.job !== undefined) only.add("job_id = ?", query.job);
  if (query.task !== undefined) only.add("task = ?", query.task);
  if (query.kind !== undefined) only.add("kind = ?", query.kind);
  return statements
    .sql(`SELECT * FROM checkpoints ${only.where()} ORDER BY id DESC LIMIT ?${only.params.length + 1}`)
    .all(...only.params, query.limit)
    .map(toCheckpoint);
}

export function counts(statements: Statements, selection: Selection | undefined): QueueCount[] {
  if (selection === undefined) return statements.get("counts").all() as unknown as QueueCount[];
  const only = select(selection);
  return statements
    .sql(`SELECT queue, state, count(*) AS count FROM jobs ${only.where()} GROUP BY queue, state ORDER BY queue, state`)
    .all(...only.params) as unknown as QueueCount[];
}

export function parents(statements: Statements, ids: readonly number[]): UnmetDependency[] {
  return statements.get("unmet").all(JSON.stringify(ids)) as unknown as UnmetDependency[];
}

export function backlog(
  statements: Statements,
  query: { queues: readonly string[] | null; task: string | null },
): Backlog {
  const queues = query.queues === null ? null : JSON.stringify(query.queues);
  const row = statements.get("backlog").get(queues, query.task);
  return {
    pending: row?.["pending"] as number,
    running: row?.["running"] as number,
    retrying: row?.["retrying"] as number,
    waiting: row?.["waiting"] as number,
    next_due_ms: row?.["next_due_ms"] as number | null,
  };
}

export function expired(statements: Statements, query: ExpiredQuery, now_ms: number): ExpiredLease[] {
  const { after, dead_holders } = query;
  const params: SqlValue[] = [now_ms - query.grace_ms, after?.expires_at_ms ?? -1, after?.id ?? -1, query.limit];
  const rows =
    dead_holders.length === 0
      ? statements.get("expired").all(...params)
      : statements.get("expiredOrHeldBy").all(...params, JSON.stringify(dead_holders));
  return rows.map((row) => {
    const job = toJob(row);
    const attempt = statements.get("attempt").get(job.id, job.token);
    assert(attempt !== null, `a running job has its attempt (job ${job.id}, ${job.token})`);
    return {
      job,
      expires_at_ms: row["expires_at_ms"] as number,
      holder_dead: dead_holders.includes(row["holder"] as string),
      attempt: toAttempt(attempt),
    };
  });
}
