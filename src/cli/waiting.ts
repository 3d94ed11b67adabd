/** Somebody waits for a job that does not run: after a moment they are told why, once. */

import { shownState, type Job } from "../core/job.ts";
import type { Store } from "../store/store.ts";
import { around } from "../lookup/why_waiting.ts";

const MOMENT_MS = 1_000;

/** The returned function ends it; `waits` tells in which states the job is not about to run. */
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
