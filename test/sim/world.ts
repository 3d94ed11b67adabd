/**
 * The simulated world: a real store, several workers and sweeps, people, and everything that can go wrong, in an order
 * that a seed decides. Nothing here waits for real time.
 */

import { Database } from "bun:sqlite";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { HOUR_MS } from "../../src/core/history.ts";
import { isFinished } from "../../src/core/job.ts";
import { bootId, host, ownIdentity } from "../../src/platform/machine.ts";
import { RecoverySweep } from "../../src/recovery/sweep.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { intercept, temporaryFolder } from "../leasing/fixture.ts";
import { ManualClock } from "../support/clock.ts";
import { Chance } from "./chance.ts";
import { object } from "./checker.ts";
import { SimProcess, type Faults } from "./process.ts";
import { Recorder } from "./recorder.ts";
import { SimWorker, type SimTask } from "./worker.ts";

export const GRACE_MS = 2_000;
const STEP_MS = 500;
/** A silence watch looks at least once a second, so that it notices within that time that the wall clock was set. */
const NOTICED_MS = 1_500;

export interface WorldOptions {
  /** A store that is not as it should be, for the proof that the checker objects. */
  mutate?: (store: Store, eye: Store) => Store;
  careless?: boolean;
}

export class World {
  readonly chance: Chance;
  readonly clock = new ManualClock();
  readonly workers: SimWorker[] = [];
  readonly sweeps: RecoverySweep[] = [];
  readonly recorder: Recorder;
  /** For people: nothing goes wrong with what they ask. */
  readonly store: Store;
  readonly #faults: Faults = { before: 0.04, after: 0.03 };
  readonly #options: WorldOptions;
  readonly #folder: string;
  readonly #handles: Store[];
  readonly #jobs: SimProcess;
  #jumped_at_ms = -Infinity;

