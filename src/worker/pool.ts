/**
 * A worker: takes jobs into its slots, runs them, and goes on until it is told to stop or has nothing left to do.
 *
 *     starting ──registered──▶ working ──stop(), abort()──▶ draining ──its last job has ended──▶ stopped
 *         └────────────stop(), abort()────────────────────────▲                                    ▲
 *                                 └──until_empty: nothing left · max_jobs: the last has ended · ───┘
 *                                    the store stays away, and no job depends on this worker
 *
 * Jobs are acquired in `working` alone. A slot is free as soon as its job's program is over, so that the settle of one
 * job and the acquire of the next share a commit. It wakes up when another process commits, when a scheduled job is
 * due, and at every poll as the net below.
 */

import { forcedGrace } from "../core/calibration.ts";
import { every, type MachineTime, type Random } from "../core/clock.ts";
import { errorText, isReplaced, type LeaseError } from "../core/errors.ts";
import type { Resources } from "../core/resources.ts";
import { slotStates, type Scaling } from "../core/scaling.ts";
import type { Lease } from "../leasing/lease.ts";
import { LeaseManager, type Release } from "../leasing/manager.ts";
import { host, machineTime } from "../platform/machine.ts";
import { RecoverySweep } from "../recovery/sweep.ts";
import { Enforcer } from "../runner/enforcer.ts";
import { Fences } from "../runner/fence.ts";
import { Scratch } from "../runner/scratch.ts";
import type { Store } from "../store/store.ts";
import { AcquireAhead, NOT_STARTED } from "./acquire_ahead.ts";
import { Attempt } from "./attempt.ts";
import type { AttemptOptions } from "./attempt_options.ts";
import { CancelWatch } from "./cancel_watch.ts";
import { InFlightSettles } from "./in_flight_settles.ts";
import { LogFlusher } from "./log_flusher.ts";
import { tellGrant, workerEvent } from "./messages.ts";
import { preempt } from "./preempt.ts";
import { putAway, type AttemptOwner } from "./owner.ts";
import { Registration } from "./registration.ts";
import { MODES, type Mode, type PoolStatistics } from "./pool_statistics.ts";
import { Slots, type SlotWork } from "./slots.ts";
import { StoreTrouble } from "./store_trouble.ts";
import { whatIsLeft, type Served } from "./until_empty.ts";
import { Wakeups } from "./wakeups.ts";

export interface WorkerPoolOptions extends Served, AttemptOptions {
  store: Store;
  random: Random;
  version: string;
  name: string | null;
  slots: number;
  /** What this machine has, for jobs that need any of it. */
  have?: Resources;
  /** Between two bounds instead of a fixed number. */
  scaling?: Scaling | null;
  poll_ms: number;
  sweep: boolean;
  /** Give back a job for one that is more urgent by at least 100. */
  preempt?: boolean;
  /** Ends when there is nothing left to do. */
  until_empty: boolean;
  /** Ends after so many jobs. */
  max_jobs: number | null;
  /** The machine's own, unless a test has another. */
  machine_time?: () => MachineTime;
  onSettled?: (lease: Lease, release: Release) => void;
  /** What jobs print, as it comes; a promise holds back the job until it is settled. */
  onPrinted?: AttemptOwner["printed"];
}

/** How soon a worker that died on this machine is noticed. */
const DEAD_EVERY_MS = 1_000;
/** The longest that a timer can be set for. */
const LONGEST_DELAY_MS = 2 ** 30;

export class WorkerPool {
  /** Resolves when everything has ended and is written; rejects when the store could not be reached any more. */
  readonly finished: Promise<void>;
  readonly #options: WorkerPoolOptions;
  readonly #registration: Registration;
  readonly #manager: LeaseManager;
  readonly #sweep: RecoverySweep;
  readonly #slots: Slots;
  readonly #running = new Set<Attempt>();
  readonly #owner: AttemptOwner;
  readonly #settles: InFlightSettles;
  readonly #acquire_ahead: AcquireAhead;
  readonly #cancels: CancelWatch;
  readonly #wakeups: Wakeups;
  readonly #store_trouble: StoreTrouble;
  readonly #finish = Promise.withResolvers<void>();
  #mode: Mode = "starting";
  /** Why it must not go on. */
  #fenced: LeaseError | null = null;
  /** The time for draining is over: a settle that can't be written is not waited for any more. */
  #drain_over = false;
  /** What the store has been asked for and has not answered: it can't end before. */
  #asking: "register" | "acquire" | null = null;
  #fill_again = false;
  /** That it may still take. */
  #jobs_left: number;
  readonly #cancelTimers: (() => void)[] = [];
  #cancelDue = () => {};

