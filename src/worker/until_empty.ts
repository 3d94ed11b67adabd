/**
 * When `--until-empty` ends: nothing is pending in the queues that the worker serves, no retry is scheduled, no dead
 * worker of this machine has left anything, and no schedule is due. A job that a person delayed into the future does not
 * keep it.
 */

import type { RecoverySweep } from "../recovery/sweep.ts";
import type { Store } from "../store/store.ts";

export interface Served {
  /** In order of preference; null: every queue, as one. */
  queues: readonly string[] | null;
  task: string | null;
  /** It has no handler for jobs without a command, and leaves them to others. */
  commands_only?: boolean;
  /** A retry that is scheduled does not keep it either: only what is due now counts. */
  due_only?: boolean;
}

/** `more`: what a dead worker left, or a schedule made, can be acquired now. */
export async function whatIsLeft(
  store: Store,
  { queues, task, commands_only = false, due_only = false }: Served,
  sweep: RecoverySweep | null,
): Promise<"nothing" | "more" | "work"> {
  // Must be free before it can be seen.
  const counts = (await sweep?.scanDead()) ?? null;
  if (counts !== null && counts.recovered > 0) return "more";
  // Before the look, so that nothing which another sweep fires meanwhile is missed.
  if (((await sweep?.fireDue()) ?? 0) > 0) return "more";
  const { pending, retrying } = await store.backlog({ queues, task, commands_only });
  return pending + (due_only ? 0 : retrying) === 0 ? "nothing" : "work";
}
