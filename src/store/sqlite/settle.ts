/**
 * How attempts end by their holder, under the fence, and the audit trail of what went wrong.
 */

import { isFinished } from "../../core/job.ts";
import type { AttemptEnd } from "../../core/transition.ts";
import { auditText } from "../shared/audit.ts";
import { stateColumns } from "../shared/rows.ts";
import type { SettleAnswer, SettleRequest } from "../store.ts";
import type { Statements } from "./connection.ts";
import { freeChildren } from "./dependencies.ts";
import { lossOf } from "./extend.ts";
import { addRun } from "./learned.ts";

export function settle(statements: Statements, requests: readonly SettleRequest[], now_ms: number): SettleAnswer[] {
  return requests.map((request) => {
    if (endJob(statements, request, now_ms)) return { status: "applied" };
    const row = statements.get("fence").get(request.id);
    if (row !== null && row["state"] === "running" && row["token"] === request.token) return { status: "cancelling" };
    if (row !== null) audit(statements, request, now_ms, "stale");
    return { status: "stale", reason: lossOf(statements, request.id, request.token) };
  });
}

function endJob(statements: Statements, request: SettleRequest, now_ms: number): boolean {
  const { id, token, change } = request;
  const { cause, exit_code, error, output } = change.result;
  const { changes } = statements
    .get("settle")
    .run(id, token, ...stateColumns(change.state), change.failures, cause, exit_code, error, output, change.reason);
  if (changes === 0) return false;
  if (change.ended !== null) endAttempt(statements, request, change.ended, now_ms);
  if (isFinished(change.state)) freeChildren(statements, id, now_ms);
  if (request.gaps) addRun(statements, id, request.gaps);
  if (request.audit !== null) audit(statements, request, now_ms, change.ended?.cause ?? "unknown");
  return true;
}

function endAttempt(statements: Statements, request: SettleRequest, end: AttemptEnd, now_ms: number): void {
  const { id, token, process } = request;
  const { cause, exit_code, signal, error, last_line, beats } = end;
  const { boot_id = null, pid = null, pid_started = null } = process ?? {};
  statements
    .get("endAttempt")
    .run(id, token, now_ms, cause, exit_code, signal, error, last_line, beats, boot_id, pid, pid_started);
}

function audit(statements: Statements, request: SettleRequest, now_ms: number, cause: string): void {
  const { id, token } = request;
  statements.get("insertCheckpoint").run(id, "error", token, now_ms, auditText(request, cause));
}