  private constructor(seed: number, options: WorldOptions, folder: string, handles: Store[], clock: ManualClock) {
    this.chance = new Chance(seed);
    this.clock = clock;
    this.#options = options;
    this.#folder = folder;
    this.#handles = handles;
    const [eye, base] = handles as [Store, Store];
    this.recorder = new Recorder(
      eye,
      clock,
      { isDead: (holder) => this.#isProvenDead(holder), running: (job) => this.#running(job) },
      GRACE_MS,
    );
    this.store = this.recorder.watch(options.mutate?.(base, eye) ?? base);
    this.#jobs = this.process();
    for (let sweep = 0; sweep < 2; sweep++) this.sweeps.push(this.sweep(this.process().store));
  }

  static async open(seed: number, options: WorldOptions = {}): Promise<World> {
    const folder = temporaryFolder();
    const clock = new ManualClock();
    const open = (): Promise<Store> => openSqlite(join(folder, "lease.db"), { clock, random: () => 0.5 });
    const world = new World(seed, options, folder, [await open(), await open()], clock);
    for (let worker = 0; worker < 3; worker++) await world.addWorker();
    return world;
  }

  process(): SimProcess {
    return new SimProcess(this.clock, this.store, this.chance, this.#faults);
  }

  /** Some of them are on this machine, where a sweep can tell whether they live. */
  async addWorker(): Promise<void> {
    const id = `${this.workers.length % 2 === 0 ? "local" : "far"}-${this.workers.length}`;
    const note = (what: string): void => this.recorder.checker.note(what);
    const careless = this.#options.careless ?? false;
    const parts = { process: this.process(), jobs: this.#jobs, chance: this.chance };
    this.workers.push(new SimWorker({ id, ...parts, note, careless }));
    const now_ms = this.clock.wall_ms();
    await this.store.saveWorker({
      id,
      name: null,
      host: id.startsWith("local") ? host : "another-machine",
      process: ownIdentity(),
      version: "0",
      queues: null,
      slots: 2,
      task: null,
      commands_only: false,
      have: {},
      draining: false,
      completed: 0,
      failed: 0,
      started_at_ms: now_ms,
      seen_at_ms: now_ms,
      stopped_at_ms: null,
      ended: null,
    });
  }

  sweep(store: Store): RecoverySweep {
    const informed = intercept(store, {
      workers: async (query) => {
        const found = await store.workers(query);
        return found.map((worker) =>
          this.#isProvenDead(worker.id)
            ? { ...worker, process: { boot_id: bootId(), pid: process.pid, pid_started: 1 } }
            : worker,
        );
      },
    });
    return new RecoverySweep({
      store: informed,
      clock: this.clock,
      random: this.chance.next,
      report: () => {},
      store_url: "simulated",
      grace_ms: GRACE_MS,
      every_ms: 2_000,
      checkpoints: true,
      keep_checkpoints: 100,
      machine_time: () => ({ boot_id: "boot", uptime_ms: this.clock.mono_ms(), suspends: 0 }),
    });
  }

  get tasks(): SimTask[] {
    return this.workers.flatMap(({ tasks }) => [...tasks]);
  }

  jump(ms: number): void {
    this.clock.jumpWall(ms);
    if (ms > 0) this.#jumped_at_ms = this.clock.mono_ms();
  }

  /** Time passes; with `quiet` nobody is asked anything while it does. */
  async pass(ms: number, quiet = true): Promise<void> {
    for (let left_ms = ms; left_ms > 0; left_ms -= STEP_MS) {
      await this.clock.advance(Math.min(left_ms, STEP_MS));
      if (quiet) await this.quiet();
    }
    this.check();
  }

  /** Every write that was asked for is done. */
  async quiet(): Promise<void> {
    for (let turn = 0; turn < 200; turn++) {
      await new Promise((resolve) => setImmediate(resolve));
      if (this.recorder.idle) return;
    }
    throw new Error("the store is never done");
  }

  /** What must be true between any two steps: nobody believes in more time than the store gives. */
  check(): void {
    if (this.recorder.objection !== null) throw this.recorder.objection;
    for (const { lease, child, worker } of this.tasks) {
      if (child === "dead" || worker.process.state === "crashed") continue;
      const { state, token } = this.recorder.jobs.get(lease.job.id)!;
      const remaining_ms = lease.remaining();
      const held = state.name === "running" && token === lease.token;
      const given_ms = held ? state.expires_at_ms - this.clock.wall_ms() : 0;
      // A jump of the clock is put right within a moment, for which sweeps wait.
      if (lease.jumped() > 0) continue;
      if (remaining_ms > 0 && remaining_ms > given_ms) {
        object(20, `${worker.id} believes in ${remaining_ms} ms of job ${lease.job.id}, and has ${given_ms}`);
      }
    }
  }

  /** From here on all goes well. */
  stopFaults(): void {
    this.#faults.before = 0;
    this.#faults.after = 0;
    for (const worker of this.workers) worker.process.thaw();
  }

  /** (9), (15): what is on disk when all is over. */
  async checkEnd(): Promise<void> {
    this.check();
    const [eye] = this.#handles as [Store];
    const byState = new Map<string, number>();
    let grants = 0;
    for (const job of this.recorder.jobs.values()) {
      byState.set(job.state.name, (byState.get(job.state.name) ?? 0) + 1);
      if (!isFinished(job.state)) object(16, `job ${job.id} is still ${job.state.name}`);
      const attempts = await eye.attempts(job.id);
      const tokens = attempts.map(({ token }) => token);
      grants += attempts.length;
      if (tokens.length !== job.token || tokens.some((token, index) => token !== index + 1)) {
        object(3, `job ${job.id} with token ${job.token} has attempts ${tokens.join()}`);
      }
      if (attempts.some(({ end }) => end === null)) object(9, `job ${job.id} has an attempt without an end`);
    }
    for (const { state, count } of await eye.counts()) {
      if (byState.get(state) !== count)
        object(15, `${count} jobs are counted as ${state}, and ${byState.get(state)} are`);
    }
    const past = await eye.history({ since_ms: 0, span_ms: HOUR_MS });
    const ended = past.reduce((sum, point) => sum + point.ended, 0);
    if (ended !== grants) object(15, `history has ${ended} attempts, and there were ${grants}`);
    const kept = (await eye.diagnose()).find(({ name }) => name === "counts");
    if (kept?.level !== "ok") object(15, `counts: ${kept?.value}`);
    const database = new Database(join(this.#folder, "lease.db"), { readonly: true });
    const answer = database.query<{ integrity_check: string }, []>("PRAGMA integrity_check").get();
    database.close();
    if (answer?.integrity_check !== "ok") object(15, `integrity_check: ${answer?.integrity_check}`);
  }

  async close(): Promise<void> {
    for (const store of this.#handles) await store.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #isProvenDead(id: string): boolean {
    const worker = this.workers.find((other) => other.id === id);
    return worker !== undefined && worker.process.state === "crashed" && id.startsWith("local");
  }

  #running(job: number): string[] {
    if (this.clock.mono_ms() - this.#jumped_at_ms <= NOTICED_MS) return [];
    return this.tasks
      .filter(({ lease, child, worker }) => worker.alive && child !== "dead" && lease.job.id === job)
      .map(({ worker }) => worker.id);
  }
}
