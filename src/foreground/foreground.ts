/**
 * Sees one job through to its end: runs it here where that can be done, with the same parts as a worker, else follows
 * whoever runs it, and takes over when that one is gone. What it prints is passed on as it comes.
 *
 * Runs of the job here are its own: `cancel` ends them for good, `giveBack` leaves the job for somebody else. A job that
 * others run is only ever left.
 */

import { forcedGrace } from "../core/calibration.ts";
import type { Random } from "../core/clock.ts";
import { assert, errorText, isReplaced, LeaseError } from "../core/errors.ts";
import { isFinished, type Job, type NewJob } from "../core/job.ts";
import type { Lease } from "../leasing/lease.ts";
import { LeaseManager } from "../leasing/manager.ts";
import { host } from "../platform/machine.ts";
import type { Stream } from "../platform/platform.ts";
import { RecoverySweep } from "../recovery/sweep.ts";
import { Enforcer } from "../runner/enforcer.ts";
import { Fences } from "../runner/fence.ts";
import { Scratch } from "../runner/scratch.ts";
import type { EnqueueOptions, Store } from "../store/store.ts";
import { NOT_STARTED } from "../worker/acquire_ahead.ts";
import { Attempt } from "../worker/attempt.ts";
import type { AttemptOptions } from "../worker/attempt_options.ts";
import { CancelWatch } from "../worker/cancel_watch.ts";
import { LogFlusher } from "../worker/log_flusher.ts";
import { settledText } from "../worker/messages.ts";
import { putAway, type AttemptOwner } from "../worker/owner.ts";
import { Registration } from "../worker/registration.ts";
import { StoreTrouble } from "../worker/store_trouble.ts";
import { LogReader } from "./log_reader.ts";

export interface ForegroundOptions extends AttemptOptions {
  store: Store;
  random: Random;
  version: string;
  /** Never run it here. */
  remote: boolean;
  /** What the job prints; a promise holds back more of it. */
  print: (stream: Stream, bytes: Uint8Array) => void | Promise<void>;
}

/** The net below the wake-ups. */
const LOOK_EVERY_MS = 500;
const SWEEP_EVERY_MS = 1_000;

export class Foreground {
  readonly #options: ForegroundOptions;
  readonly #registration: Registration;
  readonly #manager: LeaseManager;
  readonly #sweep: RecoverySweep;
  readonly #owner: AttemptOwner;
  readonly #store_trouble: StoreTrouble;
  readonly #running = new Set<Attempt>();
  readonly #cancels: CancelWatch;
  #registered: Promise<void> | null = null;
  #log: LogReader | null = null;
  /** Made by us, to be run by us. */
  #own = false;
  /** Granted and not started yet. */
  #granted: Lease | null = null;
  #id = 0;
  #stop: "cancel" | "give_back" | "leave" | null = null;
  /** Why it must not go on. */
  #fenced: LeaseError | null = null;
  /** Asked not to wait for the job already. */
  #killed = false;
  /** The end can't be written down: nothing to wait for any more. */
  #unwritten = false;
  readonly #abandoned = Promise.withResolvers<null>();
  #swept_ms = -Infinity;
  #ring = () => {};
  #totals = { completed: 0, failed: 0 };

