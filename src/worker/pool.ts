/**
 * A worker: takes jobs into its slots, runs them, and goes on until it is told to stop or has nothing left to do.
 *
 * A slot is free as soon as its job's program is over, so that the settle of one job and the acquire of the next share
 * a commit. It wakes up when another process commits, when a scheduled job is due, and at every poll as the net below.
 */

import { mkdirSync, rmSync } from "node:fs";
import { forcedGrace } from "../core/calibration.ts";
import { errorText } from "../core/errors.ts";
import { slotStates } from "../core/scaling.ts";
import type { Lease } from "../leasing/lease.ts";
import type { LeaseManager } from "../leasing/manager.ts";
import { AcquireAhead, NOT_STARTED } from "./acquire_ahead.ts";
import { Attempt, type AttemptOptions } from "./attempt.ts";
import { assemble } from "./assemble.ts";
import { CancelWatch } from "./cancel_watch.ts";
import { InFlightSettles } from "./in_flight_settles.ts";
import { Wakeups } from "./wakeups.ts";
import type { StoreTrouble } from "./store_trouble.ts";
import { currentJobs, type PoolStatistics, type WorkerPoolOptions } from "./pool_options.ts";
import { preempt } from "./preempt.ts";
import type { Registration } from "./registration.ts";
import type { Slots } from "./slots.ts";
import { RepeatedTrouble } from "../core/repeated_trouble.ts";
import type { RecoverySweep } from "../recovery/sweep.ts";

export class WorkerPool {
  /** Resolves when everything has ended and is written; rejects when the store could not be reached any more. */
  readonly finished: Promise<void>;
  readonly #options: WorkerPoolOptions;
  readonly #registration: Registration;
  readonly #manager: LeaseManager;
  readonly #attempt_options: AttemptOptions;
  readonly #sweep: RecoverySweep;
  readonly #running = new Set<Attempt>();
  readonly #finish = Promise.withResolvers<void>();
  readonly #slots: Slots;
  readonly #acquire_ahead: AcquireAhead;
  readonly #cancels: CancelWatch;
  readonly #patience: StoreTrouble;
  readonly #trouble: RepeatedTrouble;
  readonly #wakeups: Wakeups;
  readonly #settles: InFlightSettles;
  #accepting = true;
  /** No end is waited for any more that can't be written. */
  #hurried = false;
  #acquiring = false;
  #again = false;
  /** Jobs that it may still take. */
  #left: number;
  #cancelPoll = () => {};
  #cancelDrain = () => {};
  #cancelDue = () => {};
  #starting = false;
  #stopped = false;

