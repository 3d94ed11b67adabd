/**
 * What a sweep looks for, and how attempts end by it, many at a time: the table of jobs has so many indexes that opening
 * them for each row would cost more than the row. Jobs with the same outcome are written together; the fence is checked
 * row by row.
 *
 * A sweep also notices jumps of this machine's clock, by comparing it with the time since boot: what anybody saw last is
 * kept in the store, so that one that begins after a jump knows of it as well. A sleep of the machine counts as one.
 */

import * as v from "valibot";
import { JUMP_MS, type MachineTime } from "../../core/clock.ts";
import { isFinished } from "../../core/job.ts";
import { isStoreId } from "../../core/life.ts";
import { once } from "../../core/once.ts";
import type { AttemptRecord, RecoveryTotals, SweepCounts } from "../../core/records.ts";
import type { SqlRow, SqlValue } from "../../platform/platform.ts";
import type { ExpiredLease, ExpiredQuery } from "../queries.ts";
import { CLOCK_SET_BACK, RECOVERY_TOTALS, fromJson } from "../shared/facts.ts";
import { finite } from "../shared/cells.ts";
import { stateColumns, toAttempt, toJob } from "../shared/rows.ts";
import { addTotals } from "../shared/verdicts.ts";
import type { RecoverRequest } from "../store.ts";
import { noteEnd } from "./history.ts";
import type { Database } from "./open.ts";
import { INSERT_JOB, jobColumns } from "./quick_enqueue.ts";
import { freeChildren } from "./dependencies.ts";
import { lastLogs } from "./logs.ts";
import { audit } from "./settle.ts";
import { SQL } from "./statements.ts";

export function recover(db: Database, requests: readonly RecoverRequest[]): ("recovered" | "changed")[] {
  const now_ms = db.now_ms();
  const recovered = new Set<number>();
  for (const alike of Map.groupBy(requests, outcome).values()) {
    for (const id of recoverAlike(db, alike)) recovered.add(id);
  }
  const done = requests.filter(({ id }) => recovered.has(id));
  for (const alike of Map.groupBy(done, endOf).values()) endAttempts(db, alike, now_ms);
  for (const request of done) noteEnd(db, request, now_ms, true);
  for (const request of done) if (request.audit !== null) audit(db, request, now_ms);
  for (const { id, change } of done) if (isFinished(change.state)) freeChildren(db, id, now_ms);
  for (const { hook } of done) if (hook) db.sql(INSERT_JOB).run(...jobColumns(hook, now_ms));
  return requests.map(({ id }) => (recovered.has(id) ? "recovered" : "changed"));
}

/** By hand: as JSON it takes longer than the write. */
function outcome({ token, change: { state, failures, result, reason } }: RecoverRequest): string {
  const { cause, exit_code, error, output } = result;
  return [token, ...stateColumns(state), failures, cause, exit_code, error, output, reason].join("\0");
}

function endOf({ token, change: { ended } }: RecoverRequest): string {
  return ended === null ? "" : [token, ended.cause, ended.exit_code, ended.signal, ended.error].join("\0");
}

const idsOf = (requests: readonly RecoverRequest[]): string => JSON.stringify(requests.map(({ id }) => id));

/** Most often all of them are as they were read: then it need not be told which, which takes a third of the time. */
function recoverAlike(db: Database, requests: readonly RecoverRequest[]): number[] {
  const [first] = requests;
  if (first === undefined) return [];
  const { token, change } = first;
  const { cause, exit_code, error, output } = change.result;
  const results = [change.failures, cause, exit_code, error, output, change.reason];
  const seen = `{${requests.map(({ id, expires_at_ms }) => `"${id}":${expires_at_ms}`).join(",")}}`;
  const params = [seen, token, ...stateColumns(change.state), ...results];
  db.sql("SAVEPOINT alike").run();
  db.sql(SQL.recover).run(...params);
  const all = db.sql(SQL.changed).get()?.["rows"] === requests.length;
  if (!all) db.sql("ROLLBACK TO alike").run();
  db.sql("RELEASE alike").run();
  if (all) return requests.map(({ id }) => id);
  const rows = db.sql(SQL.recoverTelling).all(...params);
  return rows.map(({ id }) => id as number);
}

