/**
 * A simulated worker: real LeaseManager, Heartbeat, LeaseExtender and SilenceWatch around children that are names only.
 * What `Attempt` does with processes is done here with a flag.
 */

import { LeaseExtender } from "../../src/leasing/extender.ts";
import { Heartbeat } from "../../src/leasing/heartbeat.ts";
import type { Lease } from "../../src/leasing/lease.ts";
import { LeaseManager } from "../../src/leasing/manager.ts";
import { sleep } from "../../src/core/clock.ts";
import type { Cause, NewJob } from "../../src/core/job.ts";
import { SilenceWatch } from "../../src/leasing/silence_watch.ts";
import { end } from "../support/jobs.ts";
import type { Chance } from "./chance.ts";
import { HAVE } from "./plans.ts";
import type { SimProcess } from "./process.ts";

export const LEASE_MS = 10_000;
const INTERVAL_MS = 1_000;
export const KILL_GRACE_MS = 2_000;

/** A job that is being run, whoever runs it. */
export interface SimJob {
  readonly lease: Lease;
  readonly worker: { readonly id: string; readonly process: SimProcess; readonly alive: boolean };
  readonly child: "running" | "stopping" | "dead";
  /** It prints a line. */
  beat(): void;
  /** It calls `lease beat`. */
  beatItself(): Promise<void>;
  checkpoint(text: string): Promise<void>;
  log(): Promise<void>;
  finish(cause: Cause): void;
}

export interface WorkerOptions {
  id: string;
  process: SimProcess;
  /** Through which jobs call `lease beat` and `lease checkpoint`: they run on while their worker is frozen. */
  jobs: SimProcess;
  chance: Chance;
  note: (what: string) => void;
  /** What it takes; everything unless told. */
  queues?: readonly string[] | null;
  task?: string | null;
  /** Does not kill its child when the lease is lost: for the proof that somebody would notice. */
  careless: boolean;
}

export class SimWorker {
  readonly id: string;
  readonly process: SimProcess;
  readonly tasks = new Set<SimTask>();
  readonly manager: LeaseManager;
  readonly options: WorkerOptions;
  readonly slots = 2;

  constructor(options: WorkerOptions) {
    this.id = options.id;
    this.process = options.process;
    this.options = options;
    const { clock, store } = options.process;
    this.manager = new LeaseManager({
      store,
      clock,
      worker_id: options.id,
      // Not this machine's name, or sweeps would look for processes.
      host: "simulated",
      random: options.chance.next,
      lease_ms: LEASE_MS,
      have: HAVE,
    });
  }

  get alive(): boolean {
    return this.process.state === "alive";
  }

  async acquire(count: number): Promise<void> {
    const { queues = null, task = null } = this.options;
    try {
      for (const lease of await this.manager.acquire({ count, queues, task })) {
        // Frozen between the grant and the start: it is somebody else's turn.
        if (lease.remaining() <= 0) this.options.note("granted too late");
        else this.tasks.add(new SimTask(this, lease));
      }
    } catch {
      this.options.note("acquire failed");
    }
  }

  /** As `lease run` does: nobody else can have it before. */
  async enqueue(job: NewJob): Promise<void> {
    try {
      const { lease } = await this.manager.enqueue(job);
      if (lease !== null && lease.remaining() > 0) this.tasks.add(new SimTask(this, lease));
    } catch {
      this.options.note("run failed");
    }
  }

  /** It is told to end: what runs goes back. */
  drain(): void {
    for (const task of this.tasks) task.stop("returned");
  }
}

export class SimTask implements SimJob {
  readonly lease: Lease;
  readonly worker: SimWorker;
  readonly #heartbeat: Heartbeat;
  readonly #silence: SilenceWatch;
  readonly #detach: () => void;
  #printed = 0;
  #child: "running" | "stopping" | "dead" = "running";

  constructor(worker: SimWorker, lease: Lease) {
    this.worker = worker;
    this.lease = lease;
    const { manager, options } = worker;
    const { clock } = worker.process;
    this.#heartbeat = new Heartbeat(clock);
    const extender = new LeaseExtender(manager, {
      clock,
      interval_ms: INTERVAL_MS,
      onLost: (_lease, reason) => this.#lose(`extension ${reason}`),
      onCancel: () => this.stop("cancelled"),
      onFailure: () => options.note("extension failed"),
    });
    this.#detach = extender.attach(lease, this.#heartbeat);
    this.#silence = new SilenceWatch(
      {
        lease,
        manager,
        clock,
        heartbeat: this.#heartbeat,
        timeout_ms: lease.job.settings.timeout_ms,
        grace_ms: KILL_GRACE_MS,
      },
      {
        halfSilent: () => options.note("half silent"),
        stop: (cause) => this.stop(cause),
        lost: (why) => this.#lose(why.startsWith("it") ? "fenced" : why),
      },
    );
  }

  get child(): "running" | "stopping" | "dead" {
    return this.#child;
  }

  beat(): void {
    this.#heartbeat.beat();
  }

  async beatItself(): Promise<void> {
    const { id, token } = this.#identity();
    const request = { id, token, expires_in_ms: LEASE_MS, beat_age_ms: 0, beats: 0, at_least: true, by_job: true };
    await this.worker.options.jobs.store.extend([request]).catch(() => {});
  }

  async checkpoint(text: string): Promise<void> {
    await this.worker.options.jobs.store.checkpoint([{ ...this.#identity(), text }]).catch(() => {});
  }

  async log(): Promise<void> {
    const chunks = [{ start: this.#printed++, bytes: 1, data: new Uint8Array([120]) }];
    const limits = { head_bytes: 1_000, keep_from: 0 };
    await this.worker.process.store.appendLogs([{ ...this.#identity(), chunks, ...limits }]).catch(() => {});
  }

  finish(cause: Cause): void {
    if (this.#child !== "dead") this.#over(cause);
  }

  /** It is asked to end, takes its time, and is killed when it takes too much. */
  stop(cause: Cause): void {
    if (this.#child !== "running") return;
    this.#child = "stopping";
    this.worker.options.note(`stopped ${cause}`);
    this.#detach();
    this.#silence.stopping(KILL_GRACE_MS);
    const takes_ms = this.worker.options.chance.between(0, KILL_GRACE_MS);
    this.worker.process.clock.after(takes_ms, () => this.finish(cause));
  }

  #lose(why: string): void {
    if (this.#child === "dead") return;
    this.worker.options.note(`lost: ${why}`);
    if (this.worker.options.careless) return;
    this.#over("expired");
  }

  #over(cause: Cause): void {
    this.#child = "dead";
    this.#detach();
    this.#silence.end();
    void this.#settle(cause, this.lease.storeTime()).then(() => this.worker.tasks.delete(this));
  }

  /** As an attempt does: tried again while the lease lasts. */
  async #settle(cause: Cause, ended_at_ms: number): Promise<void> {
    for (let delay_ms = 50; ; delay_ms *= 2) {
      try {
        await this.worker.manager.release(this.lease, { end: end(cause), ended_at_ms });
        return;
      } catch {
        if (this.lease.remaining() < delay_ms) return;
        await sleep(this.worker.process.clock, delay_ms);
      }
    }
  }

  #identity(): { id: number; token: number } {
    return { id: this.lease.job.id, token: this.lease.token };
  }
}
