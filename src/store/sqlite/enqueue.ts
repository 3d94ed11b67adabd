/**
 * Enqueue: runs inside one write, so a refused job takes the whole batch back with it.
 */

import { checkNewJob } from "../../core/check_job.ts";
import { LeaseError } from "../../core/errors.ts";
import type { NewJob, StateName } from "../../core/job.ts";
import type { Enqueued } from "../store.ts";
import type { Statements } from "./connection.ts";
import { addDependencies, freeChildren } from "./dependencies.ts";
import { isBlocked, jobColumns } from "./insert.ts";

export function enqueue(
  statements: Statements,
  jobs: readonly NewJob[],
  now_ms: number,
  done_answers = false,
): Enqueued[] {
  return jobs.map((job) => enqueueOne(statements, job, now_ms, done_answers));
}

export function enqueueOne(statements: Statements, job: NewJob, now_ms: number, done_answers = false): Enqueued {
  checkNewJob(job);
  const live = job.key === null ? null : statements.get("liveByKey").get(job.key);
  if (live !== null) {
    const id = live["id"] as number;
    if (job.if_exists === "skip") return { id, created: false };
    makeRoom(statements, job, id, live["state"] as StateName, now_ms);
  } else if (done_answers && job.key !== null) {
    const done = statements.get("newestByKey").get(job.key);
    if (done !== null && done["state"] !== "cancelled") return { id: done["id"] as number, created: false };
  }
  return { id: insert(statements, job, now_ms), created: true };
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
  const { last_id } = statements.get("insertJob").run(...jobColumns(job, now_ms));
  if (job.input !== null) statements.get("insertInput").run(last_id, job.input);
  if (isBlocked(job)) addDependencies(statements, last_id, job, now_ms);
  return last_id;
}
