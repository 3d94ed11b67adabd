/**
 * What a sweep looks for, and how attempts end by it, many at a time: the table of jobs has so many indexes that opening them for each row
 * would cost more than the row. Jobs with the same outcome are written together; the fence is checked row by row.
 */

import { isFinished } from "../../core/job.ts";
import type { AttemptRecord, RecoveryTotals, SweepCounts } from "../../core/records.ts";
import type { SqlRow, SqlValue } from "../../platform/platform.ts";
import type { ExpiredLease, ExpiredQuery } from "../queries.ts";
import { RECOVERY_TOTALS, fromJson, stateColumns, toAttempt, toJob } from "../shared/rows.ts";
import { addTotals } from "../shared/verdicts.ts";
import type { RecoverRequest } from "../store.ts";
import type { Database } from "./open.ts";
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
  for (const request of done) if (request.audit !== null) audit(db, request, now_ms);
  for (const { id, change } of done) if (isFinished(change.state)) freeChildren(db, id, now_ms);
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
  return db
    .sql(SQL.recoverTelling)
    .all(...params)
    .map((row) => row["id"] as number);
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
