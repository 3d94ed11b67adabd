/** What a worker does and has done. */

import type { SlotStates } from "../core/scaling.ts";
import type { Attempt } from "./attempt.ts";
import type { SlotRecord } from "./slots.ts";

/** One follows the other. */
export const MODES = ["starting", "working", "draining", "stopped"] as const;
export type Mode = (typeof MODES)[number];

export interface PoolStatistics {
  worker_id: string;
  state: Mode;
  slots: SlotStates;
  completed: number;
  failed: number;
  /** Attempts that ended any other way: to be retried, returned, cancelled, stale. */
  other: number;
  current: ReturnType<Attempt["statistics"]>[];
  /** Slot by slot. */
  by_slot: SlotRecord[];
}
