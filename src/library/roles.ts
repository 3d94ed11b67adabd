/** The watchdog's sweep and the worker's pool, with a queue in front and a default for everything. */

import { calibrate } from "../core/calibration.ts";
import type { SweepCounts } from "../core/records.ts";
import { AGE, DURATION, integer, SWITCH } from "../core/values.ts";
import { RecoverySweep, type SweepStatistics } from "../recovery/sweep.ts";
import type { PoolStatistics } from "../worker/pool_statistics.ts";
import { readOptions } from "./options.ts";
import { groundOf, type Queue } from "./queue.ts";
import type { Handler, QueueWorker, WorkerOptions } from "./worker.ts";

/** Options of a RecoverySweep: the flags of `lease watchdog`. */
export interface SweepOptions {
  /** Time between sweeps; `"1m"` unless told. */
  every?: string;
  /** After the end of a lease; `"1m"` unless told. */
  grace?: string;
  /** Note each recovery as an error checkpoint; so it is unless told. */
  checkpoints?: boolean;
  /** Newest to keep per task; 100 unless told. */
  keep_checkpoints?: number;
  /** Also delete jobs that finished longer ago; none is deleted unless told. */
  prune?: string;
}

const SWEEP_VALUES = {
  every: DURATION,
  grace: DURATION,
  checkpoints: SWITCH,
  keep_checkpoints: integer({ min: 0 }),
  prune: AGE,
} as const;

/**
 * Recovers jobs whose worker hangs or is gone, once or again and again. Any number may run at once.
 *
 * @example
 * ```ts
 * const sweep = new RecoverySweep(queue);
 * const { recovered, failed } = await sweep.scan();
 * sweep.start();
 * console.log(sweep.statistics().total_scans, recovered, failed);
 * await sweep.stop();
 * ```
 */
export class QueueSweep {
  readonly #inner: RecoverySweep;
  readonly #changed: () => void;

  constructor(queue: Queue, options: SweepOptions = {}) {
    const { every = null, grace = null, prune = null, ...rest } = readOptions(options, SWEEP_VALUES);
    const { sweep_grace_ms, sweep_every_ms } = calibrate({ sweep_every_ms: every, sweep_grace_ms: grace });
    const { store, store_url, clock, random, report, machine_time, changed } = groundOf(queue);
    this.#changed = changed;
    const times = { grace_ms: sweep_grace_ms, every_ms: sweep_every_ms, prune_ms: prune };
    this.#inner = new RecoverySweep({ store, store_url, clock, random, report, machine_time, ...times, ...rest });
  }

  /** One pass over everything. */
  async scan(): Promise<SweepCounts> {
    const counts = await this.#inner.scan();
    this.#tell(counts);
    return counts;
  }

  /** Sweeps now and then again and again. */
  start(onScan?: (counts: SweepCounts) => void): void {
    this.#inner.start((counts) => {
      this.#tell(counts);
      onScan?.(counts);
    });
  }

  #tell({ expired_found }: SweepCounts): void {
    if (expired_found > 0) this.#changed();
  }

  /** With `wait` (so it is unless told) it resolves when a sweep under way is done, or after `timeout` (`"10s"`). */
  stop(options: { wait?: boolean; timeout?: string } = {}): Promise<void> {
    const { wait = true, timeout = 10_000 } = readOptions(options, { wait: SWITCH, timeout: DURATION });
    return this.#inner.stop({ wait, timeout_ms: timeout });
  }

  /** Whether it sweeps. */
  get running(): boolean {
    return this.#inner.statistics().running;
  }

  /** Whether it runs, totals of all its sweeps, and the last one. */
  statistics(): SweepStatistics {
    return this.#inner.statistics();
  }

  /** Stops it as `stop()` does. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

/**
 * Slots between two bounds that follow the work: one more when jobs wait, one less when it is idle. Like `queue.worker`,
 * but started by hand, and with a minimum and a maximum.
 *
 * @example
 * ```ts
 * const pool = new WorkerPool(queue, { min: 1, max: 4, scale_up_at: 5 }, async (job) => job.input);
 * pool.start();
 * console.log(pool.statistics()?.slots.total);
 * await pool.stop({ drain: "30s" });
 * ```
 */
export class HandlerPool {
  readonly #queue: Queue;
  readonly #options: WorkerOptions;
  readonly #handler: Handler | URL | undefined;
  #worker: QueueWorker | null = null;

  /** Between 1 and 4 slots unless told. */
  constructor(queue: Queue, options: WorkerOptions = {}, handler?: Handler | URL) {
    this.#queue = queue;
    this.#options = options.slots === undefined && options.max === undefined ? { max: 4, ...options } : options;
    this.#handler = handler;
  }

  /** Whether it takes jobs, or ends those it has. */
  get running(): boolean {
    return this.#worker !== null && this.#worker.statistics().state !== "stopped";
  }

  start(): this {
    if (!this.running) this.#worker = this.#queue.worker(this.#options, this.#handler);
    return this;
  }

  /** Resolves when it has ended; at once when it was not started. */
  get finished(): Promise<void> {
    return this.#worker?.finished ?? Promise.resolve();
  }

  /** Takes no more jobs and gives the running ones `drain` to end, then returns them; `drain: "0"` does at once. */
  stop(options: { drain?: string } = {}): Promise<void> {
    return this.#worker?.stop(options) ?? Promise.resolve();
  }

  /** What its slots do and have done; null before it was started. */
  statistics(): PoolStatistics | null {
    return this.#worker?.statistics() ?? null;
  }

  /** Stops it as `stop()` does. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}
