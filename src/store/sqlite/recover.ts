/**
 * How attempts end by a sweep, many at a time: the table of jobs has so many indexes that opening them for each row
 * would cost more than the row. Jobs with the same outcome are written together; the fence is checked row by row.
 */

import { isFinished } from "../../core/job.ts";
import type { RecoverRequest } from "../store.ts";
import { freeChildren } from "./dependencies.ts";
import { stateColumns } from "../shared/rows.ts";
import { auditText } from "../shared/audit.ts";
import type { Statements } from "./prepared.ts";

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
