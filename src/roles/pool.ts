/**
 * A worker: takes jobs into its slots, runs them, and goes on until it is told to stop or has nothing left to do.
 *
 * A slot is free as soon as its job's program is over, so that the settle of one job and the acquire of the next share
 * a commit. It wakes up when another process commits, when a scheduled job is due, and at every poll as the net below.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { errorText } from "../core/errors.ts";
import type { Lease } from "../leasing/lease.ts";
import type { Release } from "../leasing/manager.ts";
import { LeaseManager } from "../leasing/manager.ts";
import { host } from "../platform/machine.ts";
import { Attempt } from "./attempt.ts";
import { LogFlusher } from "./log_flusher.ts";
import type { PoolStatistics, WorkerPoolOptions } from "./pool_options.ts";
import { Registration } from "./registry.ts";
import { RecoverySweep } from "./sweep.ts";

const REGISTRY_REFRESH_MS = 10_000;
const CANCEL_LOOK_MS = 200;
/** A store that fails is tried again after this, doubled up to the longest. */
const TROUBLE_FIRST_MS = 100;
const TROUBLE_LONGEST_MS = 5_000;
/** With nothing running, a worker gives up on its store after this. */
const TROUBLE_PATIENCE_MS = 30_000;
const FORCED_GRACE_MS = 10_000;

export class WorkerPool {
  /** Resolves when everything has ended and is written; rejects when the store could not be reached any more. */
  readonly finished: Promise<void>;
  readonly #options: WorkerPoolOptions;
  readonly #registration: Registration;
  readonly #manager: LeaseManager;
  readonly #logs: LogFlusher;
  readonly #sweep: RecoverySweep;
  readonly #scratch: string;
  readonly #running = new Set<Attempt>();
  readonly #settling = new Set<Promise<unknown>>();
  readonly #finish = Promise.withResolvers<void>();
  #accepting = true;
  #acquiring = false;
  #again = false;
  #taken = 0;
  #trouble: { since_ms: number; delay_ms: number } | null = null;
  #unwatch = () => {};
  #cancelPoll = () => {};
  #cancelDrain = () => {};
  #cancelDue = () => {};
  #looking = false;
  #stopped = false;
  #totals = { completed: 0, failed: 0, other: 0 };

