/** For somebody who waits for a job: why it does not run, and in the end the exit code that its end stands for. */

import { shownState, type Job } from "../core/job.ts";
import type { Store } from "../store/store.ts";
import { around } from "../lookup/why_waiting.ts";
import { signalCode } from "./signals.ts";

const MOMENT_MS = 1_000;

/** After a moment, and once. The returned function ends it; `waits` tells in which states the job is not about to run. */
export function tellWhyWaiting(
  store: Store,
  id: number,
  waits: readonly Job["state"]["name"][],
  tell: (text: string) => void,
): () => void {
  const look = async () => {
    const [job] = await store.jobs([id]);
    if (!job || !waits.includes(job.state.name)) return;
    const now_ms = await store.now();
    const reason = (await around(store, [job], now_ms)).reason(job, now_ms);
    if (reason !== null) tell(`job ${id} is ${shownState(job)}: ${reason}`);
  };
  // A store that can't be read is somebody else's to report.
  const timer = setTimeout(() => void look().catch(() => {}), MOMENT_MS);
  return () => clearTimeout(timer);
}

const NO = 1;

/** Its own, where it has one; `job` has ended. A cancelled one never counts as success, whatever it said when it was stopped. */
export async function exitCodeOf(store: Store, { id, state, result }: Job): Promise<number> {
  if (state.name === "completed") return 0;
  if (state.name !== "failed") return NO;
  if (result.cause === "signal") {
    const signal = (await store.attempts(id)).at(-1)?.end?.signal ?? null;
    if (signal !== null) return signalCode(signal);
  }
  return result.exit_code === null || result.exit_code === 0 ? NO : result.exit_code;
}
