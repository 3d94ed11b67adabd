/**
 * Questions about jobs. Reads never wait for writers: WAL gives each its own snapshot.
 */

import type { Job } from "../../core/job.ts";
import type { Checkpoint, QueueCount } from "../../core/records.ts";
import type { Backlog, CheckpointQuery, Selection, UnmetDependency } from "../queries.ts";
import { toCheckpoint, toJob } from "../shared/rows.ts";
import { Conditions, select } from "./conditions.ts";
import type { Statements } from "./connection.ts";

export function jobs(statements: Statements, ids: readonly number[]): (Job | null)[] {
  return ids.map((id) => {
    const row = statements.get("job").get(id);
    return row === null ? null : toJob(row);
  });
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

/** Of whole queues from what is kept about them; of what is named more closely, job by job. */
export function counts(statements: Statements, selection: Selection = {}): QueueCount[] {
  const { ids, queues, task } = selection;
  if (ids === undefined && task === undefined) {
    const all = statements.get("counts").all(queues === undefined ? null : JSON.stringify(queues));
    return all as unknown as QueueCount[];
  }
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
  const only = select({
    ...(query.queues === null ? {} : { queues: query.queues }),
    ...(query.task === null ? {} : { task: query.task }),
  });
  // By the index of the state: a task may have very many jobs that have ended.
  const from = (index: string, condition: string) => `FROM jobs INDEXED BY ${index} ${only.where(condition)}`;
  const row = statements
    .sql(
      `SELECT (SELECT count(*) FROM jobs ${only.where("state = 'pending'")}) AS pending,
        (SELECT count(*) ${from("jobs_expiry", "state = 'running'")}) AS running,
        (SELECT count(*) ${from("jobs_retrying", "state = 'scheduled' AND token > 0")}) AS retrying,
        (SELECT count(*) ${from("jobs_due", "state = 'scheduled'")}) AS scheduled,
        (SELECT count(*) ${from("jobs_blocked", "state = 'blocked'")}) AS blocked,
        (SELECT min(run_at_ms) ${from("jobs_due", "state = 'scheduled'")}) AS next_due_ms`,
    )
    .get(...only.params);
  const retrying = row?.["retrying"] as number;
  return {
    pending: row?.["pending"] as number,
    running: row?.["running"] as number,
    retrying,
    waiting: (row?.["scheduled"] as number) - retrying + (row?.["blocked"] as number),
    next_due_ms: row?.["next_due_ms"] as number | null,
  };
}
