/** What a holder says: that its job lives, how far that is, which process it is, and what it is itself. */

import { checkCheckpointSize, shortMessage } from "../../core/check_job.ts";
import type { WorkerRecord } from "../../core/records.ts";
import type { SqlRow } from "../../platform/platform.ts";
import { toGrace } from "../shared/columns.ts";
import { ENDED_WORKERS_KEPT, WORKER_COLUMNS, workerColumns } from "../shared/rows.ts";
import { lossOf } from "../shared/verdicts.ts";
import type { CheckpointAnswer, CheckpointRequest, ExtendAnswer, ExtendRequest, ProcessNote } from "../store.ts";
import { byId, idsOf } from "./session/arrays.ts";
import type { Connection } from "./session/session.ts";
import { SQL } from "./statements.ts";

/** A request for an extension, and when it was made: what it says of the past was true then. */
export type TimedExtend = ExtendRequest & { asked_at_ms: number };

/** A request that had to be made again: shorter waits are part of every round trip. */
const LONG_WAIT_MS = 500;

export async function extend(db: Connection, timed: readonly TimedExtend[], now_ms: number): Promise<ExtendAnswer[]> {
  const aged = timed.map((request) => {
    const { beat_age_ms } = request;
    const waited_ms = now_ms - request.asked_at_ms < LONG_WAIT_MS ? 0 : now_ms - request.asked_at_ms;
    return {
      ...request,
      message: shortMessage(request.message ?? null),
      expires_in_ms: Math.round(request.expires_in_ms),
      beat_age_ms: beat_age_ms === null ? null : Math.round(beat_age_ms + waited_ms),
      at_least: request.at_least === true,
      interval_ms: Math.round(request.interval_ms ?? 0),
      by_job: request.by_job === true,
    };
  });
  const rows = await SQL.extend.run(db, aged);
  const extended = new Map(rows.map((row) => [(row["n"] as number) - 1, row]));
  const refused = aged.filter((_, index) => !extended.has(index));
  const current = await fences(db, refused);
  const told = aged.map(({ id, token, by_job, failures = 0 }, index) => {
    const is_extended = extended.has(index);
    return { id, token, failures, self_beats: by_job && is_extended ? 1 : 0, refusals: is_extended ? 0 : 1 };
  });
  const counted = told.filter(({ failures, self_beats, refusals }) => failures + self_beats + refusals > 0);
  if (counted.length > 0) await SQL.countExtensions.run(db, counted);
  return aged.map(({ id, token }, index) => {
    const row = extended.get(index);
    if (row === undefined) return { status: lossOf(current.get(id), token) };
    const expires_at_ms = row["expires_at_ms"] as number;
    const cancel_requested = row["cancel_requested_at_ms"] !== null;
    return { status: "extended", expires_at_ms, cancel_requested, grace: toGrace(row["cancel_grace_ms"]) };
  });
}

/** What writes by holders are held against, by job. */
export async function fences(db: Connection, jobs: readonly { id: number }[]): Promise<ReadonlyMap<number, SqlRow>> {
  const rows = jobs.length === 0 ? [] : await db.query(SQL.fences, [idsOf(jobs)]);
  return byId(rows);
}

/** A statement changes a row once: what is asked twice of the same job in one call goes into a round of its own. */
export async function inRounds<Q extends { id: number }, A>(
  requests: readonly Q[],
  answer: (round: readonly Q[]) => Promise<A[]>,
): Promise<A[]> {
  if (requests.length > 0 && new Set(idsOf(requests)).size === requests.length) return answer(requests);
  const answers: A[] = [];
  let left = [...requests.entries()];
  while (left.length > 0) {
    const seen = new Set<number>();
    const round = left.filter(([, { id }]) => !seen.has(id) && seen.add(id));
    const told = await answer(round.map(([, request]) => request));
    for (const [at, [index]] of round.entries()) answers[index] = told[at] as A;
    if (round.length === left.length) break;
    const asked = new Set(round);
    left = left.filter((entry) => !asked.has(entry));
  }
  return answers;
}

export async function checkpoint(db: Connection, requests: readonly CheckpointRequest[]): Promise<CheckpointAnswer[]> {
  if (requests.length === 0) return [];
  for (const { text } of requests) checkCheckpointSize(text);
  const rows = await SQL.checkpoint.run(db, requests);
  const accepted = new Set(rows.map(({ id, token }) => `${id} ${token}`));
  const isAccepted = ({ id, token }: CheckpointRequest) => accepted.has(`${id} ${token}`);
  const refused = requests.filter((request) => !isAccepted(request));
  const current = await fences(db, refused);
  return requests.map((request) => (isAccepted(request) ? "accepted" : lossOf(current.get(request.id), request.token)));
}

export async function noteProcess(db: Connection, notes: readonly ProcessNote[]): Promise<void> {
  await SQL.noteProcess.run(db, notes);
}

const SAVE_WORKER = `INSERT INTO lease.workers (${WORKER_COLUMNS.join(", ")})
  VALUES (${WORKER_COLUMNS.map((_, index) => `$${index + 1}`).join(", ")})
  ON CONFLICT (id) DO UPDATE SET slots = excluded.slots, seen_at_ms = excluded.seen_at_ms,
    stopped_at_ms = excluded.stopped_at_ms, ended = excluded.ended, draining = excluded.draining,
    completed = excluded.completed, failed = excluded.failed`;

const ENDED = "FROM lease.workers WHERE stopped_at_ms IS NOT NULL";
const FORGET_WORKERS = `DELETE ${ENDED}
  AND id NOT IN (SELECT id ${ENDED} ORDER BY stopped_at_ms DESC, id LIMIT ${ENDED_WORKERS_KEPT})
  AND NOT EXISTS (SELECT 1 FROM lease.jobs WHERE state = 'running' AND holder = workers.id)`;

/** A new one takes the place of the oldest of those that have ended and hold nothing. */
export async function saveWorker(db: Connection, worker: WorkerRecord): Promise<void> {
  await db.query(SAVE_WORKER, workerColumns(worker));
  if (worker.seen_at_ms === worker.started_at_ms) await db.query(FORGET_WORKERS);
}
