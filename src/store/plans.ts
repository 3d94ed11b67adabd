/** What bounds and plans jobs, as verbs of a store; a contract per verb, as in store.ts. */

import type { LimitSettings, LimitUse } from "../core/gate.ts";
import type { Holding } from "../core/resources.ts";

export interface Planner {
  /** Paused queues are not acquired from; what runs goes on. */
  setPaused(queues: readonly string[], paused: boolean): Promise<void>;

  /**
   * Bounds how many of the jobs that count for this name run or start; null takes the bound away. What runs goes on:
   * a limit below it takes effect as those end. Answers whether there is, or was, such a limit.
   */
  setLimit(name: string, limit: LimitSettings | null): Promise<boolean>;
}

export interface PlanReader {
  /** Names of paused queues, in order. */
  pausedQueues(): Promise<string[]>;

  /** Every limit by name, with what is in use of it. */
  limits(): Promise<LimitUse[]>;

  /** What running attempts were given of the resources of their machines. */
  holdings(): Promise<Holding[]>;
}
