/** A new job as a row: its columns, and the statements of enqueue; apart, because a quick one loads no more than this. */

import type { NewJob } from "../../core/job.ts";
import type { SqlValue } from "../../platform/platform.ts";
import { envColumn, isBlocked, leaseColumn, settingsColumn } from "../shared/columns.ts";

/** In the order of `insertJob`. `settings` is their column, where the caller has it already. */
export function jobColumns(job: NewJob, now_ms: number, settings = settingsColumn(job.settings)): SqlValue[] {
  const run_at_ms = Math.max(job.run_at_ms ?? now_ms, now_ms + job.delay_ms);
  return [
    isBlocked(job) ? "blocked" : run_at_ms > now_ms ? "scheduled" : "pending",
    job.queue,
    job.priority,
    run_at_ms,
    job.settings.retries,
    leaseColumn(job.settings),
    now_ms,
    job.task,
    job.key,
    JSON.stringify(job.argv),
    job.cwd,
    settings,
    envColumn(job.env),
  ];
}

export const ENQUEUE_SQL = {
  insertJob: `INSERT INTO jobs (state, queue, priority, run_at_ms, retries, lease_ms, created_at_ms, task, key, argv, cwd,
    settings, env) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)`,
  insertInput: "INSERT INTO inputs (job_id, data) VALUES (?1, ?2)",
  liveByKey: `SELECT id, state FROM jobs
    WHERE key = ?1 AND state IN ('blocked', 'scheduled', 'pending', 'running')`,
  newestByKey: "SELECT id, state FROM jobs WHERE key = ?1 ORDER BY id DESC LIMIT 1",
  cancelWaiting: `UPDATE jobs SET state = 'cancelled', finished_at_ms = ?2, reason = ?3
    WHERE id = ?1 AND state IN ('blocked', 'scheduled', 'pending')`,
  insertDependency: "INSERT INTO dependencies (job_id, parent_id, kind) VALUES (?1, ?2, ?3)",
  childrenOf: "SELECT job_id, kind FROM dependencies WHERE parent_id = ?1 ORDER BY job_id",
  unblock: `UPDATE jobs SET state = iif(run_at_ms > ?2, 'scheduled', 'pending')
    WHERE id = ?1 AND state = 'blocked' AND NOT EXISTS (
      SELECT 1 FROM dependencies AS d JOIN jobs AS parent ON parent.id = d.parent_id
      WHERE d.job_id = ?1 AND parent.state <> 'completed'
        AND (d.kind = 'success' OR parent.state NOT IN ('failed', 'cancelled')))`,
  doom: `UPDATE jobs SET state = 'cancelled', finished_at_ms = ?2, reason = ?3 WHERE id = ?1 AND state = 'blocked'`,
  fence: "SELECT state, token, expires_at_ms, cancel_requested_at_ms, task FROM jobs WHERE id = ?1",
} as const;
