/** What a sweep does besides recovery: due jobs are promoted, old checkpoints and jobs go, the store is tidied. */

import type { PrunePlace, Pruned, PruneQuery } from "../store/queries.ts";
import type { Store } from "../store/store.ts";
import type { Report } from "../core/report.ts";
import { FIRST_STEP, nextStep } from "../core/steps.ts";

export interface HousekeepingOptions {
  store: Store;
  report: Report;
  /** The newest per task, or per job without one, null: all; as the store has it unless told. */
  keep_checkpoints?: number | null;
  /** Finished jobs older than this are deleted; null: none ever is. */
  prune_ms?: number | null;
}

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

interface PruneOptions {
  /** Where that was found before: what ends meanwhile is for the next time. */
  most?: number;
  /** Told how many are gone, after each step. Others may write until it has answered. */
  stepped?: (total: number) => void | Promise<void>;
}

/** In steps, each a commit, so short that a beat never waits long behind it. */
export async function pruneAll(
  store: Store,
  query: PruneQuery,
  { most = Infinity, stepped = () => {} }: PruneOptions = {},
): Promise<number> {
  let total = 0;
  let behind: PrunePlace | null = null;
  for (let size = FIRST_STEP; total < most;) {
    const limit = Math.min(size, most - total);
    const begun_ms = performance.now();
    const pruned: Pruned = await store.prune({ ...query, limit, behind });
    total += pruned.count;
    behind = pruned.next;
    if (behind === null) break;
    size = nextStep(size, performance.now() - begun_ms);
    await stepped(total);
  }
  return total;
}
