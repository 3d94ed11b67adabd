/** Gathers what the overview shows. */

import type { Store } from "../store/store.ts";
import type { Overview } from "../view/overview.ts";
import { summarizeQueues } from "../view/overview.ts";

const LATEST_FAILURES = 5;
const MOST_LEASES = 10_000;

export async function overviewOf(store: Store, now_ms: number): Promise<Overview> {
  const [counts, workers, running, failures, retries, recovery, paused] = await Promise.all([
    store.counts(),
    store.workers(),
    store.list({ states: ["running"], limit: MOST_LEASES, newest_first: false }),
    store.list({ states: ["failed"], limit: LATEST_FAILURES, newest_first: true }),
    store.retryCounts(),
    store.recovery(),
    store.pausedQueues(),
  ]);
  const leases = running.flatMap(({ state }) => (state.name === "running" ? [state] : []));
  const ends = leases.map(({ expires_at_ms }) => expires_at_ms);
  return {
    queues: summarizeQueues(counts, paused),
    workers: workers.map((worker) => ({
      worker,
      busy: leases.filter(({ holder }) => holder === worker.id).length,
    })),
    leases: {
      held: leases.length,
      stale: ends.filter((end_ms) => end_ms < now_ms).length,
      next_expires_at_ms: ends.length === 0 ? null : ends.reduce((a, b) => Math.min(a, b)),
    },
    retries,
    recovery,
    failures,
  };
}
