/**
 * How attempts end by a sweep, many at a time: the table of jobs has so many indexes that opening them for each row
 * would cost more than the row. Jobs with the same outcome are written together; the fence is checked row by row.
 */

import { isFinished } from "../../core/job.ts";
import type { RecoverRequest } from "../store.ts";
import { freeChildren } from "./dependencies.ts";
import { stateColumns } from "../rows.ts";
import { auditText } from "../audit.ts";
import type { Statements } from "./prepared.ts";

export function recover(
  statements: Statements,
  requests: readonly RecoverRequest[],
  now_ms: number,
): ("recovered" | "changed")[] {
  const recovered = new Set<number>();
  for (const alike of Map.groupBy(requests, outcome).values()) {
    for (const id of recoverAlike(statements, alike)) recovered.add(id);
  }
  const done = requests.filter(({ id }) => recovered.has(id));
  for (const alike of Map.groupBy(done, ending).values()) {
    endAttempts(statements, alike, now_ms);
  }
  statements.get("insertCheckpoints").run(JSON.stringify(done.flatMap(checkpointRow)), now_ms);
  for (const { id, change } of done) if (isFinished(change.state)) freeChildren(statements, id, now_ms);
  return requests.map(({ id }) => (recovered.has(id) ? "recovered" : "changed"));
}

/** By hand: as JSON it takes longer than the write. */
function outcome({ change: { state, failures, result, reason } }: RecoverRequest): string {
  const { cause, exit_code, error, output } = result;
  return [...stateColumns(state), failures, cause, exit_code, error, output, reason].join("\0");
}

function ending({ change: { ended } }: RecoverRequest): string {
  return ended === null ? "" : [ended.cause, ended.exit_code, ended.signal, ended.error].join("\0");
}

/** Most often all of them are as they were read: then it need not be told which, which takes a third of the time. */
function recoverAlike(statements: Statements, requests: readonly RecoverRequest[]): number[] {
  const change = requests[0]?.change;
  if (change === undefined) return [];
  const { cause, exit_code, error, output } = change.result;
  const fences = JSON.stringify(requests.map(({ id, token, expires_at_ms }) => [id, token, expires_at_ms]));
  const state = stateColumns(change.state);
  const params = [fences, null, ...state, change.failures, cause, exit_code, error, output, change.reason];
  statements.sql("SAVEPOINT alike").run();
  statements.get("recover").run(...params);
  const all = statements.get("changed").get()?.["rows"] === requests.length;
  if (!all) statements.sql("ROLLBACK TO alike").run();
  statements.sql("RELEASE alike").run();
  if (all) return requests.map(({ id }) => id);
  return statements
    .get("recoverTelling")
    .all(...params)
    .map((row) => row["id"] as number);
}

function endAttempts(statements: Statements, requests: readonly RecoverRequest[], now_ms: number): void {
  const ended = requests[0]?.change.ended ?? null;
  if (ended === null) return;
  const attempts = JSON.stringify(requests.map(({ id, token, change }) => [id, token, change.ended?.last_line]));
  statements.get("endAttempts").run(attempts, now_ms, ended.cause, ended.exit_code, ended.signal, ended.error);
}

function checkpointRow(request: RecoverRequest): unknown[][] {
  if (request.audit === null) return [];
  return [[request.id, request.token, auditText(request, request.change.ended?.cause ?? "unknown")]];
}
