/** The exit code that a job's end stands for: its own, where it has one. */

import type { Job } from "../core/job.ts";
import type { Store } from "../store/store.ts";
import { signalCode } from "./repeat.ts";

const NO = 1;

/** `job` has ended. A cancelled one never counts as success, whatever it said when it was stopped. */
export async function exitCodeOf(store: Store, { id, state, result }: Job): Promise<number> {
  if (state.name === "completed") return 0;
  if (state.name !== "failed") return NO;
  if (result.cause === "signal") {
    const signal = (await store.attempts(id)).at(-1)?.end?.signal ?? null;
    if (signal !== null) return signalCode(signal);
  }
  return result.exit_code === null || result.exit_code === 0 ? NO : result.exit_code;
}
