/**
 * Leases acquired ahead: while jobs are so short that waiting for the next grant would take as long as running it, the
 * slots may have ready what they will start in the next moment. A job is started when a slot is free, and the grants of
 * those that follow share a commit with the settles before: the shorter the jobs, the more of them. Nothing is hoarded:
 * what is ready is a few milliseconds of work, and a job that is not started almost at once goes back to the queue.
 */

import type { Clock } from "../core/clock.ts";
import { retriesLeft } from "../core/job.ts";
import type { AttemptEnd } from "../core/transition.ts";
import type { Lease } from "../leasing/lease.ts";

/** The end of an attempt that was given back before it began. */
export const NOT_STARTED: AttemptEnd = {
  cause: "returned",
  exit_code: null,
  signal: null,
  error: "not started in time",
  output: null,
  last_line: null,
  beats: 0,
};

/** Jobs that take longer on average don't gain from it. */
const SHORT_JOB_MS = 25;
const LONG_JOB_MS = 10 * SHORT_JOB_MS;
/** How much a new job weighs in the average. */
const WEIGHT = 0.2;
const KEPT_MS = 100;
/** What is ready takes about so long to run: a commit costs one to two. */
const AHEAD_MS = 20;
/** Each of them has lost an attempt when the worker is killed. */
const MOST_PER_SLOT = 16;
/** More are not granted in one commit, whatever the slots: the beats of others wait behind it. */
const MOST_TOGETHER = 500;
const SETTLE_WITHIN_MS = 8;

export class AcquireAhead {
  readonly #clock: Clock;
  readonly #giveBack: (lease: Lease) => void;
  readonly #waiting: { lease: Lease; until_ms: number }[] = [];
  /** One for all of them: most are taken long before. */
  #cancelTimer: (() => void) | null = null;
  /** The newest one has no retries left: it would be lost for good with a worker that is killed before it begins. */
  #on_last_try = false;
  /** Until jobs have shown to be short they count as long. */
  #average_ms = LONG_JOB_MS;

  constructor(clock: Clock, giveBack: (lease: Lease) => void) {
    this.#clock = clock;
    this.#giveBack = giveBack;
  }

  get size(): number {
    return this.#waiting.length;
  }

  observe(took_ms: number): void {
    this.#average_ms += WEIGHT * (Math.min(took_ms, LONG_JOB_MS) - this.#average_ms);
  }

  get jobs_are_short(): boolean {
    return this.#average_ms < SHORT_JOB_MS;
  }

  /**
   * How many to ask for: at least one per slot, and only when there are none left, so that many are granted in one
   * commit; of many as soon as there is one per slot, because the answer may come from far away.
   */
  wanted(slots: number): number {
    if (!this.jobs_are_short) return 0;
    const most_per_slot = this.#on_last_try ? 1 : MOST_PER_SLOT;
    const per_slot = Math.min(most_per_slot, Math.max(1, Math.round(AHEAD_MS / this.#average_ms)));
    const left = this.#waiting.length;
    const most = Math.max(slots, Math.min(MOST_TOGETHER, per_slot * slots));
    return left <= (per_slot > 2 ? slots : 0) ? Math.max(0, most - left) : 0;
  }

  /** How long a settle may wait for others: as long as a next job is at hand, nobody waits for that commit. */
  get settle_within_ms(): number {
    return this.#waiting.length > 0 ? SETTLE_WITHIN_MS : 0;
  }

  add(lease: Lease): void {
    this.#on_last_try = retriesLeft(lease.job) === 0;
    this.#waiting.push({ lease, until_ms: this.#clock.mono_ms() + KEPT_MS });
    this.#cancelTimer ??= this.#clock.after(KEPT_MS, () => this.#giveOldBack());
  }

  take(): Lease | null {
    const first = this.#waiting.shift();
    if (this.#waiting.length === 0) this.#rest();
    return first?.lease ?? null;
  }

  #rest(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
  }

  #giveOldBack(): void {
    this.#rest();
    const now_ms = this.#clock.mono_ms();
    const old = this.#waiting.findIndex(({ until_ms }) => until_ms > now_ms);
    const given = this.#waiting.splice(0, old < 0 ? this.#waiting.length : old);
    const [next] = this.#waiting;
    if (next !== undefined) this.#cancelTimer = this.#clock.after(next.until_ms - now_ms, () => this.#giveOldBack());
    // No slot became free in time: the jobs are not short any more.
    if (given.length > 0) this.#average_ms = LONG_JOB_MS;
    for (const { lease } of given) this.#giveBack(lease);
  }

  giveAllBack(): void {
    for (let lease = this.take(); lease !== null; lease = this.take()) this.#giveBack(lease);
  }
}