  constructor(options: WorkerPoolOptions) {
    const { store, clock } = options;
    const parts = assemble(options, {
      patience_ms: () => this.#acquire_ahead.patience_ms,
      activity: () => ({ ...this.#settles.totals, draining: !this.#accepting }),
      hurried: () => this.#hurried,
    });
    ({ slots: this.#slots, registration: this.#registration, manager: this.#manager, sweep: this.#sweep } = parts);
    ({ attempt_options: this.#attempt_options, patience: this.#patience } = parts);
    this.#options = options;
    this.#left = options.max_jobs ?? Infinity;
    this.#cancels = new CancelWatch({ store, clock, worker_id: this.worker_id, running: this.#running });
    this.#acquire_ahead = new AcquireAhead({ clock, giveBack: (lease) => this.#giveBack(lease) });
    this.#trouble = new RepeatedTrouble(clock);
    this.#wakeups = new Wakeups(store, () => this.#wake());
    this.#settles = new InFlightSettles({ ...options, holder: this.worker_id, onDone: () => this.#fill() });
    this.finished = this.#finish.promise;
  }

  get worker_id(): string {
    return this.#registration.id;
  }

  async start(): Promise<void> {
    this.#starting = true;
    await this.#registration.register().finally(() => (this.#starting = false));
    // Told to stop in the meantime.
    if (!this.#accepting) return this.#endIfDone();
    mkdirSync(this.#attempt_options.scratch, { mode: 0o700 });
    this.#wakeups.missed(false);
    // What it recovers it hears of from nobody else.
    if (this.#options.sweep) this.#sweep.start(({ recovered }) => recovered > 0 && this.#fill());
    this.#poll();
    this.#fill();
  }

  /** Takes no more jobs and gives the running ones `drain_ms` to end; then they are stopped and returned. */
  stop(drain_ms: number): void {
    this.#drainBegins();
    const grace_ms = forcedGrace(this.#options.kill_grace_ms);
    const giveBack = () => {
      this.#hurried = true;
      for (const attempt of this.#running) attempt.giveBack(grace_ms);
    };
    if (drain_ms === 0) giveBack();
    else this.#cancelDrain = this.#options.clock.after(drain_ms, giveBack);
    this.#endIfDone();
  }

  /** Kills and returns everything at once. */
  abort(): void {
    this.#drainBegins();
    this.#hurried = true;
    for (const attempt of this.#running) attempt.kill();
    this.#endIfDone();
  }

  #drainBegins(): void {
    // From here on it asks for nothing any more, and must hear of cancels.
    if (this.#accepting && !this.#starting && !this.#stopped) this.#wakeups.missed(false);
    this.#accepting = false;
    this.#registration.refresh();
    this.#acquire_ahead.giveAllBack();
  }

  statistics(): PoolStatistics {
    return {
      worker_id: this.worker_id,
      state: this.#stopped ? "stopped" : this.#accepting ? "working" : "draining",
      slots: slotStates(this.#slots.total, this.#running.size, this.#accepting),
      ...this.#settles.totals,
      current: currentJobs(this.#running, this.#options.clock.mono_ms()),
    };
  }

  #wake(): void {
    this.#fill();
    this.#cancels.lookSoon();
  }

  #poll(): void {
    this.#cancelPoll = this.#options.clock.after(this.#options.poll_ms, () => {
      this.#wake();
      this.#scale();
      this.#poll();
    });
  }

  /** Leases to ask for: for free slots, and ahead for busy ones. */
  #wanted(): number {
    const slots = this.#slots.total;
    return Math.min(Math.max(0, slots - this.#running.size) + this.#acquire_ahead.wanted(slots), this.#left);
  }

  #fill(): void {
    if (!this.#accepting) return this.#endIfDone();
    if (this.#acquiring) {
      this.#again = true;
      return;
    }
    while (this.#running.size < this.#slots.total) {
      const lease = this.#acquire_ahead.take();
      if (lease === null) break;
      this.#begin(lease);
    }
    const count = this.#wanted();
    this.#slots.busy(this.#running.size);
    if (count <= 0) {
      this.#scale();
      this.#makeRoom();
      return this.#endIfDone();
    }
    this.#acquiring = true;
    this.#again = false;
    const { queues, task } = this.#options;
    this.#manager.acquire({ count, queues, task }).then(
      (leases) => this.#acquired(leases, count),
      (error) => this.#inTrouble(error),
    );
  }

  #acquired(leases: readonly Lease[], wanted: number): void {
    this.#acquiring = false;
    this.#patience.restore();
    this.#trouble.over();
    this.#left -= leases.length;
    for (const lease of leases) {
      if (this.#running.size < this.#slots.total) this.#begin(lease);
      else this.#acquire_ahead.add(lease);
    }
    if (!this.#accepting) this.#acquire_ahead.giveAllBack();
    // Whoever has work enough hears of cancels only by looking.
    this.#cancels.lookSoon();
    // After the last one it may take, it asks no more.
    const missed = this.#wakeups.missed(leases.length === wanted && this.#acquire_ahead.pays && this.#left > 0);
    if (this.#again || !this.#accepting || missed) this.#fill();
    else if (leases.length < wanted) void this.#rest();
    else this.#endIfDone();
  }

  #makeRoom(): void {
    if (this.#options.preempt !== true || this.#running.size < this.#slots.total || this.#left === 0) return;
    preempt(this.#options, this.#running, forcedGrace(this.#options.kill_grace_ms)).catch(() => {});
  }

  #scale(): void {
    const adjusted = this.#slots.adjust(this.#running.size).then((more) => {
      if (more !== 0) this.#registration.refresh();
      if (more > 0) this.#fill();
    });
    // Whoever acquires next reports a store that can't be read.
    adjusted.catch(() => {});
  }

  #giveBack(lease: Lease): void {
    this.#left += 1;
    this.#settles.keep(this.#manager.release(lease, { end: NOT_STARTED }), lease);
    if (this.#accepting) this.#wakeups.missed(false);
  }

  #begin(lease: Lease): void {
    const attempt = new Attempt(lease, this.#attempt_options);
    this.#running.add(attempt);
    this.#settles.keep(attempt.settled, lease);
    const started_ms = this.#options.clock.mono_ms();
    const freed = () => {
      this.#running.delete(attempt);
      this.#acquire_ahead.observe(this.#options.clock.mono_ms() - started_ms);
      this.#fill();
    };
    attempt.ended.then(freed, freed);
    // Stopped while the acquire was under way: what came too late goes straight back.
    if (!this.#accepting) attempt.kill();
  }

  /** Nothing to take right now: be there when the next job is due, or end. */
  async #rest(): Promise<void> {
    const { store, clock, until_empty, queues, task } = this.#options;
    try {
      const due_ms = await store.nextDue();
      this.#cancelDue();
      if (due_ms !== null) {
        const delay_ms = Math.min(Math.max(1, due_ms - (await store.now())), 2 ** 30);
        this.#cancelDue = clock.after(delay_ms, () => this.#fill());
      }
      if (!until_empty || !this.#idle) return;
      // What a dead worker left is work for us, and must be free before it can be seen.
      const left = this.#options.sweep ? await this.#sweep.scanDead() : null;
      if (left !== null && left.recovered > 0) return this.#fill();
      const { pending, retrying } = await store.backlog({ queues, task });
      if (pending + retrying === 0 && this.#idle && !this.#acquiring) this.#accepting = false;
      this.#endIfDone();
    } catch (error) {
      this.#inTrouble(error);
    }
  }

  /** Jobs that run go on under their leases; a worker that has none left gives up after a while. */
  #inTrouble(error: unknown): void {
    this.#acquiring = false;
    const pause_ms = this.#patience.next();
    if (pause_ms === null && this.#idle) {
      this.#accepting = false;
      void this.#end(error);
      return;
    }
    if (this.#trouble.again() !== null)
      this.#options.report("warn", `the store is in trouble, trying again: ${errorText(error)}`);
    this.#cancelDue();
    this.#cancelDue = this.#options.clock.after(pause_ms ?? this.#options.poll_ms, () => this.#fill());
  }

  get #idle(): boolean {
    return this.#running.size + this.#settles.size + this.#acquire_ahead.size === 0;
  }

  #endIfDone(): void {
    if ((this.#accepting && this.#left > 0) || this.#starting || this.#acquiring || !this.#idle) return;
    void this.#end(null);
  }

  async #end(error: unknown): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#wakeups.end();
    this.#cancelPoll();
    this.#cancelDrain();
    this.#cancelDue();
    await this.#sweep.stop();
    rmSync(this.#attempt_options.scratch, { recursive: true, force: true });
    const left = await this.#settles.left();
    // Its record only tells people; a worker that has done its work has not failed because of it.
    if (left === null) await this.#registration.end().catch(() => {});
    else this.#registration.leave();
    if ((error ?? left) === null) this.#finish.resolve();
    else this.#finish.reject(error ?? left);
  }
}
