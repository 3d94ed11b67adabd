/**
 * One life of the simulated world: chaos for a number of steps, then peace, in which everything must come to an end. Each
 * step has chances of its own, so that a life can be lived again without some of its steps.
 */

import { JUMP_TRUST_MS } from "../../src/core/clock.ts";
import { CAUSES, isFinished } from "../../src/core/job.ts";
import { newJob } from "../support/jobs.ts";
import { Objection, object } from "./objection.ts";
import type { Event } from "./history.ts";
import { HandlerWorker } from "./handlers.ts";
import {
  LIMITS,
  SCHEDULES,
  anyJob,
  bulk,
  cancel,
  edit,
  giveUpBlocked,
  limit,
  retry,
  schedule,
  upkeep,
} from "./people.ts";
import { LEASE_MS, SimWorker } from "./worker.ts";
import { GRACE_MS, World, type WorldOptions } from "./world.ts";

export const STEPS = 50;
const HOUR_MS = 3_600_000;

const WEIGHTS = {
  enqueue: 9,
  run: 2,
  bulk: 1,
  acquire: 22,
  beat: 24,
  beatItself: 4,
  checkpoint: 5,
  log: 6,
  finish: 12,
  sweep: 8,
  cancel: 3,
  cancelLate: 2,
  retry: 4,
  edit: 5,
  upkeep: 4,
  pause: 2,
  freeze: 4,
  thaw: 4,
  hang: 3,
  crash: 1.5,
  drain: 1,
  addWorker: 3,
  limit: 4,
  schedule: 3,
  jump: 1,
  pass: 6,
} as const;
export type Action = keyof typeof WEIGHTS;

export interface Life {
  seed: number;
  /** What was done, by the number of the step. */
  steps: ReadonlyMap<number, Action>;
  seen: Record<string, number>;
  /** Before there was peace. */
  statements: number;
  awaits: number;
  events: readonly Event[];
  /** What was broken; null: nothing. */
  broken: Error | null;
}

export interface LifeOptions extends WorldOptions {
  /** Only these steps; all, unless told. */
  only?: readonly number[];
}

export async function live(seed: number, { only, ...options }: LifeOptions = {}): Promise<Life> {
  // Loaded before anything is timed by turns of the event loop.
  await import("croner");
  const world = await World.open(seed, options);
  const steps = new Map<number, Action>();
  let broken: Error | null = null;
  let [statements, awaits] = [0, 0];
  try {
    world.begin();
    for (const step of only ?? Array.from({ length: STEPS }, (_, index) => index)) {
      world.chance.reseed(seed, step);
      const action = world.chance.weighted(WEIGHTS);
      steps.set(step, action);
      await act(world, action);
      await passSome(world);
    }
    [statements, awaits] = [world.statements, world.faults.awaits];
    world.chance.reseed(seed, STEPS);
    await peace(world);
    await world.checkEnd();
  } catch (error) {
    broken = error as Error;
  }
  await world.close({ spoiled: broken !== null });
  const { checker, events } = world.recorder;
  return { seed, steps, seen: checker.seen, statements, awaits, events, broken };
}

/** Throws what the checker objects to, with the seed. */
export async function simulate(seed: number, options: LifeOptions = {}): Promise<Life> {
  const life = await live(seed, options);
  if (life.broken === null) return life;
  throw new Error(`seed ${seed}: ${life.broken.message}; see it with: bun scripts/sim.ts --seed ${seed} --shrink`, {
    cause: life.broken,
  });
}

async function passSome(world: World): Promise<void> {
  const { chance } = world;
  const kind = chance.weighted({ none: 4, moment: 3, seconds: 2, long: 1 });
  const ms = {
    none: 0,
    moment: chance.between(1, 500),
    seconds: chance.between(500, 3_000),
    long: chance.between(3_000, 14_000),
  }[kind];
  await world.pass(ms, chance.of(0.8));
  if (chance.of(0.7)) await world.quiet();
  world.check();
}

