/** What a sweep does besides recovery: due jobs are promoted, old checkpoints and jobs go, the store is tidied. */

import type { Store } from "../store/store.ts";
import type { Report } from "../core/report.ts";

export interface HousekeepingOptions {
  store: Store;
  report: Report;
  /** The newest per task, or per job without one; 100 unless told. */
  keep_checkpoints?: number;
  /** Finished jobs older than this are deleted; null: none ever is. */
  prune_ms?: number | null;
}

/** Jobs per commit: short enough that a beat never waits long behind it. */
const PRUNE_BATCH = 500;
const KEEP_CHECKPOINTS = 100;

export async function keepHouse(options: HousekeepingOptions): Promise<void> {
  const { store, report, keep_checkpoints = KEEP_CHECKPOINTS, prune_ms = null } = options;
  await store.promote();
  await store.trimCheckpoints(keep_checkpoints);
  if (prune_ms !== null) {
    const pruned = await pruneAll(store, prune_ms);
    if (pruned > 0) report("info", `deleted ${pruned} finished ${pruned === 1 ? "job" : "jobs"}`);
  }
  await store.foldHistory();
  await store.tidy();
}

async function pruneAll(store: Store, older_than_ms: number): Promise<number> {
  let total = 0;
  for (;;) {
    const pruned = await store.prune({
      older_than_ms,
      states: ["completed", "failed", "cancelled"],
      limit: PRUNE_BATCH,
    });
    total += pruned;
    if (pruned < PRUNE_BATCH) return total;
  }
}
