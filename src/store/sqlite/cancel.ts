/**
 * What people do to jobs: cancel and retry; and what sweeps have done in all.
 */

import type { CancelAnswer } from "../store.ts";
import type { Statements } from "./connection.ts";
import { freeChildren } from "./dependencies.ts";
import { stateOf } from "./retry.ts";

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
