/** What a holder says while its job runs: that it lives, how far it is, and which process it is. */

import { lossReason } from "../../core/transition.ts";
import type { CheckpointRequest, ExtendAnswer, ExtendRequest, ProcessNote } from "../store.ts";
import type { Statements } from "./connection.ts";

export function extend(statements: Statements, requests: readonly ExtendRequest[], now_ms: number): ExtendAnswer[] {
  return requests.map((request) => {
    const { id, token, beat_age_ms } = request;
    const beat_at_ms = beat_age_ms === null ? null : now_ms - beat_age_ms;
    const wanted_ms = (beat_at_ms ?? now_ms) + request.expires_in_ms;
    const at_least = beat_at_ms !== null && request.at_least === true ? 1 : 0;
    const { progress = null, message = null } = request;
    const floor_ms = now_ms - (request.jumped_ms ?? 0);
    const row = statements
      .get("extend")
      .get(id, token, wanted_ms, beat_at_ms, progress, message, now_ms, at_least, floor_ms);
    if (row === null) return { status: lossOf(statements, id, token) };
    statements.get("countBeats").run(id, token, request.beats);
    const expires_at_ms = row["expires_at_ms"] as number;
    return { status: "extended", expires_at_ms, cancel_requested: row["cancel_requested_at_ms"] !== null };
  });
}

export function noteProcess(statements: Statements, notes: readonly ProcessNote[]): void {
  for (const { id, token, boot_id, pid, pid_started } of notes) {
    statements.get("noteProcess").run(id, token, boot_id, pid, pid_started);
  }
}

/** Why a holder's write found no row. A job that is gone altogether counts as expired. */
export function lossOf(statements: Statements, id: number, token: number): "expired" | "conflict" {
  const row = statements.get("fence").get(id);
  return row === null ? "expired" : lossReason({ token: row["token"] as number }, token);
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
    statements.get("insertCheckpoint").run(request.id, "progress", request.token, now_ms, request.text);
    return "accepted";
  });
}
