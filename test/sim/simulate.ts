/** One life of the simulated world: chaos for a number of steps, then peace, in which everything must come to an end. */

import { JUMP_TRUST_MS } from "../../src/core/clock.ts";
import { CAUSES, isFinished } from "../../src/core/job.ts";
import type { EditAnswer } from "../../src/store/queries.ts";
import type { JobOverrides } from "../support/jobs.ts";
import { newJob } from "../support/jobs.ts";
import { object } from "./checker.ts";
import { LEASE_MS, type SimWorker } from "./worker.ts";
import { GRACE_MS, World, type WorldOptions } from "./world.ts";

const STEPS = 70;
const HOUR_MS = 3_600_000;

const WEIGHTS = {
  enqueue: 8,
  acquire: 22,
  beat: 24,
  beatItself: 4,
  checkpoint: 5,
  log: 6,
  finish: 12,
  sweep: 9,
  cancel: 3,
  cancelLate: 2,
  retry: 4,
  edit: 3,
  freeze: 4,
  thaw: 4,
  hang: 3,
  crash: 1.5,
  addWorker: 2,
  limit: 3,
  schedule: 2,
  jump: 1,
  pass: 6,
} as const;

export interface Life {
  seen: Record<string, number>;
  trace: readonly string[];
}

/** Throws what the checker objects to, with the seed. */
export async function simulate(seed: number, options: WorldOptions = {}): Promise<Life> {
  const world = await World.open(seed, options);
  try {
    for (let step = 0; step < STEPS; step++) {
      await act(world, world.chance.weighted(WEIGHTS));
      await passSome(world);
    }
    await peace(world);
    await world.checkEnd();
    return { seen: world.recorder.checker.seen, trace: world.recorder.trace };
  } catch (error) {
    const trace = world.recorder.trace.slice(-15).join("\n  ");
    throw new Error(`seed ${seed}: ${(error as Error).message}\n  ${trace}`, { cause: error });
  } finally {
    await world.close();
  }
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

async function act(world: World, action: keyof typeof WEIGHTS): Promise<void> {
  const { chance, store } = world;
  const alive = world.workers.filter((worker) => worker.alive);
  const tasks = world.tasks.filter(({ worker, child }) => worker.alive && child !== "dead");
  const task = tasks.length === 0 ? null : chance.pick(tasks);
  // Jobs go on while their worker is frozen; what a worker does for them waits.
  const living = world.tasks.filter(({ worker, child }) => worker.process.state !== "crashed" && child !== "dead");
  const frozen = living.filter(({ worker }) => !worker.alive);
  const any = frozen.length > 0 && chance.of(0.6) ? chance.pick(frozen) : task;
  const ids = [...world.recorder.jobs.keys()];
  const noteEdits = (answers: EditAnswer[]) =>
    answers.forEach(({ status }) => world.recorder.checker.note(`edit ${status}`));
  const actions: Record<keyof typeof WEIGHTS, () => unknown> = {
    enqueue: () => store.enqueue(Array.from({ length: chance.between(1, 3) }, () => newJob(anyJob(world)))),
    acquire: () => {
      const free = alive.filter((worker) => worker.tasks.size < 2);
      if (free.length > 0) void chance.pick(free).acquire(chance.between(1, 2));
    },
    beat: () => {
      for (const other of tasks) if (chance.of(0.6)) other.beat();
    },
    beatItself: () => void any?.beatItself(),
    checkpoint: () => void any?.checkpoint(`note ${chance.between(1, 1_000_000)}`),
    log: () => void any?.log(),
    finish: () => any?.finish(chance.of(0.5) ? "success" : chance.pick(CAUSES)),
    sweep: () => {
      const together = chance.of(0.5) ? world.sweeps : [chance.pick(world.sweeps)];
      for (const sweep of together) void sweep.scan().catch(() => {});
    },
    cancel: () => (ids.length > 0 ? store.cancel([chance.pick(ids)], null) : null),
    cancelLate: async () => {
      // It ends while its worker is frozen, and somebody cancels it before that can be written.
      if (task === null) return;
      task.worker.process.freeze();
      task.finish("success");
      await world.pass(chance.between(1, 500));
      await store.cancel([task.lease.job.id], null);
      task.worker.process.thaw();
    },
    retry: () => {
      const some = ids.filter(() => chance.of(0.3));
      return ids.length > 0 ? store.retry([...new Set([chance.pick(ids), ...some.toReversed()])]) : null;
    },
    edit: () => {
      const priority = chance.between(0, 3);
      const when = chance.of(0.5) ? { when: { run_at_ms: null, delay_ms: chance.between(0, 5_000) } } : {};
      return ids.length > 0 ? store.edit([chance.pick(ids)], { priority, ...when }).then(noteEdits) : null;
    },
    freeze: () => freeze(world, alive),
    hang: () => hang(world, alive),
    thaw: () => world.workers.forEach(({ process }) => process.thaw()),
    crash: () => crash(world, alive),
    addWorker: () => (world.workers.length < 8 ? world.addWorker() : null),
    limit: () => store.setLimit("x", chance.of(0.2) ? null : { most: chance.between(0, 2), rate: null }),
    schedule: () => schedule(world),
    jump: () => jump(world),
    pass: () => world.pass(LEASE_MS + GRACE_MS + 1),
  };
  await actions[action]();
}

function anyJob({ chance, recorder }: World): JobOverrides {
  const ids = [...recorder.jobs.keys()];
  const waits = ids.length > 0 && chance.of(0.35);
  const kind = chance.pick(["after", "after", "after_any", "after_failed"] as const);
  return {
    ...(waits ? { [kind]: [...new Set([chance.pick(ids), chance.pick(ids)])] } : {}),
    key: chance.of(0.5) ? chance.pick(["k", "l"]) : null,
    if_exists: "skip",
    priority: chance.between(0, 2),
    limits: chance.of(0.3) ? ["x"] : [],
    needs: chance.of(0.2) ? { gpu: chance.between(1, 2) } : {},
    delay_ms: chance.of(0.2) ? chance.between(1, 5_000) : 0,
    settings: {
      on_failed: chance.of(0.3) ? "tell" : null,
      retries: chance.between(0, 3),
      lease_ms: chance.of(0.2) ? 4_000 : null,
    },
  };
}

/** Its job is like any other; what lines up while nobody works must come to an end in peace. */
async function schedule({ chance, store }: World): Promise<void> {
  const every_ms = chance.pick([5_000, 20_000]);
  const when = { name: chance.pick(["s", "t"]), cron: null, every_ms, zone: null, jitter_ms: chance.between(0, 3_000) };
  const job = newJob({ limits: chance.of(0.5) ? ["x"] : [], settings: { retries: 1 } });
  const how = { overlap: chance.pick(["skip", "queue"] as const), catch_up: chance.pick(["none", "one"] as const) };
  await store.setSchedule({ ...when, ...how, job }, (await store.now()) + every_ms);
}

/** Past its lease, often enough. */
function freeze(world: World, alive: readonly SimWorker[]): void {
  if (alive.length === 0) return;
  world.recorder.checker.note("froze");
  world.chance.pick(alive).process.freeze();
}

/** A worker is frozen past its lease, somebody else takes its jobs, and those of the frozen one come too late. */
async function hang(world: World, alive: readonly SimWorker[]): Promise<void> {
  const { chance } = world;
  const other = alive.find(({ tasks }) => tasks.size === 0);
  const busy = alive.filter(({ tasks }) => tasks.size > 0);
  if (busy.length === 0 || other === undefined) return;
  const hung = chance.pick(busy);
  hung.process.freeze();
  world.recorder.checker.note("froze");
  await world.pass(LEASE_MS + GRACE_MS + 1);
  await chance
    .pick(world.sweeps)
    .scan()
    .catch(() => {});
  await other.acquire(2);
  for (const task of hung.tasks) {
    if (chance.of(0.5)) void task.checkpoint(`late ${chance.between(1, 1_000_000)}`);
    if (chance.of(0.5)) void task.beatItself();
    if (chance.of(0.5)) void task.log();
    if (chance.of(0.5)) task.finish("success");
  }
  if (chance.of(0.7)) hung.process.thaw();
}

function crash(world: World, alive: readonly SimWorker[]): void {
  if (alive.length < 2) return;
  world.recorder.checker.note("crashed");
  world.chance.pick(alive).process.crash();
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
  for (const name of ["s", "t"]) await world.store.dropSchedule(name);
  await world.store.setLimit("x", { most: 1, rate: null });
  await world.pass(1_000);
  for (const task of world.tasks) if (task.worker.alive) task.finish("success");
  for (let second = 0; second < 30 && world.tasks.some(({ worker }) => worker.alive); second++) await world.pass(1_000);
  const sweep = world.sweep(world.store);
  // The first may notice that the clock jumped, and then leaves what looks expired for a moment.
  await sweep.scan();
  await world.clock.advance(2 * JUMP_TRUST_MS);
  await sweep.scan();
  for (let turn = 0; ; turn++) {
    const ends = [...world.recorder.jobs.values()].flatMap(({ state }) =>
      state.name === "running" ? [state.expires_at_ms] : [],
    );
    if (ends.length === 0) break;
    if (turn > 50) object(16, `${ends.length} leases are never free`);
    const wait_ms = Math.min(...ends) + GRACE_MS + 1 - world.clock.wall_ms();
    await world.clock.advance(Math.max(0, wait_ms));
    const { recovered, failed, cancelled } = await sweep.scan();
    if (recovered + failed + cancelled === 0) object(16, "a lease is over with its grace, and a sweep left it");
  }
  await bringToAnEnd(world);
}

/** A job that was retried, and waits for one that has ended otherwise and is not retried, waits for a person. */
async function giveUpBlocked(world: World): Promise<void> {
  const unfinished = [...world.recorder.jobs.values()].filter(({ state }) => !isFinished(state));
  const blocked = unfinished.filter(({ state }) => state.name === "blocked");
  if (blocked.length === 0 || blocked.length < unfinished.length) return;
  world.recorder.checker.note("gave up what waited");
  await world.store.cancel(
    blocked.map(({ id }) => id),
    null,
  );
}

async function bringToAnEnd(world: World): Promise<void> {
  await world.addWorker();
  const worker = world.workers.at(-1)!;
  for (let turn = 0; turn < 100; turn++) {
    await worker.acquire(10);
    for (const task of worker.tasks) task.finish("success");
    await world.quiet();
    if ([...world.recorder.jobs.values()].every(({ state }) => isFinished(state))) return;
    await giveUpBlocked(world);
    const due_ms = await world.store.nextDue();
    if (due_ms !== null) await world.clock.advance(Math.max(0, due_ms - world.clock.wall_ms()));
    await world.quiet();
  }
  object(16, "a healthy worker does not bring the jobs to an end");
}
