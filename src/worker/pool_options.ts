/** What a worker is told when it is made, and what it tells about itself. */

import type { LeaseTimes } from "../core/calibration.ts";
import type { Clock, Random } from "../core/clock.ts";
import type { Beat } from "../core/job.ts";
import type { Scaling, SlotStates } from "../core/scaling.ts";
import type { Lease } from "../leasing/lease.ts";
import type { Release } from "../leasing/manager.ts";
import type { Store } from "../store/store.ts";
import type { Attempt } from "./attempt.ts";
import type { Report } from "../core/report.ts";

export interface WorkerPoolOptions {
  store: Store;
  clock: Clock;
  random: Random;
  report: Report;
  store_url: string;
  version: string;
  name: string | null;
  /** In order of preference; null: every queue, as one. */
  queues: readonly string[] | null;
  task: string | null;
  slots: number;
  /** Between two bounds instead of a fixed number. */
  scaling?: Scaling | null;
  times: LeaseTimes;
  /** The lease of jobs that set none is learned. */
  learn?: boolean;
  beat: Beat;
  handler: readonly string[];
  kill_grace_ms: number | null;
  poll_ms: number;
  sweep: boolean;
  log_dir: string | null;
  /** Give back a job for one that is more urgent by at least 100. */
  preempt?: boolean;
  /** Ends when there is nothing left to do. */
  until_empty: boolean;
  /** Ends after so many jobs. */
  max_jobs: number | null;
  onSettled?: (lease: Lease, release: Release) => void;
}

export interface PoolStatistics {
  worker_id: string;
  state: "working" | "draining" | "stopped";
  slots: SlotStates;
  completed: number;
  failed: number;
  /** Attempts that ended any other way: to be retried, returned, cancelled, stale. */
  other: number;
  current: { job: number; attempt: number; last_beat_ms_ago: number }[];
}

export function currentJobs(running: ReadonlySet<Attempt>, now_ms: number): PoolStatistics["current"] {
  return [...running].map(({ lease, last_beat_ms }) => ({
    job: lease.job.id,
    attempt: lease.token,
    last_beat_ms_ago: Math.round(now_ms - last_beat_ms),
  }));
}
