/** A person's word: finished jobs become pending again. */

import type { StateName } from "../../core/job.ts";
import type { RetryAnswer } from "../store.ts";
import type { Statements } from "./connection.ts";

export function retry(statements: Statements, ids: readonly number[], now_ms: number): RetryAnswer[] {
  return ids.map((id) => {
    const state = stateOf(statements, id);
    if (state === null) return { id, status: "unknown", state };
    if (statements.get("retry").run(id, now_ms).changes > 0) return { id, status: "pending", state };
    const finished = state === "completed" || state === "failed" || state === "cancelled";
    return { id, status: finished ? "key_taken" : "not_finished", state };
  });
}

export function stateOf(statements: Statements, id: number): StateName | null {
  return (statements.get("fence").get(id)?.["state"] ?? null) as StateName | null;
}
