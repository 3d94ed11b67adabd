/**
 * Enqueue: runs inside one write, so a refused job takes the whole batch back with it.
 */

import { LeaseError } from "../../core/errors.ts";
import type { NewJob, StateName } from "../../core/job.ts";
import { checkNewJob } from "../../core/new_job.ts";
import type { BulkEnqueued, Enqueued } from "../store.ts";
import { addDependencies, freeChildren } from "./dependencies.ts";
import { envColumn, leaseColumn, settingsColumn } from "../rows.ts";
import type { Statements } from "./statements.ts";
import type { Step } from "./writer.ts";

export function enqueue(statements: Statements, jobs: readonly NewJob[], now_ms: number): Enqueued[] {
  return jobs.map((job) => enqueueOne(statements, job, now_ms));
}

function enqueueOne(statements: Statements, job: NewJob, now_ms: number): Enqueued {
  checkNewJob(job);
  const live = job.key === null ? null : statements.get("liveByKey").get(job.key);
  if (live !== null) {
    const id = live["id"] as number;
    if (job.if_exists === "skip") return { id, created: false };
    makeRoom(statements, job, id, live["state"] as StateName, now_ms);
  }
  return { id: insert(statements, job, now_ms), created: true };
}

/** Batch after batch, inside one transaction; only ranges of ids are kept. */
export async function enqueueAll(
  statements: Statements,
  batches: AsyncIterable<readonly NewJob[]>,
  now_ms: number,
  step: Step,
): Promise<BulkEnqueued> {
  const ranges: [number, number][] = [];
  let created = 0;
  for await (const batch of batches) {
    for (const queued of step(() => enqueue(statements, batch, now_ms))) {
      if (queued.created) created += 1;
      const last = ranges.at(-1);
      if (last?.[1] === queued.id - 1) last[1] = queued.id;
      else ranges.push([queued.id, queued.id]);
    }
  }
  return { ranges, created };
}

function makeRoom(statements: Statements, job: NewJob, id: number, state: StateName, now_ms: number): void {
  if (job.if_exists === "fail") {
    throw new LeaseError("key_exists", `key ${job.key} is taken by job ${id} (${state}): wait for it, or cancel it`);
  }
  if (state === "running") {
    throw new LeaseError("key_exists", `key ${job.key} can't be replaced while job ${id} is running: cancel it first`);
  }
  statements.get("cancelWaiting").run(id, now_ms, `replaced by a new job with key ${job.key}`);
  freeChildren(statements, id, now_ms);
}

function insert(statements: Statements, job: NewJob, now_ms: number): number {
  const run_at_ms = Math.max(job.run_at_ms ?? now_ms, now_ms + job.delay_ms);
  const blocked = job.after.length + job.after_any.length > 0;
  const { last_id } = statements
    .get("insertJob")
    .run(
      blocked ? "blocked" : run_at_ms > now_ms ? "scheduled" : "pending",
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
      settingsColumn(job.settings),
      envColumn(job.env),
    );
  if (job.input !== null) statements.get("insertInput").run(last_id, job.input);
  if (blocked) addDependencies(statements, last_id, job, now_ms);
  return last_id;
}
