/** What a holder says: that its job lives, how far that is, which process it is, and what it is itself. */

import { checkCheckpointSize, shortMessage } from "../../core/check_job.ts";
import type { WorkerRecord } from "../../core/records.ts";
import { toGrace } from "../shared/columns.ts";
import { ENDED_WORKERS_KEPT, WORKER_COLUMNS, workerColumns } from "../shared/rows.ts";
import { isHeldBy, lossOf } from "../shared/verdicts.ts";
import type { CheckpointAnswer, CheckpointRequest, ExtendAnswer, ExtendRequest, ProcessNote } from "../store.ts";
import type { Database } from "./open.ts";
import { fenceOf } from "./dependencies.ts";
import { SQL } from "./statements.ts";

export function extend(db: Database, requests: readonly ExtendRequest[]): ExtendAnswer[] {
  const now_ms = db.now_ms();
  return requests.map((request) => {
    const { id, token, beat_age_ms } = request;
    const beat_at_ms = beat_age_ms === null ? null : now_ms - beat_age_ms;
    const wanted_ms = (beat_at_ms ?? now_ms) + request.expires_in_ms;
    const at_least = request.at_least === true ? 1 : 0;
    const { progress = null } = request;
    const message = shortMessage(request.message ?? null);
    const floor_ms = now_ms - (request.jumped_ms ?? 0);
    const { interval_ms = 0, failures = 0 } = request;
    const by_job = request.by_job === true ? 1 : 0;
    const times = [wanted_ms, beat_at_ms, progress, message, now_ms, at_least, floor_ms, by_job, interval_ms];
    const row = db.sql(SQL.extend).get(id, token, ...times);
    if (row === null) {
      db.sql(SQL.countRefusal).run(id, token);
      return { status: lossOf(fenceOf(db, id), token) };
    }
    const expires_at_ms = row["expires_at_ms"] as number;
    const moved = at_least === 0 || expires_at_ms === wanted_ms ? 1 : 0;
    db.sql(SQL.countBeats).run(id, token, request.beats, by_job, moved, failures);
    const cancel_requested = row["cancel_requested_at_ms"] !== null;
    return { status: "extended", expires_at_ms, cancel_requested, grace: toGrace(row["cancel_grace_ms"]) };
  });
}

export function checkpoint(db: Database, requests: readonly CheckpointRequest[]): CheckpointAnswer[] {
  const now_ms = db.now_ms();
  return requests.map((request) => {
    checkCheckpointSize(request.text);
    const row = fenceOf(db, request.id);
    if (!isHeldBy(row, request) || (row?.["expires_at_ms"] as number) < now_ms) return lossOf(row, request.token);
    db.sql(SQL.insertCheckpoint).run(request.id, "progress", request.token, now_ms, request.text);
    return "accepted";
  });
}

export function noteProcess(db: Database, notes: readonly ProcessNote[]): void {
  for (const { id, token, boot_id, pid, pid_started, fence = null } of notes) {
    db.sql(SQL.noteProcess).run(id, token, boot_id, pid, pid_started, fence);
  }
}

const SAVE_WORKER = `INSERT INTO workers (${WORKER_COLUMNS.join(", ")})
  VALUES (${WORKER_COLUMNS.map((_, index) => `?${index + 1}`).join(", ")})
  ON CONFLICT (id) DO UPDATE SET slots = excluded.slots, seen_at_ms = excluded.seen_at_ms,
    stopped_at_ms = excluded.stopped_at_ms, ended = excluded.ended, draining = excluded.draining,
    completed = excluded.completed, failed = excluded.failed`;

const ENDED = "FROM workers WHERE stopped_at_ms IS NOT NULL";
const FORGET_WORKERS = `DELETE ${ENDED}
  AND id NOT IN (SELECT id ${ENDED} ORDER BY stopped_at_ms DESC, id LIMIT ${ENDED_WORKERS_KEPT})
  AND NOT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_expiry WHERE state = 'running' AND holder = workers.id)`;

/** A new one takes the place of the oldest of those that have ended and hold nothing. */
export function saveWorker(db: Database, worker: WorkerRecord): void {
  db.sql(SAVE_WORKER).run(...workerColumns(worker));
  if (worker.seen_at_ms === worker.started_at_ms) db.sql(FORGET_WORKERS).run();
}

/** Of leases that are not over. */
const PROLONG =
  "UPDATE jobs SET expires_at_ms = ?2 WHERE state = 'running' AND expires_at_ms >= ?1 AND expires_at_ms < ?2";
const ANY_ENDS = `SELECT 1 AS found FROM jobs WHERE state = 'running' AND expires_at_ms >= ?1 AND expires_at_ms < ?2 LIMIT 1`;

/** Nobody's lease ends within so long: its holder will not be able to extend it. */
export function prolong(db: Database, hold_ms: number): void {
  const now_ms = db.now_ms();
  db.sql(PROLONG).run(now_ms, now_ms + hold_ms);
}

export function anyEnds(db: Database, within_ms: number): boolean {
  const now_ms = db.now_ms();
  return db.sql(ANY_ENDS).get(now_ms, now_ms + within_ms) !== null;
}