function endAttempts(db: Database, requests: readonly RecoverRequest[], now_ms: number): void {
  const [first] = requests;
  const ended = first?.change.ended ?? null;
  if (first === undefined || ended === null) return;
  const { cause, exit_code, signal, error } = ended;
  db.sql(SQL.endAttempts).run(idsOf(requests), first.token, now_ms, cause, exit_code, signal, error);
  for (const { id, token, change } of requests) {
    const last_line = change.ended?.last_line ?? null;
    if (last_line !== null) db.sql(SQL.setLastLine).run(id, token, last_line);
  }
}

export function recovery(db: Database): RecoveryTotals | null {
  return fromJson(RECOVERY_TOTALS, db.sql(SQL.getMeta).get("recovery")?.["value"]);
}

export function noteRecovery(db: Database, found: SweepCounts): void {
  db.sql(SQL.setMeta).run("recovery", addTotals(recovery(db), found, db.now_ms()));
}

/** In one snapshot: as statements of their own the many small reads would spend most of their time on locks. */
export function expired(db: Database, query: ExpiredQuery): ExpiredLease[] {
  db.sql("SAVEPOINT page").run();
  try {
    return readExpired(db, query);
  } finally {
    db.sql("RELEASE page").run();
  }
}

function readExpired(db: Database, query: ExpiredQuery): ExpiredLease[] {
  const { after, dead_holders, last_chunks = 0 } = query;
  const params: SqlValue[] = [db.now_ms() - query.grace_ms, after?.expires_at_ms ?? -1, after?.id ?? -1, query.limit];
  const rows =
    dead_holders.length === 0
      ? db.sql(SQL.expired).all(...params)
      : db.sql(SQL.expiredOrHeldBy).all(...params, JSON.stringify(dead_holders));
  return rows.map((row) => {
    const job = toJob(row);
    const asked = last_chunks > 0 && row["printed"] === 1;
    return {
      job,
      expires_at_ms: row["expires_at_ms"] as number,
      holder_dead: dead_holders.includes(row["holder"] as string),
      attempt: toCurrentAttempt(row),
      last_chunks: asked ? lastLogs(db, job.id, job.token, last_chunks) : [],
    };
  });
}

/** Of a running job: it began when the job did last, and has no end. One that was deleted is made up from the job. */
function toCurrentAttempt(row: SqlRow): AttemptRecord {
  const { token = null, granted_ms = null } = row;
  const worker = row["worker"] ?? row["holder"] ?? null;
  return toAttempt({ ...row, ...NO_END, attempt: token, worker, lease_ms: granted_ms });
}

const NO_END = { ended_at_ms: null, cause: null, exit_code: null, signal: null, error: null, last_line: null };

interface Reading extends MachineTime {
  wall_ms: number;
  hold_ms: number;
}

const CLOCK_SEEN = once(() =>
  v.object({
    boot_id: v.string(),
    /** When the machine was booted, by its clock of now. */
    booted_at_ms: finite(),
    suspends: finite(),
    /** In time since boot. */
    jumped_at_ms: v.nullable(finite()),
  }),
);
type Seen = v.InferOutput<ReturnType<typeof CLOCK_SEEN>>;

/**
 * A job that is being stopped may hold more than the length of its lease, asked for after the clock was set and before
 * anybody noticed. It costs little: who died on this machine is found by its process, whatever its lease says.
 */
export const STOP_ROOM_MS = 60_000;

// A lease should not become shorter than its holder believes. One from before the clock was set moves with it; one from after
// is right already, and can't be told from the others unless it is longer than any that is asked for.
const CUT_LEASES = `UPDATE jobs SET
    expires_at_ms = max(jobs.expires_at_ms + ?2, ?1 + granted.lease_ms + ${STOP_ROOM_MS}),
    last_beat_at_ms = min(last_beat_at_ms, ?1)
  FROM attempts AS granted WHERE granted.job_id = jobs.id AND granted.attempt = jobs.token
    AND jobs.state = 'running' AND jobs.expires_at_ms > ?1 + granted.lease_ms + ${STOP_ROOM_MS}`;
