/** Queues that somebody has used, and which of them a name that nobody has used was probably meant to be. */

import { nearest } from "../core/nearest.ts";
import type { Store } from "../store/store.ts";

/** With jobs in it, paused, or served. */
async function knownQueues(store: Store): Promise<Set<string>> {
  const [counts, paused, workers] = await Promise.all([store.counts(), store.pausedQueues(), store.workers()]);
  const served = workers.flatMap(({ queues, stopped_at_ms }) => (stopped_at_ms === null ? (queues ?? []) : []));
  return new Set([...counts.map(({ queue }) => queue), ...paused, ...served]);
}

/** For each of the names that nobody has used, a remark to be shown; null for the others. */
export async function queueRemarks(store: Store, queues: readonly string[]): Promise<(string | null)[]> {
  const known = await knownQueues(store);
  return queues.map((queue) => {
    if (known.has(queue)) return null;
    const meant = nearest(queue, [...known]);
    return `queue ${queue} has no jobs so far${meant === null ? "" : `; did you mean ${meant}?`}`;
  });
}
