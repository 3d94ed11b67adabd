/** What a waiting job is once a person has changed it: decided here, the same for both engines, and written by each. */

import { checkNewJob } from "../../core/check_job.ts";
import { LeaseError } from "../../core/errors.ts";
import { gateText } from "../../core/gate.ts";
import type { Job, NewJob, StateName } from "../../core/job.ts";
import type { SqlValue } from "../../platform/platform.ts";
import type { JobChanges } from "../../core/changes.ts";
import type { EditAnswer } from "../queries.ts";
import { isBlocked, leaseColumn, settingsColumn } from "./columns.ts";

const WAITING: ReadonlySet<StateName> = new Set(["blocked", "scheduled", "pending"]);

/** Null: it can be changed. One that can't be read is left to whoever sets it aside. */
export function editRefusal(id: number, job: Job | null): EditAnswer | null {
  if (job === null) return { id, status: "unknown", state: null };
  if (WAITING.has(job.state.name) && job.damaged === undefined) return null;
  return { id, status: "not_waiting", state: job.state.name };
}

export interface Edited {
  /** As it would be asked for now. */
  job: NewJob;
  /** Whom it waits for is said anew. */
  relinked: boolean;
  state: StateName;
  run_at_ms: number;
}

/** Refuses what would be refused of a new job. */
export function edited(job: Job, changes: JobChanges, now_ms: number): Edited {
  const { parents = NOBODY, settings, when, ...rest } = changes;
  if ([...parents.after, ...parents.after_any, ...parents.after_failed].includes(job.id)) throw circle(job.id, job.id);
  const { queue, task, key, priority, argv, input, cwd, env, limits, needs } = job;
  const asked: NewJob = {
    queue,
    task,
    key,
    priority,
    argv,
    input,
    cwd,
    env,
    limits,
    needs,
    ...rest,
    ...parents,
    settings: { ...job.settings, ...settings },
    if_exists: "skip",
    run_at_ms: when?.run_at_ms ?? null,
    delay_ms: when?.delay_ms ?? 0,
  };
  checkNewJob(asked);
  const run_at_ms = when === undefined ? job.run_at_ms : Math.max(asked.run_at_ms ?? now_ms, now_ms + asked.delay_ms);
  const relinked = changes.parents !== undefined;
  const blocked = relinked ? isBlocked(asked) : job.state.name === "blocked";
  // What was due once stays so, also when the clock has been set back since.
  const due = run_at_ms <= now_ms || (when === undefined && job.state.name === "pending");
  const state = blocked ? "blocked" : due ? "pending" : "scheduled";
  return { job: asked, relinked, state, run_at_ms };
}

const NOBODY = { after: [], after_any: [], after_failed: [], after_task: [] };

export const EDITED_COLUMNS = "state queue task priority run_at_ms retries lease_ms settings gate".split(" ");

/** In this order. */
export function editedColumns({ job, state, run_at_ms }: Edited): SqlValue[] {
  const { queue, task, priority, settings } = job;
  const own = [settings.retries, leaseColumn(settings), settingsColumn(settings), gateText(job)];
  return [state, queue, task, priority, run_at_ms, ...own];
}

/** To be thrown: `parent`, or one that it waits for, waits for the job. */
export function circle(id: number, parent: number): LeaseError {
  if (id === parent) return new LeaseError("dependency", `job ${id} can't wait for itself`);
  return new LeaseError("dependency", `job ${id} can't wait for job ${parent}, which waits for it`);
}
