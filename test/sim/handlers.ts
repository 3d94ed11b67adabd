/**
 * A worker whose jobs are functions of its own program: the real WorkerPool, with its slots, its sweep, its log flusher
 * and its cancel watch, in virtual time. The handlers do what the simulation tells them, and obey their signal; some
 * don't, are left behind, and go on talking.
 */

import { calibrate } from "../../src/core/calibration.ts";
import type { Cause } from "../../src/core/job.ts";
import type { MachineTime } from "../../src/core/clock.ts";
import type { Lease } from "../../src/leasing/lease.ts";
import { NoRetry, type Stopped } from "../../src/runner/handler.ts";
import type { Store } from "../../src/store/store.ts";
import type { HandlerTools } from "../../src/worker/in_process.ts";
import { WorkerPool } from "../../src/worker/pool.ts";
import { intercept } from "../leasing/fixture.ts";
import type { Chance } from "./chance.ts";
import { HAVE } from "./plans.ts";
import type { SimProcess } from "./process.ts";
import { KILL_GRACE_MS, LEASE_MS, type SimJob } from "./worker.ts";

/** Of a cancel that says how long it may take. */
export const SHORTEST_GRACE_MS = 1_000;

export interface HandlerWorkerOptions {
  id: string;
  process: SimProcess;
  /** As `process` sees it, knowing which workers are dead. */
  store: Store;
  chance: Chance;
  note: (what: string) => void;
  machine_time: () => MachineTime;
  queues: readonly string[] | null;
}

export class HandlerWorker {
  readonly id: string;
  readonly process: SimProcess;
  readonly tasks = new Set<HandlerTask>();
  readonly options: HandlerWorkerOptions;
  readonly #pool: WorkerPool;
  #ended = false;

  constructor(options: HandlerWorkerOptions) {
    this.id = options.id;
    this.process = options.process;
    this.options = options;
    this.#pool = new WorkerPool({
      store: this.#named(options.store),
      clock: options.process.clock,
      random: options.chance.next,
      machine_time: options.machine_time,
      report: () => {},
      store_url: "simulated",
      times: calibrate({ lease_ms: LEASE_MS }),
      kill_grace_ms: KILL_GRACE_MS,
      handling: { run: (tools) => new HandlerTask(this, tools).done },
      version: "0",
      name: null,
      slots: 2,
      have: HAVE,
      poll_ms: 5_000,
      sweep: options.chance.of(0.5),
      until_empty: false,
      max_jobs: null,
      queues: options.queues,
      task: null,
    });
    const end = (): void => void (this.#ended = true);
    this.#pool.start().catch(() => this.#pool.abort());
    this.#pool.finished.then(end, end);
  }

  get alive(): boolean {
    return this.process.state === "alive" && !this.#ended;
  }

  wake(): void {
    this.#pool.wake();
  }

  drain(): void {
    this.options.note("drained");
    this.#pool.stop(this.options.chance.between(0, 3_000));
  }

  /**
   * Under a name that is the same in every run, on a machine of which nobody reads the processes. What a failure has
   * queued is a program, and is called like the others here.
   */
  #named(store: Store): Store {
    return intercept(store, {
      acquire: async (request) => {
        const grants = await store.acquire({ ...request, holder: this.id, host: "simulated" });
        return grants.map((grant) => {
          const settings = { ...grant.job.settings, hook: null };
          return { ...grant, job: { ...grant.job, settings } };
        });
      },
      cancelRequests: () => store.cancelRequests(this.id),
      saveWorker: (worker) => store.saveWorker({ ...worker, id: this.id }),
    });
  }
}

export class HandlerTask implements SimJob {
  readonly worker: HandlerWorker;
  readonly lease: Lease;
  readonly done: Promise<unknown>;
  readonly #tools: HandlerTools;
  readonly #end = Promise.withResolvers<unknown>();
  #child: SimJob["child"] = "running";

  constructor(worker: HandlerWorker, tools: HandlerTools) {
    const { chance, note } = worker.options;
    this.worker = worker;
    this.#tools = tools;
    this.lease = tools.lease;
    this.done = this.#end.promise;
    worker.tasks.add(this);
    note("handler called");
    const obeys = chance.of(0.85);
    const takes_ms = chance.between(0, SHORTEST_GRACE_MS - 1);
    tools.signal.addEventListener("abort", () => {
      const { cause } = tools.signal.reason as Stopped;
      note(`handler told ${cause}`);
      // A function can't be killed: what it does once it has been told is its own business, and counts for nothing.
      this.#over();
      if (cause === "lost") return;
      worker.process.clock.after(obeys ? takes_ms : KILL_GRACE_MS + 1, () => this.#endAtLast(obeys));
    });
  }

  get child(): SimJob["child"] {
    return this.#child;
  }

  beat(): void {
    this.#tools.beat();
  }

  async beatItself(): Promise<void> {
    this.#tools.progress(50, "half");
  }

  async checkpoint(text: string): Promise<void> {
    await this.#tools.checkpoint(text).catch(() => {});
  }

  async log(): Promise<void> {
    this.#tools.log("x");
  }

  finish(cause: Cause): void {
    if (this.#child === "dead") return;
    if (cause === "success") this.#end.resolve("done");
    else this.#end.reject(cause === "not_found" ? new NoRetry("no use") : new Error(cause));
    this.#over();
  }

  #endAtLast(obeys: boolean): void {
    if (obeys) return this.#end.reject(this.#tools.signal.reason);
    this.worker.options.note("left behind");
    void this.checkpoint("too late");
    this.#tools.beat();
    this.#end.resolve("too late");
  }

  #over(): void {
    this.#child = "dead";
    this.worker.tasks.delete(this);
  }
}