  constructor(options: WorkerPoolOptions) {
    const { store, clock, random, report, times } = options;
    this.#options = options;
    const nonce = Math.floor(random() * 36 ** 6)
      .toString(36)
      .padStart(6, "0");
    this.#registration = new Registration(
      { ...options, slots: () => options.slots, refresh_ms: REGISTRY_REFRESH_MS },
      nonce,
    );
    this.#manager = new LeaseManager({
      store,
      clock,
      random,
      host,
      worker_id: this.#registration.id,
      lease_ms: times.lease_ms,
    });
    this.#logs = new LogFlusher(store, clock);
    this.#sweep = new RecoverySweep({
      store,
      clock,
      random,
      report,
      store_url: options.store_url,
      grace_ms: times.sweep_grace_ms,
      every_ms: times.sweep_every_ms,
      checkpoints: true,
      keep_checkpoints: 100,
    });
    this.#scratch = mkdtempSync(join(tmpdir(), "lease-"));
    this.finished = this.#finish.promise;
  }

  get worker_id(): string {
    return this.#registration.id;
  }

  async start(): Promise<void> {
    await this.#registration.register();
    this.#unwatch = this.#options.store.watch(() => this.#wake());
    if (this.#options.sweep) this.#sweep.start();
    this.#poll();
    this.#fill();
  }

  /** Takes no more jobs and gives the running ones `drain_ms` to end; then they are stopped and returned. */
  stop(drain_ms: number): void {
    this.#accepting = false;
    const grace_ms = this.#options.kill_grace_ms ?? FORCED_GRACE_MS;
    const giveBack = () => {
      for (const attempt of this.#running) attempt.giveBack(grace_ms);
    };
    if (drain_ms === 0) giveBack();
    else this.#cancelDrain = this.#options.clock.after(drain_ms, giveBack);
    this.#endIfDone();
  }

  /** Kills and returns everything at once. */
  abort(): void {
    this.#accepting = false;
    for (const attempt of this.#running) attempt.kill();
    this.#endIfDone();
  }

  statistics(): PoolStatistics {
    const { clock, slots } = this.#options;
    const processing = this.#running.size;
    return {
      worker_id: this.worker_id,
      state: this.#stopped ? "stopped" : this.#accepting ? "working" : "draining",
      slots: { total: slots, idle: slots - processing, processing },
      ...this.#totals,
      current: [...this.#running].map(({ lease, last_beat_ms }) => ({
        job: lease.job.id,
        attempt: lease.token,
        last_beat_ms_ago: Math.round(clock.mono_ms() - last_beat_ms),
      })),
    };
  }

  #wake(): void {
    this.#fill();
    this.#lookForCancels();
  }

  #poll(): void {
    this.#cancelPoll = this.#options.clock.after(this.#options.poll_ms, () => {
      this.#wake();
      if (this.#options.sweep) this.#sweep.scanDead().catch(() => {});
      this.#poll();
    });
  }

  #free(): number {
    const { slots, max_jobs } = this.#options;
    const left = max_jobs === null ? Infinity : max_jobs - this.#taken;
    return Math.min(slots - this.#running.size, left);
  }

  #fill(): void {
    if (!this.#accepting) return this.#endIfDone();
    if (this.#acquiring) {
      this.#again = true;
      return;
    }
    const count = this.#free();
    if (count <= 0) return this.#endIfDone();
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
    this.#trouble = null;
    this.#taken += leases.length;
    for (const lease of leases) this.#begin(lease);
    if (this.#again && this.#free() > 0) this.#fill();
    else if (leases.length < wanted) void this.#rest();
    else this.#endIfDone();
  }

  #begin(lease: Lease): void {
    const { clock, report, times, kill_grace_ms, beat, handler, log_dir, store_url } = this.#options;
    const attempt = new Attempt(lease, {
      manager: this.#manager,
      clock,
      report,
      logs: this.#logs,
      store_url,
      handler,
      beat,
      interval_ms: (lease_ms) => Math.round((times.interval_ms * lease_ms) / times.lease_ms),
      kill_grace_ms,
      log_dir,
      scratch: this.#scratch,
    });
    this.#running.add(attempt);
    const settled = attempt.settled.then(
      (release) => this.#settled(lease, release),
      (error) => report("error", `job ${lease.job.id}: its end could not be written: ${errorText(error)}`),
    );
    this.#settling.add(settled);
    void settled.then(() => this.#settling.delete(settled)).then(() => this.#fill());
    const freed = () => {
      this.#running.delete(attempt);
      this.#fill();
    };
    attempt.ended.then(freed, freed);
    // Stopped while the acquire was under way: what came too late goes straight back.
    if (!this.#accepting) attempt.kill();
  }

  #settled(lease: Lease, release: Release): void {
    const state = release.status === "applied" ? release.change.state.name : "stale";
    if (state === "completed" || state === "failed") this.#totals[state] += 1;
    else this.#totals.other += 1;
    this.#options.onSettled?.(lease, release);
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
      if (!until_empty || this.#running.size > 0 || this.#settling.size > 0) return;
      const { pending, retrying } = await store.backlog({ queues, task });
      if (pending + retrying === 0 && this.#running.size === 0 && this.#settling.size === 0) this.#accepting = false;
      this.#endIfDone();
    } catch (error) {
      this.#inTrouble(error);
    }
  }

  #lookForCancels(): void {
    if (this.#looking || this.#running.size === 0) return;
    this.#looking = true;
    const look = async () => {
      const requests = await this.#options.store.cancelRequests(this.worker_id);
      for (const { id, token } of requests) {
        for (const attempt of this.#running) {
          if (attempt.lease.job.id === id && attempt.lease.token === token) attempt.cancel();
        }
      }
    };
    this.#options.clock.after(CANCEL_LOOK_MS, () => {
      this.#looking = false;
      look().catch(() => {});
    });
  }

  /** Jobs that run go on under their leases; a worker that has none left gives up after a while. */
  #inTrouble(error: unknown): void {
    const { clock, report } = this.#options;
    this.#acquiring = false;
    const now_ms = clock.mono_ms();
    this.#trouble ??= { since_ms: now_ms, delay_ms: TROUBLE_FIRST_MS };
    if (this.#running.size === 0 && now_ms - this.#trouble.since_ms > TROUBLE_PATIENCE_MS) {
      this.#accepting = false;
      void this.#end(error);
      return;
    }
    report("warn", `the store is in trouble, trying again: ${errorText(error)}`);
    clock.after(this.#trouble.delay_ms, () => this.#fill());
    this.#trouble.delay_ms = Math.min(this.#trouble.delay_ms * 2, TROUBLE_LONGEST_MS);
  }

  #endIfDone(): void {
    const { max_jobs } = this.#options;
    const spent = max_jobs !== null && this.#taken >= max_jobs;
    if ((this.#accepting && !spent) || this.#acquiring || this.#running.size + this.#settling.size > 0) return;
    void this.#end(null);
  }

  async #end(error: unknown): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#unwatch();
    this.#cancelPoll();
    this.#cancelDrain();
    this.#cancelDue();
    await this.#sweep.stop();
    rmSync(this.#scratch, { recursive: true, force: true });
    if (error !== null) return this.#finish.reject(error);
    // Its record only tells people; a worker that has done its work has not failed because of it.
    await this.#registration.end().catch(() => {});
    this.#finish.resolve();
  }
}