  constructor(options: ForegroundOptions) {
    this.#options = options;
    const { store, clock, random, report, store_url, version, times } = options;
    const activity = () => ({ slots: 1, draining: this.#stop !== null, ...this.#totals });
    const name = "lease run";
    this.#registration = new Registration({
      store,
      clock,
      random,
      name,
      version,
      queues: [],
      task: null,
      commands_only: true,
      activity,
    });
    const worker_id = this.#registration.id;
    this.#manager = new LeaseManager({ store, clock, random, host, worker_id, lease_ms: times.lease_ms });
    const { sweep_grace_ms: grace_ms, sweep_every_ms: every_ms } = times;
    this.#sweep = new RecoverySweep({ store, clock, random, report, store_url, grace_ms, every_ms });
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
      settleWithin: () => 0,
      givesUpSettles: () => false,
      printed: (_lease, stream, bytes) => options.print(stream, bytes),
    };
    this.#store_trouble = new StoreTrouble(clock);
    this.#cancels = new CancelWatch({ store, clock, worker_id, running: this.#running });
  }

  /** Whether it ends with us: it runs here, or was made to. */
  get own(): boolean {
    return this.#own || this.#granted !== null || this.#running.size > 0;
  }

  /** Queues a job, and unless it is for others is granted it at once where that is possible. */
  async enqueue(job: NewJob, options: Pick<EnqueueOptions, "done_answers">): Promise<{ id: number; created: boolean }> {
    if (this.#options.remote || job.argv.length === 0) {
      const [queued] = await this.#options.store.enqueue([job], options);
      assert(queued !== undefined, "a store answers every request");
      return queued;
    }
    await this.#register();
    const { id, created, lease } = await this.#manager.enqueue(job, options);
    this.#id = id;
    this.#own = created;
    this.#granted = lease;
    return { id, created };
  }

  /** Until the job has finished, or we left it; answers the job as it was then. */
  async follow(id: number): Promise<Job> {
    this.#id = id;
    this.#log = null;
    const { store } = this.#options;
    const unwatch = store.watch(() => this.#wake());
    const stopGuarding = store.onReplaced((error) => this.#fence(error));
    try {
      for (;;) {
        const job = await this.#whileInTrouble(() => this.#step());
        if (this.#fenced !== null) throw this.#fenced;
        if (job !== null) return job;
      }
    } finally {
      stopGuarding();
      unwatch();
    }
  }

  /** Ends the job for good, or leaves it where it is not ours. Asked again, it does not wait for the job. */
  cancel(reason: string): void {
    if (!this.own) return this.#leave("leave");
    if (this.#stop !== null) return this.#killOrAbandon();
    this.#stop = "cancel";
    // Written down as well, so that it holds even if we are killed before the job has ended.
    this.#options.store.cancel([this.#id], reason).catch(() => {
      this.#unwritten = true;
      this.#ring();
    });
    for (const attempt of this.#running) attempt.cancel();
    this.#ring();
  }

  /** Leaves the job; one that runs here goes back to the queue. Asked again, it does not wait for the job. */
  giveBack(): void {
    if (this.#stop !== null) return this.#killOrAbandon();
    this.#leave("give_back");
    if (this.#running.size > 0) this.#options.report("info", `job ${this.#id}: stopping it, to give it back`);
    for (const attempt of this.#running) attempt.giveBack(forcedGrace(this.#options.kill_grace_ms));
  }

  async end(): Promise<void> {
    // One that can't be given back now is free when its lease is over.
    if (this.#granted !== null) await this.#refuse(this.#granted).catch(() => {});
    if (this.#registered === null) return;
    await putAway(this.#owner);
    await this.#registration.end().catch(() => {});
  }

  /** The store is another one: others may run the job, and nothing that we write would be kept. */
  #fence(error: LeaseError): void {
    this.#fenced = error;
    for (const attempt of this.#running) attempt.fence(error.message);
    this.#ring();
  }

  #leave(how: "leave" | "give_back"): void {
    this.#stop ??= how;
    this.#ring();
  }

  /** The first time what runs is killed; after that not even its end is waited for, which a full disk may never take. */
  #killOrAbandon(): void {
    if (this.#killed) this.#abandon();
    this.#killed = true;
    for (const attempt of this.#running) attempt.kill();
  }

  #abandon(): void {
    this.#unwritten = true;
    this.#abandoned.resolve(null);
    this.#ring();
  }

  /** One look: null when there is more to do. */
  async #step(): Promise<Job | null> {
    if (this.#granted !== null) await this.#runHere(this.#granted);
    const [job] = await this.#options.store.jobs([this.#id]);
    if (job === null || job === undefined) throw new LeaseError("no_such_job", `job ${this.#id} was deleted`);
    await this.#catchUp(job);
    if (isFinished(job.state) || this.#unwritten || this.#stop === "leave" || this.#stop === "give_back") return job;
    this.#granted = await this.#acquire(job);
    if (this.#granted === null && !(await this.#recover(job))) await this.#rest(job);
    return null;
  }

  /** A store in trouble is tried again, but not for ever; null: once more. */
  async #whileInTrouble<T>(work: () => Promise<T>): Promise<T | null> {
    try {
      const done = await work();
      this.#store_trouble.over();
      return done;
    } catch (error) {
      const final = isReplaced(error) || (error instanceof LeaseError && error.code === "no_such_job");
      const pause_ms = final ? null : this.#store_trouble.nextPause();
      if (pause_ms === null) throw error;
      this.#options.report("warn", `the store is in trouble, trying again: ${errorText(error)}`);
      await this.#pause(pause_ms);
      return null;
    }
  }

  /** What others' attempts printed; the job was read before, so that nothing comes behind the end of an attempt. */
  async #catchUp(job: Job): Promise<void> {
    const log = this.#logFrom(Math.max(job.token, 1));
    while (log.attempt < job.token) {
      await log.read();
      const why = job.result.error === null ? "" : `: ${job.result.error}`;
      this.#options.report("warn", `job ${job.id}: attempt ${log.attempt} ended${why}`);
      log.turnTo(log.attempt + 1);
    }
    await log.read();
  }

  /** The reader, which begins there if it is new. */
  #logFrom(attempt: number): LogReader {
    const { store, print, report } = this.#options;
    this.#log ??= new LogReader({
      store,
      job: this.#id,
      attempt,
      onEntry: ({ stream, bytes }) => print(stream, bytes),
      onGap: (bytes) => report("warn", `job ${this.#id}: ${bytes} bytes of its log were not kept`),
    });
    return this.#log;
  }

  async #acquire({ id, state, argv, token }: Job): Promise<Lease | null> {
    const { remote, store, report } = this.#options;
    // A job that is only an input needs a worker with a handler.
    if (remote || this.#stop !== null || argv.length === 0) return null;
    if (state.name !== "pending" && (state.name !== "scheduled" || state.run_at_ms > (await store.now()))) return null;
    await this.#register();
    const [lease = null] = await this.#manager.acquire({ job: id });
    if (lease !== null && !this.#own) {
      report("info", `job ${id}: ${token > 0 ? "taken over" : "nobody runs it yet"}, running it here`);
    }
    return lease;
  }

  async #runHere(lease: Lease): Promise<void> {
    const { report } = this.#options;
    if (this.#stop !== null) return this.#refuse(lease);
    const attempt = new Attempt(lease, this.#options, this.#owner);
    this.#running.add(attempt);
    this.#granted = null;
    const timer = setInterval(() => this.#cancels.lookSoon(), LOOK_EVERY_MS);
    try {
      const release = await Promise.race([attempt.settled, this.#abandoned.promise]);
      if (release === null) return;
      const ended = release.status === "applied" ? release.change.state.name : null;
      if (ended === "completed" || ended === "failed") this.#totals[ended] += 1;
      const said = settledText(lease, release);
      // How it ended for good is for whoever asked to say.
      if (release.status === "applied" && !isFinished(release.change.state) && said !== null) report(...said);
    } finally {
      clearInterval(timer);
      this.#running.delete(attempt);
      // What it printed was passed on as it came.
      this.#logFrom(lease.token + 1).turnTo(lease.token + 1);
    }
  }

  /** Granted too late. */
  async #refuse(lease: Lease): Promise<void> {
    const cancelled = { ...NOT_STARTED, cause: "cancelled", error: "cancelled" } as const;
    await this.#manager.release(lease, { end: this.#stop === "cancel" ? cancelled : NOT_STARTED });
    // Not before: what could not be given back is tried again at the end.
    this.#granted = null;
  }

  /** True when something was recovered, perhaps our job. */
  async #recover({ state }: Job): Promise<boolean> {
    const { store, clock, times } = this.#options;
    if (state.name !== "running" || clock.mono_ms() - this.#swept_ms < SWEEP_EVERY_MS) return false;
    this.#swept_ms = clock.mono_ms();
    const late = (await store.now()) > state.expires_at_ms + times.sweep_grace_ms;
    const counts = late ? await this.#sweep.scan() : await this.#sweep.scanDead();
    return counts !== null && counts.recovered + counts.failed + counts.cancelled > 0;
  }

  async #rest({ state }: Job): Promise<void> {
    const due_ms = state.name === "scheduled" ? state.run_at_ms - (await this.#options.store.now()) : LOOK_EVERY_MS;
    await this.#pause(Math.max(1, Math.min(LOOK_EVERY_MS, due_ms)));
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancelTimer = this.#options.clock.after(ms, () => this.#ring());
      this.#ring = () => {
        cancelTimer();
        resolve();
      };
    });
  }

  #wake(): void {
    this.#cancels.lookSoon();
    this.#ring();
  }

  #register(): Promise<void> {
    this.#registered ??= this.#registration.register().then(() => {
      this.#owner.scratch.folder();
    });
    return this.#registered;
  }
}
