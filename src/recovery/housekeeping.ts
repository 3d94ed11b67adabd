/** What a sweep does besides recovery: due jobs are promoted, old checkpoints and jobs go, the store is tidied. */

import type { PruneQuery } from "../store/queries.ts";
import type { Store } from "../store/store.ts";
import type { Report } from "../core/report.ts";

export interface HousekeepingOptions {
  store: Store;
  report: Report;
  /** The newest per task, or per job without one, null: all; as the store has it unless told. */
  keep_checkpoints?: number | null;
  /** Finished jobs older than this are deleted; null: none ever is. */
  prune_ms?: number | null;
}

/** Jobs per commit: short enough that a beat never waits long behind it. */
const PRUNE_BATCH = 500;

export async function keepHouse(options: HousekeepingOptions): Promise<void> {
  const { store, report, prune_ms = null } = options;
  await store.promote();
  const { keep_checkpoints = (await store.retention()).keep_checkpoints } = options;
  if (keep_checkpoints !== null) await store.trimCheckpoints(keep_checkpoints);
  if (prune_ms !== null) {
    const pruned = await pruneAll(store, { older_than_ms: prune_ms, states: ["completed", "failed", "cancelled"] });
    if (pruned > 0) report("info", `deleted ${pruned} finished ${pruned === 1 ? "job" : "jobs"}`);
  }
  await store.foldHistory();
  await store.tidy();
}

/** No more than `most`, where that was found before: what ends meanwhile is for the next time. */
export async function pruneAll(store: Store, query: PruneQuery, most = Infinity): Promise<number> {
  let total = 0;
  while (total < most) {
    const limit = Math.min(PRUNE_BATCH, most - total);
    const pruned = await store.prune({ ...query, limit });
    total += pruned;
    if (pruned < limit) break;
  }
  return total;
}
