/**
 * The simulated world: a real store, several workers and sweeps, people, and everything that can go wrong, in an order
 * that a seed decides. Nothing here waits for real time.
 */

import { JUMP_TRUST_MS } from "../../src/core/clock.ts";
import { HOUR_MS } from "../../src/core/history.ts";
import { isFinished } from "../../src/core/job.ts";
import { bootId, host, ownIdentity } from "../../src/platform/machine.ts";
import { RecoverySweep } from "../../src/recovery/sweep.ts";
import type { Store } from "../../src/store/store.ts";
import { intercept } from "../leasing/fixture.ts";
import { ManualClock } from "../support/clock.ts";
import { Chance } from "./chance.ts";
import { object } from "./objection.ts";
import { fileGround, memoryGround, type Ground } from "./ground.ts";
import { HandlerWorker } from "./handlers.ts";
import { SimProcess, type Faults } from "./process.ts";
import { Recorder } from "./recorder.ts";
import { SimWorker, type SimJob } from "./worker.ts";
import { workerRecord } from "../support/workers.ts";

export const GRACE_MS = 2_000;
/** Of a store on another machine: how far its clock is from that of the workers. */
const FAR_CLOCK_MS = 86_400_000;
const STEP_MS = 500;
/** A silence watch looks at least once a second, so that it notices within that time that the wall clock was set. */
const NOTICED_MS = 1_500;
const UNDER_WAY_MS = 10_000;
const QUEUES = ["default", "other"];

const NO_FAULTS = { before: 0, after: 0, slow: 0, freeze: 0, crash: 0 };

export interface WorldOptions {
  /** A store that is not as it should be, for the proof that the checker objects. */
  mutate?: (store: Store, ground: Ground) => Store;
  careless?: boolean;
  /** Nothing goes wrong with the store or at an await. */
  calm?: boolean;
  /** The one thing that goes wrong with the store, by the number of the statement or of the await. */
  fail_statement?: number;
  at_await?: Faults["at_await"];
  /** Where the store is; by the seed, unless told. */
  ground?: (clock: ManualClock, chance: Chance) => Promise<Ground>;
  /** The store has a clock of its own, as a server has; by the seed, unless told. */
  far?: boolean;
}

export class World {
  readonly chance: Chance;
  readonly clock: ManualClock;
  readonly store_clock: { wall_ms: () => number };
  readonly workers: (SimWorker | HandlerWorker)[] = [];
  readonly sweeps: { process: SimProcess; sweep: RecoverySweep }[] = [];
  readonly recorder: Recorder;
  /** For people. */
  readonly store: Store;
  readonly far: boolean;
  readonly faults: Faults & { statement: number };
  readonly #options: WorldOptions;
  readonly #ground: Ground;
  readonly #base: Store;
  readonly #jobs: SimProcess;
  #jumped_at_ms = -Infinity;
  #set_back_at_ms = -Infinity;
  #begun = 0;

  private constructor(seed: number, options: WorldOptions, ground: Ground, clock: ManualClock, far: boolean) {
    this.faults = {
      ...(options.calm === true ? NO_FAULTS : { before: 0.03, after: 0.03, slow: 0.02, freeze: 0.003, crash: 0.001 }),
      statement: options.calm === true ? 0 : 0.04,
      awaits: 0,
      at_await: options.at_await ?? null,
    };
    this.chance = new Chance(seed);
    this.clock = clock;
    this.far = far;
    this.store_clock = far ? farClock(clock) : clock;
    this.#options = options;
    this.#ground = ground;
    this.recorder = new Recorder({
      ground,
      clock,
      store_clock: this.store_clock,
      chance: this.chance,
      faults: this.faults,
      witness: {
        isDead: (holder) => this.#isProvenDead(holder),
        running: (job) => this.#running(job),
        // A recovery may be under way for so long.
        wasSetBack: () => this.clock.mono_ms() - this.#set_back_at_ms <= UNDER_WAY_MS,
        believers: (job, token) =>
          this.#atWork(job).flatMap(({ worker, lease }) =>
            lease.token === token && lease.remaining() > 0 ? worker.id : [],
          ),
      },
      grace_ms: GRACE_MS,
    });
    const store = far
      ? intercept(ground.store, { shares_clock: false, noticeClockJump: async () => false })
      : ground.store;
    this.#base = options.mutate?.(store, ground) ?? store;
    this.store = this.recorder.watch(this.#base, "person");
    this.#jobs = this.process("job", true);
    for (let sweep = 0; sweep < 2; sweep++) this.addSweep();
  }