async function act(world: World, action: Action): Promise<void> {
  const { chance, store } = world;
  const alive = world.workers.filter((worker) => worker.alive);
  const shells = alive.filter((worker) => worker instanceof SimWorker);
  const tasks = world.tasks.filter(({ worker, child }) => worker.alive && child !== "dead");
  const task = tasks.length === 0 ? null : chance.pick(tasks);
  // Programs go on while their worker is frozen; what a worker does for them waits.
  const living = world.tasks.filter(({ worker, child }) => worker.process.state !== "crashed" && child !== "dead");
  const frozen = living.filter(({ worker }) => !worker.alive && worker instanceof SimWorker);
  const any = frozen.length > 0 && chance.of(0.6) ? chance.pick(frozen) : task;
  const actions: Record<Action, () => unknown> = {
    enqueue: () => store.enqueue(Array.from({ length: chance.between(1, 3) }, () => newJob(anyJob(world)))),
    run: () => (shells.length > 0 ? void chance.pick(shells).enqueue(newJob(anyJob(world))) : null),
    bulk: () => bulk(world),
    acquire: () => acquire(world, alive),
    beat: () => {
      for (const other of tasks) if (chance.of(0.6)) other.beat();
    },
    beatItself: () => void any?.beatItself(),
    checkpoint: () => void any?.checkpoint(`note ${chance.between(1, 1_000_000)}`),
    log: () => void any?.log(),
    finish: () => any?.finish(chance.of(0.5) ? "success" : chance.pick(CAUSES)),
    sweep: () => sweepSome(world),
    cancel: () => cancel(world),
    cancelLate: () => cancelLate(world, task),
    retry: () => retry(world),
    edit: () => edit(world),
    upkeep: () => upkeep(world),
    pause: () => store.setPaused([chance.pick(["default", "other"])], chance.of(0.5)),
    freeze: () => freeze(world, alive),
    hang: () => hang(world, alive),
    thaw: () => [...world.workers, ...world.sweeps].forEach(({ process }) => process.thaw()),
    crash: () => crash(world, alive),
    drain: () => (alive.length > 0 ? chance.pick(alive).drain() : null),
    addWorker: () => (world.workers.length < 8 ? world.addWorker() : null),
    limit: () => limit(world),
    schedule: () => schedule(world),
    jump: () => jump(world),
    pass: () => world.pass(LEASE_MS + GRACE_MS + 1),
  };
  try {
    await actions[action]();
  } catch (error) {
    if (error instanceof Objection) throw error;
    // A person is told of what can't be had, or of trouble, and goes away.
    world.recorder.checker.note(`${action} refused`);
  }
}

function acquire({ chance }: World, alive: readonly (SimWorker | HandlerWorker)[]): void {
  const free = alive.filter((worker) => worker.tasks.size < 2);
  if (free.length === 0) return;
  const worker = chance.pick(free);
  if (worker instanceof SimWorker) void worker.acquire(chance.between(1, 2));
  else worker.wake();
}

function sweepSome(world: World): void {
  const { chance, sweeps } = world;
  if (sweeps.every(({ process }) => process.state === "crashed")) world.addSweep();
  const together = chance.of(0.5) ? sweeps : [chance.pick(sweeps)];
  for (const one of together) void one.sweep.scan().catch(() => {});
}

/** It ends while its worker is frozen, and somebody cancels it before that can be written. */
async function cancelLate(world: World, task: World["tasks"][number] | null): Promise<void> {
  if (task === null || !(task.worker instanceof SimWorker)) return;
  task.worker.process.freeze();
  task.finish("success");
  await world.pass(world.chance.between(1, 500));
  await world.store.cancel([task.lease.job.id], null);
  task.worker.process.thaw();
}

/** Past its lease, often enough. */
function freeze(world: World, alive: World["workers"]): void {
  if (alive.length === 0) return;
  world.recorder.checker.note("froze");
  world.chance.pick(alive).process.freeze();
}