  constructor(options: WorkerPoolOptions) {
    const { store, clock, random, report, store_url, version, name, queues, task, times, learn = false } = options;
    const { commands_only = false, have = {}, machine_time = machineTime } = options;
    this.#options = options;
    this.#jobs_left = options.max_jobs ?? Infinity;
    this.finished = this.#finish.promise;
    this.#slots = new Slots({
      clock,
      slots: options.slots,
      scaling: options.scaling ?? null,
      pending: async () => (await store.backlog({ queues, task, commands_only })).pending,
    });
    const activity = () => {
      const { completed, failed } = this.#settles.totals;
      return { slots: this.#slots.total, draining: !this.#takes_jobs, completed, failed };
    };
    const about = { name, version, queues, task, commands_only, have };
    this.#registration = new Registration({ store, clock, random, ...about, activity, machine_time });
    const worker_id = this.#registration.id;
    const lease_ms = learn ? 0 : times.lease_ms;
    this.#manager = new LeaseManager({ store, clock, random, host, worker_id, lease_ms, have });
    const { sweep_grace_ms: grace_ms, sweep_every_ms: every_ms } = times;
    const swept = { grace_ms, every_ms, dead_every_ms: DEAD_EVERY_MS, machine_time };
    this.#sweep = new RecoverySweep({ store, clock, random, report, store_url, ...swept });
    const registration = this.#registration;
    const scratch = new Scratch(store_url, worker_id);
    this.#owner = {
      manager: this.#manager,
      get store_id() {
        return registration.store_id;
      },
      logs: new LogFlusher(store, clock),
      scratch,
      fences: new Fences(worker_id, () => registration.store_id, { adopts: options.adopts ?? false }),
      enforcer: new Enforcer(scratch),
      settleWithin: () => this.#acquire_ahead.settle_within_ms,
      givesUpSettles: () => this.#drain_over,
      ...(options.onPrinted === undefined ? {} : { printed: options.onPrinted }),
    };
    this.#settles = new InFlightSettles(report);
    this.#acquire_ahead = new AcquireAhead(clock, (lease) => this.#giveBack(lease));
    this.#cancels = new CancelWatch({ store, clock, worker_id, running: this.#running });
    this.#wakeups = new Wakeups(store, () => this.wake());
    this.#store_trouble = new StoreTrouble(clock);
  }

  get worker_id(): string {
    return this.#registration.id;
  }

  async start(): Promise<void> {
    this.#asking = "register";
    await this.#registration.register().finally(() => (this.#asking = null));
    // Told to stop in the meantime.
    if (!this.#enter("working")) return this.#endIfDone();
    if (this.#options.handling === undefined) this.#owner.scratch.folder();
    const serves = { slots: this.#slots.total, queues: this.#options.queues?.join(",") ?? "*" };
    this.#options.report(...workerEvent("worker_started", this.worker_id, serves));
    this.#cancelTimers.push(this.#options.store.onReplaced((error) => this.#fence(error)));
    this.#wakeups.listen();
    // What it recovers it hears of from nobody else.
    const fill = () => this.#fill();
    if (this.#options.sweep) this.#sweep.start(({ recovered }) => recovered > 0 && fill(), fill);
    const poll = () => {
      this.wake();
      this.#scale();
    };
    this.#cancelTimers.push(every(this.#options.clock, this.#options.poll_ms, poll));
    this.#fill();
  }

  /** Takes no more jobs and gives the running ones `drain_ms` to end; then they are stopped and returned. */
  stop(drain_ms: number): void {
    this.#drain();
    const grace_ms = forcedGrace(this.#options.kill_grace_ms);
    const giveBack = () => this.#endAll((attempt) => attempt.giveBack(grace_ms));
    if (drain_ms === 0) giveBack();
    else if (this.#mode === "draining") this.#cancelTimers.push(this.#options.clock.after(drain_ms, giveBack));
    this.#endIfDone();
  }

  /** Kills and returns everything at once. */
  abort(): void {
    this.#endAll((attempt) => attempt.kill());
  }

  /** The store is another one: others may run what runs here, and nothing that we write would be kept. */
  #fence(error: LeaseError): void {
    this.#fenced ??= error;
    this.#endAll((attempt) => attempt.fence(error.message));
  }

  #endAll(end: (attempt: Attempt) => void): void {
    this.#drain();
    this.#drain_over = true;
    for (const attempt of this.#running) end(attempt);
    this.#endIfDone();
  }

  statistics(): PoolStatistics {
    return {
      worker_id: this.worker_id,
      state: this.#mode,
      slots: slotStates(this.#slots.total, this.#running.size, this.#takes_jobs),
      ...this.#settles.totals,
      current: [...this.#running].map((attempt) => attempt.statistics()),
      by_slot: this.#slots.records(this.#takes_jobs),
    };
  }

  /** Modes only follow one another; false when it is there already, or further. */
  #enter(mode: Mode): boolean {
    if (MODES.indexOf(mode) <= MODES.indexOf(this.#mode)) return false;
    this.#mode = mode;
    return true;
  }

  get #takes_jobs(): boolean {
    return this.#mode === "starting" || this.#mode === "working";
  }

  #drain(): void {
    const worked = this.#mode === "working";
    if (!this.#enter("draining")) return;
    // From here on it asks for nothing any more, and must hear of cancels.
    if (worked) this.#wakeups.listen();
    this.#registration.refresh();
    this.#acquire_ahead.giveAllBack();
  }

  /** Something may have changed: looks for jobs and for cancel requests. */
  wake(): void {
    if (this.#mode === "starting" || this.#mode === "stopped") return;
    this.#fill();
    this.#cancels.lookSoon();
  }

  /** Starts what was acquired ahead, and acquires for slots that are free. */
  #fill(): void {
    if (!this.#takes_jobs) return this.#endIfDone();
    while (this.#running.size < this.#slots.total) {
      const lease = this.#acquire_ahead.take();
      if (lease === null) break;
      this.#begin(lease);
    }
    if (this.#asking !== null) {
      this.#fill_again = true;
      return;
    }
    const slots = this.#slots.total;
    const free = Math.max(0, slots - this.#running.size);
    const count = Math.min(free + this.#acquire_ahead.wanted(slots), this.#jobs_left);
    this.#slots.busy(this.#running.size);
    if (count <= 0) {
      this.#scale();
      this.#makeRoom();
      return this.#endIfDone();
    }
    this.#asking = "acquire";
    this.#fill_again = false;
    const { queues, task, commands_only = false } = this.#options;
    this.#manager.acquire({ count, at_once: Math.min(free, count), queues, task, commands_only }).then(
      (leases) => this.#acquired(leases, count),
      (error) => {
        this.#asking = null;
        this.#inTrouble(error);
      },
    );
  }

  #acquired(leases: readonly Lease[], wanted: number): void {
    this.#asking = null;
    this.#store_trouble.over();
    this.#jobs_left -= leases.length;
    for (const lease of leases) {
      tellGrant(this.#options.report, lease);
      if (this.#running.size < this.#slots.total) this.#begin(lease);
      else this.#acquire_ahead.add(lease);
    }
    if (!this.#takes_jobs) this.#acquire_ahead.giveAllBack();
    // Whoever has work enough hears of cancels only by looking.
    this.#cancels.lookSoon();
    const listened = this.#wakeups.listening;
    // After the last one it may take, it asks no more.
    if (leases.length === wanted && this.#acquire_ahead.jobs_are_short && this.#jobs_left > 0) {
      this.#wakeups.countFullAnswer();
    } else this.#wakeups.listen();
    const may_have_missed = !listened && this.#wakeups.listening;
    if (this.#fill_again || !this.#takes_jobs || may_have_missed) this.#fill();
    else if (leases.length < wanted) void this.#rest();
    else this.#endIfDone();
  }

  #begin(lease: Lease): void {
    const attempt = new Attempt(lease, this.#options, this.#owner);
    this.#running.add(attempt);
    const slot = this.#slots.take(lease.job.id);
    this.#awaitSettle(lease, attempt.settled, slot);
    const started_ms = this.#options.clock.mono_ms();
    const freed = () => {
      this.#running.delete(attempt);
      this.#slots.giveBack(slot);
      this.#acquire_ahead.observe(this.#options.clock.mono_ms() - started_ms);
      this.#fill();
    };
    attempt.ended.then(freed, freed);
    // Stopped while the acquire was under way: what came too late goes straight back.
    if (!this.#takes_jobs) attempt.kill();
  }

  #giveBack(lease: Lease): void {
    this.#jobs_left += 1;
    this.#awaitSettle(lease, this.#manager.release(lease, { end: NOT_STARTED }));
    if (this.#takes_jobs) this.#wakeups.listen();
  }

  #awaitSettle(lease: Lease, settle: Promise<Release>, slot: SlotWork | null = null): void {
    void this.#settles.add(lease, settle, slot).then((release) => {
      if (release !== null) this.#options.onSettled?.(lease, release);
      this.#fill();
    });
  }

  #makeRoom(): void {
    if (this.#options.preempt !== true || this.#running.size < this.#slots.total || this.#jobs_left === 0) return;
    preempt(this.#options, this.#running, forcedGrace(this.#options.kill_grace_ms)).catch(() => {});
  }

  #scale(): void {
    if (!this.#slots.scales) return;
    const scaled = (more: number) => {
      if (more !== 0) this.#registration.refresh();
      if (more > 0) this.#fill();
    };
    // Whoever acquires next reports a store that can't be read.
    this.#slots.adjust(this.#running.size).then(scaled, () => {});
  }

  /** Nothing to take right now: be there when the next job is due, or end. */
  async #rest(): Promise<void> {
    const { store, clock, until_empty } = this.#options;
    try {
      const due_ms = await store.nextDue();
      this.#cancelDue();
      if (due_ms !== null) {
        const delay_ms = Math.min(Math.max(1, due_ms - (await store.now())), LONGEST_DELAY_MS);
        this.#cancelDue = clock.after(delay_ms, () => this.#fill());
      }
      if (until_empty && this.#idle) await this.#endIfEmpty();
    } catch (error) {
      this.#inTrouble(error);
    }
  }

  async #endIfEmpty(): Promise<void> {
    const left = await whatIsLeft(this.#options.store, this.#options, this.#options.sweep ? this.#sweep : null);
    if (left === "more") this.#fill();
    else if (left === "nothing" && this.#idle && this.#asking === null) void this.#end(null);
    else this.#endIfDone();
  }

  /** Jobs that run go on under their leases; a worker that has none left gives up after a while. */
  #inTrouble(error: unknown): void {
    if (isReplaced(error)) return this.#fence(error);
    const pause_ms = this.#store_trouble.nextPause();
    if (pause_ms === null && this.#idle && this.#asking === null) return void this.#end(error);
    if (this.#store_trouble.tellNow())
      this.#options.report("warn", `the store is in trouble, trying again: ${errorText(error)}`);
    this.#cancelDue();
    this.#cancelDue = this.#options.clock.after(pause_ms ?? this.#options.poll_ms, () => this.#fill());
  }

  get #idle(): boolean {
    return this.#running.size + this.#settles.size + this.#acquire_ahead.size === 0;
  }

  #endIfDone(): void {
    if ((this.#takes_jobs && this.#jobs_left > 0) || this.#asking !== null || !this.#idle) return;
    void this.#end(null);
  }

  async #end(error: unknown): Promise<void> {
    if (!this.#enter("stopped")) return;
    this.#wakeups.end();
    for (const cancel of this.#cancelTimers) cancel();
    this.#cancelDue();
    await this.#sweep.stop();
    await putAway(this.#owner);
    const held = await this.#settles.whyStillHeld(this.#options.store, this.worker_id);
    // Its record only tells people; a worker that has done its work has not failed because of it.
    if (held === null) await this.#registration.end().catch(() => {});
    else this.#registration.leave();
    this.#options.report(...workerEvent("worker_stopped", this.worker_id, this.#settles.totals));
    const why = this.#fenced ?? error ?? held;
    if (why === null) this.#finish.resolve();
    else this.#finish.reject(why);
  }
}
