/**
 * How attempts end by a sweep, many at a time: the table of jobs has so many indexes that opening them for each row
 * would cost more than the row. Jobs with the same outcome are written together; the fence is checked row by row.
 */

import { isFinished } from "../../core/job.ts";
import type { Attempt, LogChunk, RecoveryTotals, SweepCounts } from "../../core/records.ts";
import type { SqlRow, SqlValue } from "../../platform/platform.ts";
import type { ExpiredLease, ExpiredQuery } from "../queries.ts";
import { auditText } from "../shared/audit.ts";
import { fromJson, stateColumns, toAttempt, toJob } from "../shared/rows.ts";
import { RECOVERY_TOTALS } from "../shared/schemas.ts";
import type { RecoverRequest } from "../store.ts";
import type { Statements } from "./connection.ts";
import { freeChildren } from "./dependencies.ts";

export function recover(
  statements: Statements,
  requests: readonly RecoverRequest[],
  now_ms: number,
): ("recovered" | "changed")[] {
  const recovered = new Set<number>();
  for (const alike of Map.groupBy(requests, outcome).values()) {
    for (const id of recoverAlike(statements, alike, now_ms)) recovered.add(id);
  }
  const done = requests.filter(({ id }) => recovered.has(id));
  for (const alike of Map.groupBy(done, ending).values()) endAttempts(statements, alike, now_ms);
  audit(statements, done, now_ms);
  for (const { id, change } of done) if (isFinished(change.state)) freeChildren(statements, id, now_ms);
  return requests.map(({ id }) => (recovered.has(id) ? "recovered" : "changed"));
}

/** By hand: as JSON it takes longer than the write. */
function outcome({ token, change: { state, failures, result, reason } }: RecoverRequest): string {
  const { cause, exit_code, error, output } = result;
  return [token, ...stateColumns(state), failures, cause, exit_code, error, output, reason].join("\0");
}

function ending({ token, change: { ended } }: RecoverRequest): string {
  return ended === null ? "" : [token, ended.cause, ended.exit_code, ended.signal, ended.error].join("\0");
}

const idsOf = (requests: readonly RecoverRequest[]): string => JSON.stringify(requests.map(({ id }) => id));

/** Most often all of them are as they were read: then it need not be told which, which takes a third of the time. */
function recoverAlike(statements: Statements, requests: readonly RecoverRequest[], now_ms: number): number[] {
  const [first] = requests;
  if (first === undefined) return [];
  const { token, change } = first;
  const { cause, exit_code, error, output } = change.result;
  const last_ms = requests.reduce((latest_ms, { expires_at_ms }) => Math.max(latest_ms, expires_at_ms), 0);
  const results = [change.failures, cause, exit_code, error, output, change.reason];
  const outcomes = [token, ...stateColumns(change.state), ...results];
  const fences = () => JSON.stringify(requests.map(({ id, expires_at_ms }) => [id, expires_at_ms]));
  const over = last_ms < now_ms;
  const params = over ? [idsOf(requests), ...outcomes, last_ms] : [fences(), ...outcomes];
  statements.sql("SAVEPOINT alike").run();
  statements.get(over ? "recover" : "recoverHeld").run(...params);
  const all = statements.get("changed").get()?.["rows"] === requests.length;
  if (!all) statements.sql("ROLLBACK TO alike").run();
  statements.sql("RELEASE alike").run();
  if (all) return requests.map(({ id }) => id);
  return statements
    .get(over ? "recoverTelling" : "recoverHeldTelling")
    .all(...params)
    .map((row) => row["id"] as number);
}

function endAttempts(statements: Statements, requests: readonly RecoverRequest[], now_ms: number): void {
  const [first] = requests;
  const ended = first?.change.ended ?? null;
  if (first === undefined || ended === null) return;
  const { cause, exit_code, signal, error } = ended;
  statements.get("endAttempts").run(idsOf(requests), first.token, now_ms, cause, exit_code, signal, error);
  for (const { id, token, change } of requests) {
    const last_line = change.ended?.last_line ?? null;
    if (last_line !== null) statements.get("setLastLine").run(id, token, last_line);
  }
}

function audit(statements: Statements, requests: readonly RecoverRequest[], now_ms: number): void {
  const insert = statements.get("insertCheckpoint");
  for (const request of requests) {
    if (request.audit === null) continue;
    const text = auditText(request, request.change.ended?.cause ?? "unknown");
    insert.run(request.id, "error", request.token, now_ms, text);
  }
}

export function recovery(statements: Statements): RecoveryTotals | null {
  return fromJson(RECOVERY_TOTALS, statements.get("getMeta").get("recovery")?.["value"]);
}

export function noteRecovery(statements: Statements, counts: SweepCounts, now_ms: number): void {
  const { scan_duration_ms: _scan_duration_ms, ...more } = counts;
  const totals: Record<string, number> = { ...recovery(statements) };
  for (const [name, count] of Object.entries(more)) totals[name] = (totals[name] ?? 0) + count;
  statements.get("setMeta").run("recovery", JSON.stringify({ ...totals, last_at_ms: now_ms }));
}

/** In one snapshot: as statements of their own the many small reads would spend most of their time on locks. */
export function expired(statements: Statements, query: ExpiredQuery, now_ms: number): ExpiredLease[] {
  statements.sql("SAVEPOINT page").run();
  try {
    return readExpired(statements, query, now_ms);
  } finally {
    statements.sql("RELEASE page").run();
  }
}

function readExpired(statements: Statements, query: ExpiredQuery, now_ms: number): ExpiredLease[] {
  const { after, dead_holders, last_chunks = 0 } = query;
  const params: SqlValue[] = [now_ms - query.grace_ms, after?.expires_at_ms ?? -1, after?.id ?? -1, query.limit];
  const rows =
    dead_holders.length === 0
      ? statements.get("expired").all(...params)
      : statements.get("expiredOrHeldBy").all(...params, JSON.stringify(dead_holders));
  return rows.map((row) => {
    const job = toJob(row);
    const asked = last_chunks > 0 && row["printed"] === 1;
    const chunks = asked ? statements.get("lastLogs").all(job.id, job.token, last_chunks) : [];
    return {
      job,
      expires_at_ms: row["expires_at_ms"] as number,
      holder_dead: dead_holders.includes(row["holder"] as string),
      attempt: toCurrentAttempt(row),
      last_chunks: chunks.toReversed() as unknown as LogChunk[],
    };
  });
}

/** Of a running job: it began when the job did last, and has no end. One that was deleted is made up from the job. */
function toCurrentAttempt(row: SqlRow): Attempt {
  const { token = null, host = null, granted_ms = null, beats = null } = row;
  const worker = row["worker"] ?? row["holder"] ?? null;
  const { boot_id = null, pid = null, pid_started = null, started_at_ms = null } = row;
  const grant = { attempt: token, worker, host, boot_id, pid, pid_started, lease_ms: granted_ms, started_at_ms, beats };
  return toAttempt({ ...grant, ended_at_ms: null, cause: null });
}
