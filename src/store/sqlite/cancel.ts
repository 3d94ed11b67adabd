/**
 * What people do to jobs: cancel and retry; and what sweeps have done in all.
 */

import type { StateName } from "../../core/job.ts";
import type { RecoveryTotals, SweepCounts } from "../../core/records.ts";
import { fromJson } from "../shared/rows.ts";
import { RECOVERY_TOTALS } from "../shared/schemas.ts";
import type { CancelAnswer, RetryAnswer } from "../store.ts";
import { freeChildren } from "./dependencies.ts";
import type { Statements } from "./prepared.ts";

export function cancel(
  statements: Statements,
  ids: readonly number[],
  reason: string | null,
  now_ms: number,
): CancelAnswer[] {
  // Before anything is done: one that ends because another of them does was cancelled all the same.
  const states = ids.map((id) => stateOf(statements, id));
  return ids.map((id, index) => {
    const state = states[index] ?? null;
    if (state === null) return { id, status: "unknown", state };
    if (state === "blocked" && stateOf(statements, id) === "cancelled") return { id, status: "cancelled", state };
    if (statements.get("cancelWaiting").run(id, now_ms, reason).changes > 0) {
      freeChildren(statements, id, now_ms);
      return { id, status: "cancelled", state };
    }
    const asked = statements.get("requestCancel").run(id, now_ms, reason).changes > 0;
    return { id, status: asked ? "cancelling" : "finished", state };
  });
}

export function retry(statements: Statements, ids: readonly number[], now_ms: number): RetryAnswer[] {
  return ids.map((id) => {
    const state = stateOf(statements, id);
    if (state === null) return { id, status: "unknown", state };
    if (statements.get("retry").run(id, now_ms).changes > 0) return { id, status: "pending", state };
    const finished = state === "completed" || state === "failed" || state === "cancelled";
    return { id, status: finished ? "key_taken" : "not_finished", state };
  });
}

function stateOf(statements: Statements, id: number): StateName | null {
  return (statements.get("fence").get(id)?.["state"] ?? null) as StateName | null;
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
