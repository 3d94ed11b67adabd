/**
 * Enqueue: runs inside one write, so a refused job takes the whole batch back with it.
 */

import { checkNewJob } from "../../core/check_job.ts";
import type { NewJob, StateName } from "../../core/job.ts";
import { isBlocked } from "../shared/columns.ts";
import { answersWhenDone, replaces } from "../shared/verdicts.ts";
import type { Enqueued } from "../store.ts";
import type { Database } from "./connection.ts";
import { addDependencies, freeChildren } from "./dependencies.ts";
import { ENQUEUE_SQL, jobColumns } from "./insert.ts";

export function enqueue(db: Database, jobs: readonly NewJob[], done_answers = false): Enqueued[] {
  const now_ms = db.now_ms();
  return jobs.map((job) => enqueueOne(db, job, now_ms, done_answers));
}

export function enqueueOne(db: Database, job: NewJob, now_ms: number, done_answers = false): Enqueued {
  checkNewJob(job);
  const live = job.key === null ? null : db.sql(ENQUEUE_SQL.liveByKey).get(job.key);
  if (live !== null) {
    const id = live["id"] as number;
    if (!replaces(job, { id, state: live["state"] as StateName })) return { id, created: false };
    db.sql(ENQUEUE_SQL.cancelWaiting).run(id, now_ms, `replaced by a new job with key ${job.key}`);
    freeChildren(db, id, now_ms);
  } else if (done_answers && job.key !== null) {
    const done = db.sql(ENQUEUE_SQL.newestByKey).get(job.key);
    if (done !== null && answersWhenDone(done["state"] as StateName))
      return { id: done["id"] as number, created: false };
  }
  return { id: insert(db, job, now_ms), created: true };
}

function insert(db: Database, job: NewJob, now_ms: number): number {
  const { last_id } = db.sql(ENQUEUE_SQL.insertJob).run(...jobColumns(job, now_ms));
  if (job.input !== null) db.sql(ENQUEUE_SQL.insertInput).run(last_id, job.input);
  if (isBlocked(job)) addDependencies(db, last_id, job, now_ms);
  return last_id;
}
