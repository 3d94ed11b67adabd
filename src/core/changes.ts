/** What a person changes about a job that waits. */

import type { Job, JobSettings, NewJob } from "./job.ts";
import { JOB_FIELD_NAMES, jobField, type JobFieldName } from "./job_fields.ts";

type Parents = Pick<NewJob, "after" | "after_any" | "after_failed" | "after_task">;

/** What of a job is to be otherwise; what is not named stays. */
export interface JobChanges extends Partial<Pick<Job, "queue" | "task" | "priority" | "limits" | "needs">> {
  settings?: Partial<JobSettings>;
  when?: Pick<NewJob, "run_at_ms" | "delay_ms">;
  /** All whom it waits for from now on. */
  parents?: Parents;
}

export const PARENT_FIELDS = ["after", "after_any", "after_failed", "after_task"] as const satisfies JobFieldName[];

/** What makes it the job that it is stays as it was enqueued. */
export const FIXED_FIELDS = [
  "argv",
  "shell",
  "input",
  "key",
  "if_exists",
  "cwd",
  "env",
] as const satisfies JobFieldName[];

/** Of a job as it is described now, only what was said. */
export function changesOf(job: NewJob, given: (name: JobFieldName) => boolean): JobChanges {
  const { queue, task, priority, limits, needs, run_at_ms, delay_ms } = job;
  const { after, after_any, after_failed, after_task } = job;
  const own = JOB_FIELD_NAMES.filter(given).flatMap((name) => jobField(name).setting?.name ?? []);
  return {
    ...(given("queue") ? { queue } : {}),
    ...(given("task") ? { task } : {}),
    ...(given("priority") ? { priority } : {}),
    ...(given("limit") ? { limits } : {}),
    ...(given("need") ? { needs } : {}),
    ...(given("delay") || given("at") ? { when: { run_at_ms, delay_ms } } : {}),
    ...(own.length > 0 ? { settings: Object.fromEntries(own.map((name) => [name, job.settings[name]])) } : {}),
    ...(PARENT_FIELDS.some(given) ? { parents: { after, after_any, after_failed, after_task } } : {}),
  };
}