/** Or what ends now would be taken for what ended before anybody asked. */
const CUT_CANCELS = `UPDATE jobs SET cancel_requested_at_ms = ?1 WHERE state = 'running' AND cancel_requested_at_ms > ?1`;
// A pause before a retry is an interval; what a person put off is a moment, and stays. One that began after the clock
// was set and before anybody noticed is cut short: better than an hour too long.
const MOVE_RETRIES = "UPDATE jobs SET run_at_ms = run_at_ms + ?1 WHERE state = 'scheduled' AND token > 0";

/** Or a rate would count them for as long as the clock was set back. */
const MOVE_STARTS = "UPDATE starts SET at_ms = at_ms + ?1";

function lastSeen(db: Database, boot_id: string): Seen | null {
  const last = fromJson(CLOCK_SEEN, db.sql(SQL.getMeta).get("clock")?.["value"]);
  return last?.boot_id === boot_id ? last : null;
}

function moved(last: Seen, { wall_ms, uptime_ms }: Reading): number {
  return wall_ms - uptime_ms - last.booted_at_ms;
}

/** Nothing to note, and nothing to wait for. */
export function isSteady(db: Database, reading: Reading): boolean {
  // A system that does not tell its uptime: there is nothing to compare with.
  if (Number.isNaN(reading.uptime_ms)) return true;
  const last = lastSeen(db, reading.boot_id);
  if (last === null || last.suspends !== reading.suspends) return false;
  return Math.abs(moved(last, reading)) <= JUMP_MS && last.jumped_at_ms === null;
}

export function noticeClockJump(db: Database, reading: Reading): boolean {
  const { boot_id, wall_ms, uptime_ms, suspends, hold_ms } = reading;
  const last = lastSeen(db, boot_id);
  const moved_ms = last === null ? 0 : moved(last, reading);
  if (moved_ms < -JUMP_MS) {
    // Not by the reading, which may have waited for the lock while others were granted leases.
    db.sql(CUT_LEASES).run(db.now_ms(), moved_ms);
    db.sql(CUT_CANCELS).run(db.now_ms());
    db.sql(MOVE_RETRIES).run(moved_ms);
    db.sql(MOVE_STARTS).run(moved_ms);
    noteSetBack(db, -moved_ms);
  }
  const jumped = moved_ms > JUMP_MS || (last !== null && suspends !== last.suspends);
  const jumped_at_ms = jumped ? uptime_ms : (last?.jumped_at_ms ?? null);
  const held = jumped_at_ms !== null && uptime_ms - jumped_at_ms < hold_ms;
  const next: Seen = { boot_id, booted_at_ms: wall_ms - uptime_ms, suspends, jumped_at_ms: held ? jumped_at_ms : null };
  db.sql(SQL.setMeta).run("clock", JSON.stringify(next));
  return held;
}

/** The times of before and after it don't compare: an audit has to know. */
function noteSetBack(db: Database, by_ms: number): void {
  const before = fromJson(CLOCK_SET_BACK, db.sql(SQL.getMeta).get("clock_set_back")?.["value"]);
  const at_ms = db.now_ms();
  const back_ms = Math.round(by_ms);
  const noted = {
    at_ms,
    by_ms: Math.max(back_ms, before?.by_ms ?? 0),
    until_ms: Math.max(at_ms + back_ms, before?.until_ms ?? 0),
  };
  db.sql(SQL.setMeta).run("clock_set_back", JSON.stringify(noted));
}

/** Null: it has none yet. */
export function storeId(db: Database): string | null {
  const id = db.sql(SQL.getMeta).get("store_id")?.["value"];
  return isStoreId(id) ? id : null;
}

/** Somebody else may have been first: then theirs counts. */
export function giveStoreId(db: Database): string {
  if (storeId(db) === null) db.sql(SQL.setMeta).run("store_id", crypto.randomUUID());
  return storeId(db) ?? "";
}

const BURY_WORKER = "UPDATE workers SET stopped_at_ms = ?2, ended = 'dead' WHERE id = ?1 AND stopped_at_ms IS NULL";

export function buryWorker(db: Database, id: string): boolean {
  return db.sql(BURY_WORKER).run(id, db.now_ms()).changes > 0;
}
