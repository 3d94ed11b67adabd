/** A new job as the columns of `insertJob`; apart from enqueue, because a quick one loads no more than this. */

import type { NewJob } from "../../core/job.ts";
import type { SqlValue } from "../../platform/platform.ts";
import { envColumn, leaseColumn, settingsColumn } from "../shared/columns.ts";

export function isBlocked(job: NewJob): boolean {
  return job.after.length + job.after_any.length > 0;
}

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
