/**
 * A simulated worker: real LeaseManager, Heartbeat, LeaseExtender and SilenceWatch around children that are names only.
 * What `Attempt` does with processes is done here with a flag.
 */

import { LeaseExtender } from "../../src/leasing/extender.ts";
import { Heartbeat } from "../../src/leasing/heartbeat.ts";
import type { Lease } from "../../src/leasing/lease.ts";
import { LeaseManager } from "../../src/leasing/manager.ts";
import { sleep } from "../../src/core/clock.ts";
import type { Cause } from "../../src/core/job.ts";
import { SilenceWatch } from "../../src/leasing/silence_watch.ts";
import { end } from "../support/jobs.ts";
import type { Chance } from "./chance.ts";
import type { SimProcess } from "./process.ts";

export const LEASE_MS = 10_000;
const INTERVAL_MS = 1_000;
const KILL_GRACE_MS = 2_000;

export interface WorkerOptions {
  id: string;
  process: SimProcess;
  /** Through which jobs call `lease beat` and `lease checkpoint`: they run on while their worker is frozen. */
  jobs: SimProcess;
  chance: Chance;
  note: (what: string) => void;
  /** Does not kill its child when the lease is lost: for the proof that somebody would notice. */
  careless: boolean;
}

export class SimWorker {
  readonly id: string;
  readonly process: SimProcess;
  readonly tasks = new Set<SimTask>();
  readonly manager: LeaseManager;
  readonly options: WorkerOptions;

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
      have: { gpu: ["0", "1"] },
    });
  }

  get alive(): boolean {
    return this.process.state === "alive";
  }

  async acquire(count: number): Promise<void> {
    try {
      for (const lease of await this.manager.acquire({ count })) {
        // Frozen between the grant and the start: it is somebody else's turn.
        if (lease.remaining() <= 0) this.options.note("granted too late");
        else this.tasks.add(new SimTask(this, lease));
      }
    } catch {
      this.options.note("acquire failed");
    }
  }
}

export class SimTask {
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
      { lease, manager, clock, heartbeat: this.#heartbeat, timeout_ms: null, grace_ms: KILL_GRACE_MS },
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

  /** It prints a line. */
  beat(): void {
    this.#heartbeat.beat();
  }

  /** It calls `lease beat`. */
  async beatItself(): Promise<void> {
    const { id, token } = this.#identity();
    const request = { id, token, expires_in_ms: LEASE_MS, beat_age_ms: 0, beats: 0, at_least: true };
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

  /** Its program ends by itself. */
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
    void this.#settle(cause, this.worker.process.clock.wall_ms()).then(() => this.worker.tasks.delete(this));
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
