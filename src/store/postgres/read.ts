/**
 * Questions about jobs. Reads never wait for writers: each statement has its own snapshot.
 */

import type { Job } from "../../core/job.ts";
import type { Attempt, Checkpoint, QueueCount } from "../../core/records.ts";
import type { Backlog, CheckpointQuery, LeaseHealth, Selection, UnmetDependency } from "../queries.ts";
import { toAttempt, toCheckpoint, toJob } from "../shared/rows.ts";
import { numbers, texts } from "./session/arrays.ts";
import { Conditions, select } from "./session/conditions.ts";
import type { Connection } from "./session/link.ts";
import type { Statements } from "./session/sql.ts";
import { SELECT_JOB } from "./statements.ts";

export async function jobs(
  statements: Statements,
  connection: Connection,
  ids: readonly number[],
): Promise<(Job | null)[]> {
  if (ids.length === 0) return [];
  const rows = await statements.sql(connection, `${SELECT_JOB} WHERE id = ANY ($1::bigint[])`, [numbers(ids)]);
  const found = new Map(rows.map((row) => [row["id"] as number, row]));
  return ids.map((id) => {
    const row = found.get(id);
    return row === undefined ? null : toJob(row);
  });
}

export async function checkpoints(
  statements: Statements,
  connection: Connection,
  query: CheckpointQuery,
): Promise<Checkpoint[]> {
  const only = new Conditions();
  if (query.job !== undefined) only.add("job_id = ?", query.job);
  if (query.task !== undefined) only.add("task = ?", query.task);
  if (query.kind !== undefined) only.add("kind = ?", query.kind);
  const text = `SELECT * FROM lease.checkpoints ${only.where()} ORDER BY id DESC LIMIT $${only.params.length + 1}`;
  return (await statements.sql(connection, text, [...only.params, query.limit])).map(toCheckpoint);
}

export async function counts(
  statements: Statements,
  connection: Connection,
  selection: Selection | undefined,
): Promise<QueueCount[]> {
  const only = select(selection ?? {});
  const text = `SELECT queue, state, count(*) AS count FROM lease.jobs ${only.where()} GROUP BY queue, state
    ORDER BY queue COLLATE "C", state`;
  return (await statements.sql(connection, text, only.params)) as unknown as QueueCount[];
}

const RETRY_COUNTS = `SELECT token - 1 AS retries, count(*) AS jobs FROM lease.jobs
  WHERE state IN ('completed', 'failed') AND finished_at_ms IS NOT NULL GROUP BY token ORDER BY token`;

export async function retryCounts(statements: Statements, connection: Connection) {
  return (await statements.sql(connection, RETRY_COUNTS)) as { retries: number; jobs: number }[];
}

const UNMET = `SELECT d.job_id AS job, d.parent_id AS parent, d.kind, parent.state, coalesce(parent.finished_at_ms,
    CASE parent.state WHEN 'running' THEN parent.started_at_ms ELSE parent.created_at_ms END) AS since_ms
  FROM lease.dependencies AS d JOIN lease.jobs AS parent ON parent.id = d.parent_id
  JOIN lease.jobs AS child ON child.id = d.job_id AND child.state = 'blocked'
  WHERE d.job_id = ANY ($1::bigint[]) AND parent.state <> 'completed'
    AND (d.kind = 'success' OR parent.state NOT IN ('failed', 'cancelled'))
  ORDER BY d.job_id, d.parent_id`;

export async function parents(
  statements: Statements,
  connection: Connection,
  ids: readonly number[],
): Promise<UnmetDependency[]> {
  return (await statements.sql(connection, UNMET, [numbers(ids)])) as unknown as UnmetDependency[];
}

/** The jobs of the given queues (null: all) and task (null: any). */
const MINE = "($1::text[] IS NULL OR queue = ANY ($1::text[])) AND ($2::text IS NULL OR task = $2::text)";

const BACKLOG = `SELECT
  (SELECT count(*) FROM lease.jobs WHERE state = 'pending' AND ${MINE}) AS pending,
  (SELECT count(*) FROM lease.jobs WHERE state = 'running' AND ${MINE}) AS running,
  (SELECT count(*) FROM lease.jobs WHERE state = 'scheduled' AND token > 0 AND ${MINE}) AS retrying,
  (SELECT count(*) FROM lease.jobs WHERE state = 'scheduled' AND token = 0 AND ${MINE})
    + (SELECT count(*) FROM lease.jobs WHERE state = 'blocked' AND ${MINE}) AS waiting,
  (SELECT min(run_at_ms) FROM lease.jobs WHERE state = 'scheduled' AND ${MINE}) AS next_due_ms`;

export interface Range {
  queues: readonly string[] | null;
  task: string | null;
}

export async function backlog(statements: Statements, connection: Connection, query: Range): Promise<Backlog> {
  const queues = query.queues === null ? null : texts(query.queues);
  const [row] = await statements.sql(connection, BACKLOG, [queues, query.task]);
  return row as unknown as Backlog;
}

export async function topPriority(
  statements: Statements,
  connection: Connection,
  query: Range,
): Promise<number | null> {
  const queues = query.queues === null ? null : texts(query.queues);
  const [row] = await statements.run(connection, "topPriority", [queues, query.task]);
  return (row?.["priority"] ?? null) as number | null;
}

export async function attempts(statements: Statements, connection: Connection, id: number): Promise<Attempt[]> {
  return (await statements.run(connection, "attempts", [id])).map(toAttempt);
}

export async function cancelRequests(statements: Statements, connection: Connection, holder: string) {
  return (await statements.run(connection, "cancelRequests", [holder])) as { id: number; token: number }[];
}

export async function nextDue(statements: Statements, connection: Connection): Promise<number | null> {
  const [row] = await statements.run(connection, "nextDue");
  return (row?.["at_ms"] ?? null) as number | null;
}

const LEASES = `SELECT count(*) AS held, count(*) FILTER (WHERE expires_at_ms < clock.ms) AS stale,
    min(expires_at_ms) FILTER (WHERE expires_at_ms >= clock.ms) AS next_expires_at_ms
  FROM (SELECT lease.now_ms() AS ms OFFSET 0) AS clock JOIN lease.jobs ON state = 'running'`;

export async function leases(statements: Statements, connection: Connection): Promise<LeaseHealth> {
  const [row] = await statements.sql(connection, LEASES);
  return row as unknown as LeaseHealth;
}