/** A worker is frozen past its lease, somebody else takes its jobs, and those of the frozen one come too late. */
async function hang(world: World, alive: World["workers"]): Promise<void> {
  const { chance } = world;
  const shells = alive.filter((worker) => worker instanceof SimWorker);
  const other = shells.find(({ tasks }) => tasks.size === 0);
  const busy = shells.filter(({ tasks }) => tasks.size > 0);
  if (busy.length === 0 || other === undefined) return;
  const hung = chance.pick(busy);
  hung.process.freeze();
  world.recorder.checker.note("froze");
  await world.pass(LEASE_MS + GRACE_MS + 1);
  void chance
    .pick(world.sweeps)
    .sweep.scan()
    .catch(() => {});
  await world.quiet();
  void other.acquire(2);
  await world.quiet();
  for (const task of hung.tasks) {
    if (chance.of(0.5)) void task.checkpoint(`late ${chance.between(1, 1_000_000)}`);
    if (chance.of(0.5)) void task.beatItself();
    if (chance.of(0.5)) void task.log();
    if (chance.of(0.5)) task.finish("success");
  }
  if (chance.of(0.7)) hung.process.thaw();
}

function crash(world: World, alive: World["workers"]): void {
  if (alive.length < 2) return;
  world.recorder.checker.note("crashed");
  const { id, process } = world.chance.pick(alive);
  world.recorder.tell(id, "crashes");
  process.crash();
}

/** Between two writes: a clock that is set and set back while one is under way deceives anybody. */
async function jump(world: World): Promise<void> {
  const { chance } = world;
  await world.quiet();
  world.recorder.checker.note("jumped");
  world.jump(chance.pick([-HOUR_MS, -5_000, 5_000, HOUR_MS]));
}

/** Faults have stopped: leases of the dead become free in time, and one healthy worker brings all to an end. */
async function peace(world: World): Promise<void> {
  world.stopFaults();
  for (const name of SCHEDULES) await world.store.dropSchedule(name);
  for (const name of LIMITS) await world.store.setLimit(name, name === "x" ? { most: 1, rate: null } : null);
  await world.store.setPaused(["default", "other"], false);
  await world.pass(1_000);
  for (const worker of world.workers) if (worker.alive && worker instanceof HandlerWorker) worker.drain();
  await finishAll(world);
  const sweep = world.sweep(world.store);
  // The first may notice that the clock jumped, and then leaves what looks expired for a moment.
  await sweep.scan();
  await world.clock.advance(2 * JUMP_TRUST_MS);
  await sweep.scan();
  for (let turn = 0; ; turn++) {
    await finishAll(world);
    const held = [...world.recorder.jobs.values()].flatMap(({ id, token, state }) =>
      state.name === "running" ? [{ id, token, end_ms: state.expires_at_ms }] : [],
    );
    if (held.length === 0) break;
    if (turn > 50) object(16, `${held.length} leases are never free`);
    const end_ms = Math.min(...held.map((lease) => lease.end_ms)) + GRACE_MS + 1;
    await world.clock.advance(Math.max(0, end_ms - world.store_clock.wall_ms()));
    await sweep.scan();
    for (const lease of held) {
      const { token, state } = world.recorder.jobs.get(lease.id)!;
      const over = state.name === "running" && state.expires_at_ms + GRACE_MS < end_ms;
      if (over && token === lease.token) object(16, `the lease of job ${lease.id} is over, and a sweep left it`);
    }
  }
  await bringToAnEnd(world);
}

/** Also what was asked for before there was peace, and comes only now. */
async function finishAll(world: World): Promise<void> {
  for (let second = 0; second < 30; second++) {
    for (const task of world.tasks) if (task.worker.alive) task.finish("success");
    await world.pass(second === 0 ? 1 : 1_000);
    if (!world.tasks.some(({ worker }) => worker.alive)) return;
  }
}

async function bringToAnEnd(world: World): Promise<void> {
  await world.addWorker("shell");
  const worker = world.workers.at(-1) as SimWorker;
  // A schedule that makes up for an hour leaves hundreds, one at a time behind a limit.
  for (let turn = 0; turn < 100 + 3 * world.recorder.jobs.size; turn++) {
    await worker.acquire(10);
    for (const task of worker.tasks) task.finish("success");
    await world.quiet();
    if ([...world.recorder.jobs.values()].every(({ state }) => isFinished(state))) return;
    await giveUpBlocked(world);
    const due_ms = await world.store.nextDue();
    if (due_ms !== null) await world.clock.advance(Math.max(0, due_ms - world.store_clock.wall_ms()));
    await world.quiet();
  }
  object(16, "a healthy worker does not bring the jobs to an end");
}