  static async open(seed: number, options: WorldOptions = {}): Promise<World> {
    const clock = new ManualClock();
    const far = options.far ?? seed % 3 === 0;
    const make =
      options.ground ??
      (async () => (seed % 500 === 1 ? fileGround(farOr(clock, far)) : memoryGround(farOr(clock, far))));
    const world = new World(seed, options, await make(clock, new Chance(seed)), clock, far);
    for (let worker = 0; worker < 3; worker++) await world.addWorker();
    return world;
  }

  process(who: string, steady = false): SimProcess {
    const { clock, chance, faults, far } = this;
    const store = this.recorder.watch(this.#base, who);
    const note = (what: string): void => this.recorder.checker.note(what);
    return new SimProcess({ clock, store, chance, faults, far, note, steady });
  }

  addSweep(): void {
    const process = this.process(`sweep-${this.sweeps.length}`);
    this.sweeps.push({ process, sweep: this.sweep(process.store) });
  }

  /** Some of them are on this machine, where a sweep can tell whether they live, and some run functions. */
  async addWorker(kind?: "shell"): Promise<void> {
    const { chance } = this;
    const number = this.workers.length;
    const place = number % 2 === 0 ? "local" : "far";
    const note = (what: string): void => this.recorder.checker.note(what);
    const queues = chance.of(0.4) ? chance.pick([QUEUES, QUEUES.toReversed(), ["default"]]) : null;
    if (kind === undefined && chance.of(0.3)) {
      const id = `${place}-pool-${number}`;
      const process = this.process(id);
      const store = this.#informed(process.store);
      const machine_time = this.#machineTime;
      this.workers.push(new HandlerWorker({ id, process, store, chance, note, machine_time, queues }));
      return;
    }
    const id = `${place}-${number}`;
    const careless = this.#options.careless ?? false;
    const parts = { process: this.process(id), jobs: this.#jobs, chance };
    const task = kind === undefined && chance.of(0.1) ? "t" : null;
    this.workers.push(new SimWorker({ id, ...parts, note, careless, queues: kind === "shell" ? null : queues, task }));
    await this.recorder.inTurn(() => this.#base.saveWorker(recordOf(id, place, this.store_clock.wall_ms())));
    // As a registration does: from here on a jump of the clock can be told.
    const noted = this.recorder.watch(this.#base, id).noticeClockJump(this.#machineTime(), 2 * JUMP_TRUST_MS);
    await noted.catch(() => {});
  }

  sweep(store: Store): RecoverySweep {
    return new RecoverySweep({
      store: this.#informed(store),
      clock: this.clock,
      random: this.chance.next,
      report: () => {},
      store_url: "simulated",
      grace_ms: GRACE_MS,
      every_ms: 2_000,
      checkpoints: true,
      keep_checkpoints: this.chance.of(0.3) ? 1 : 100,
      prune_ms: this.chance.of(0.2) ? 60_000 : null,
      machine_time: this.#machineTime,
    });
  }

  /** A sweep can tell that these are dead. */
  #informed(store: Store): Store {
    return intercept(store, {
      workers: async (query) => {
        const found = await store.workers(query);
        // Those of the living need not be looked up among the processes of this machine.
        const dead = found.filter(({ id }) => this.#isProvenDead(id));
        return dead.map((worker) => ({ ...worker, process: { boot_id: bootId(), pid: process.pid, pid_started: 1 } }));
      },
    });
  }

  readonly #machineTime = () => ({ boot_id: "boot", uptime_ms: Math.round(this.clock.mono_ms()), suspends: 0 });

  get tasks(): SimJob[] {
    return this.workers.flatMap(({ tasks }) => [...tasks]);
  }

  /** All are here: from now on statements count, and one may fail. */
  begin(): void {
    this.#begun = this.#ground.statements?.() ?? 0;
    this.faults.awaits = 0;
    if (this.#options.fail_statement !== undefined) this.#ground.failAt?.(this.#options.fail_statement);
  }

  get statements(): number {
    return (this.#ground.statements?.() ?? 0) - this.#begun;
  }

  jump(ms: number): void {
    this.recorder.tell("world", `the clock jumps by ${ms} ms`);
    this.clock.jumpWall(ms);
    if (!this.far) this.recorder.checker.plans.jumped();
    if (ms > 0) this.#jumped_at_ms = this.clock.mono_ms();
    else this.#set_back_at_ms = this.clock.mono_ms();
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
    const { busy } = this.#ground;
    if (busy !== undefined) return this.#quietInRealTime(busy);
    for (let turn = 0; turn < 2_000; turn++) {
      await new Promise((resolve) => setImmediate(resolve));
      if (this.recorder.idle) return;
    }
    throw new Error("the store is never done");
  }

  async #quietInRealTime(busy: () => boolean): Promise<void> {
    const until_ms = performance.now() + 30_000;
    for (let calm = 0; performance.now() < until_ms;) {
      await new Promise((resolve) => setTimeout(resolve, 0));
      calm = this.recorder.idle && !busy() ? calm + 1 : 0;
      // What an answer sets off is asked a turn later.
      if (calm > 2) return;
    }
    throw new Error("the store is never done");
  }

  /** What must be true between any two steps: nobody believes in more time than the store gives. */
  check(): void {
    if (this.recorder.objection !== null) throw this.recorder.objection;
    for (const { lease, child, worker } of this.tasks) {
      if (child === "dead" || worker.process.state === "crashed") continue;
      const { id } = lease.job;
      const job = this.recorder.jobs.get(id);
      const remaining_ms = lease.remaining();
      const expires_at_ms = job?.state.name === "running" && job.token === lease.token ? job.state.expires_at_ms : null;
      const given_ms = expires_at_ms === null ? 0 : expires_at_ms - this.store_clock.wall_ms();
      // A jump of the clock is put right within a moment, for which sweeps wait.
      if (lease.jumped() > 0) continue;
      if (remaining_ms > 0 && remaining_ms > given_ms)
        object(20, `${worker.id} believes in ${remaining_ms} ms of job ${id}, and has ${given_ms}`);
    }
  }

  /** From here on all goes well. */
  stopFaults(): void {
    this.recorder.tell("world", "peace");
    Object.assign(this.faults, NO_FAULTS, { statement: 0, at_await: null });
    this.#ground.failAt?.(null);
    for (const { process } of [...this.workers, ...this.sweeps]) process.thaw();
  }

  /** (9), (15): what is on disk when all is over. */
  async checkEnd(): Promise<void> {
    this.check();
    const { eye } = this.#ground;
    const byState = new Map<string, number>();
    for (const job of this.recorder.jobs.values()) {
      byState.set(job.state.name, (byState.get(job.state.name) ?? 0) + 1);
      if (!isFinished(job.state)) object(16, `job ${job.id} is still ${job.state.name}`);
      const attempts = await eye.attempts(job.id);
      const tokens = attempts.map(({ token }) => token);
      if (tokens.length !== job.token || tokens.some((token, index) => token !== index + 1)) {
        object(3, `job ${job.id} with token ${job.token} has attempts ${tokens.join()}`);
      }
      if (attempts.some(({ end }) => end === null)) object(9, `job ${job.id} has an attempt without an end`);
    }
    const counted = new Map<string, number>();
    for (const { state, count } of await eye.counts()) counted.set(state, (counted.get(state) ?? 0) + count);
    for (const [state, count] of counted) {
      const there = byState.get(state) ?? 0;
      if (there !== count) object(15, `${count} jobs are counted as ${state}, and ${there} are`);
    }
    const past = await eye.history({ since_ms: 0, span_ms: HOUR_MS });
    const ended = past.reduce((sum, point) => sum + point.ended, 0);
    const grants = this.recorder.checker.seen["granted"] ?? 0;
    if (ended !== grants) object(15, `history has ${ended} attempts, and there were ${grants}`);
    const kept = (await eye.diagnose()).find(({ name }) => name === "counts");
    if (kept !== undefined && kept.level !== "ok") object(15, `counts: ${kept.value}`);
    const whole = await this.#ground.integrity();
    if (whole !== "ok") object(15, `integrity_check: ${whole}`);
  }

  async close({ spoiled }: { spoiled: boolean }): Promise<void> {
    for (const { process } of [...this.workers, ...this.sweeps]) process.crash();
    await this.#ground.close({ spoiled });
  }

  #isProvenDead(id: string): boolean {
    const worker = this.workers.find((other) => other.id === id);
    return worker !== undefined && worker.process.state === "crashed" && id.startsWith("local");
  }

  #running(job: number): string[] {
    if (this.clock.mono_ms() - this.#jumped_at_ms <= NOTICED_MS) return [];
    return this.#atWork(job).map(({ worker }) => worker.id);
  }

  #atWork(job: number): SimJob[] {
    return this.tasks.filter(({ lease, child, worker }) => worker.alive && child !== "dead" && lease.job.id === job);
  }
}

/** That of a server: it goes on evenly, whatever anybody does to the clocks of the workers. */
export function farClock(clock: ManualClock) {
  const offset_ms = clock.wall_ms() - clock.mono_ms() + FAR_CLOCK_MS;
  return {
    wall_ms: () => Math.floor(clock.mono_ms() + offset_ms),
    mono_ms: () => clock.mono_ms(),
    after: (delay_ms: number, fn: () => void) => clock.after(delay_ms, fn),
  };
}

const farOr = (clock: ManualClock, far: boolean) => (far ? farClock(clock) : clock);

function recordOf(id: string, place: "local" | "far", now_ms: number) {
  const on = place === "local" ? host : "another-machine";
  return workerRecord({ id, host: on, process: ownIdentity(), started_at_ms: now_ms, seen_at_ms: now_ms });
}
