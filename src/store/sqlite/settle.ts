/**
 * How attempts end: by their holder (settle) or by a sweep (recover), both under the fence, and the audit trail of what
 * went wrong.
 */

import { isFinished } from "../../core/job.ts";
import type { AttemptEnd } from "../../core/transition.ts";
import type { CheckpointRequest, RecoverRequest, SettleAnswer, SettleRequest } from "../store.ts";
import { lossOf } from "./claim.ts";
import { freeChildren } from "./dependencies.ts";
import { addRun } from "./learned.ts";
import { auditText } from "../audit.ts";
import { stateColumns } from "../rows.ts";
import type { StatementName, Statements } from "./statements.ts";

export function settle(statements: Statements, requests: readonly SettleRequest[], now_ms: number): SettleAnswer[] {
  return requests.map((request) => {
    if (endJob(statements, "settle", request, now_ms)) return { status: "applied" };
    const row = statements.get("fence").get(request.id);
    if (row !== null && row["state"] === "running" && row["token"] === request.token) return { status: "cancelling" };
    if (row !== null) audit(statements, request, now_ms, "stale");
    return { status: "stale", reason: lossOf(statements, request.id, request.token) };
  });
}

export function recover(
  statements: Statements,
  requests: readonly RecoverRequest[],
  now_ms: number,
): ("recovered" | "changed")[] {
  return requests.map((request) =>
    endJob(statements, "recover", request, now_ms, request.expires_at_ms) ? "recovered" : "changed",
  );
}

function endJob(
  statements: Statements,
  verb: StatementName & ("settle" | "recover"),
  request: SettleRequest,
  now_ms: number,
  ...fence: number[]
): boolean {
  const { id, token, change } = request;
  const { cause, exit_code, error, output } = change.result;
  const { changes } = statements
    .get(verb)
    .run(
      id,
      token,
      ...stateColumns(change.state),
      change.failures,
      cause,
      exit_code,
      error,
      output,
      change.reason,
      ...fence,
    );
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

/** An error checkpoint. A stale result is kept here too, so that work done in vain leaves a trace. */
function audit(statements: Statements, request: SettleRequest, now_ms: number, cause: string): void {
  const { id, token } = request;
  insertCheckpoint(statements, { id, token, text: auditText(request, cause) }, "error", now_ms);
}

function insertCheckpoint(
  statements: Statements,
  { id, token, text }: CheckpointRequest,
  kind: "error" | "progress",
  now_ms: number,
): void {
  const task = statements.get("fence").get(id)?.["task"] ?? null;
  statements.get("insertCheckpoint").run(id, task, kind, token, now_ms, text);
}

export function checkpoint(
  statements: Statements,
  requests: readonly CheckpointRequest[],
  now_ms: number,
): ("accepted" | "expired" | "conflict")[] {
  return requests.map((request) => {
    const row = statements.get("fence").get(request.id);
    const holds =
      row !== null &&
      row["state"] === "running" &&
      row["token"] === request.token &&
      (row["expires_at_ms"] as number) >= now_ms;
    if (!holds) return lossOf(statements, request.id, request.token);
    insertCheckpoint(statements, request, "progress", now_ms);
    return "accepted";
  });
}
