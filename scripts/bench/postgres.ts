/**
 * The PostgreSQL store beside graphile-worker, on one server in one run: how fast jobs go in, one by one and in bulk, and
 * how fast jobs that do nothing go through; how soon an idle worker picks up a job; and what beating jobs write.
 *
 * graphile-worker has its local queue and its batching on. Both sides run in this process, on a server whose data lies
 * on the workspace's disk with its usual durability.
 */

import { chmodSync } from "node:fs";
import process from "node:process";
import { Logger, makeWorkerUtils, run, type Runner } from "graphile-worker";
import postgres from "postgres";
import { isRefusal, transition } from "../../src/core/transition.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import type { Grant, Store } from "../../src/store/store.ts";
import { startPostgres } from "../../test/support/postgres.ts";
import {
  job,
  newFolder,
  plainFigure,
  quantile,
  ratioFigure,
  startLease,
  takeTurns,
  times,
  until,
  workspace,
} from "./harness.ts";

const quick = process.argv.includes("--quick");
const TURNS = quick ? 2 : 8;
const DRAINED = quick ? 5_000 : 40_000;
const BULK = quick ? 10_000 : 100_000;
const SINGLE = quick ? 100 : 1_000;
const SAMPLES = quick ? 20 : 200;
const CHILDREN = quick ? 300 : 5_000;
const BEATING_MS = quick ? 5_000 : 600_000;

chmodSync(workspace, 0o755);
const place = newFolder();
chmodSync(place, 0o755);
const server = await startPostgres([], place);
const sql = postgres(server.url, { max: 2, onnotice: () => {} });

// ── Ours ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const store_url = `${server.url}?schema=bench`;
const open = () => openPostgres(store_url, { clock: systemClock, random: systemRandom });
const store = await open();
const END = {
  cause: "success",
  exit_code: 0,
  signal: null,
  error: null,
  output: null,
  last_line: null,
  beats: 1,
} as const;

/** Each job ends by a call of its own, as if each had a slot; the store gathers them. */
async function work(worker: Store, count: number): Promise<number> {
  const request = { holder: "bench", host: "bench", count, queues: ["default"], task: null, lease_ms: 300_000 };
  const grants = await worker.acquire(request);
  const now_ms = await worker.now();
  await Promise.all(grants.map((grant) => settle(worker, grant, now_ms)));
  return grants.length;
}

async function settle(worker: Store, { job: { id, token }, job: granted }: Grant, now_ms: number): Promise<void> {
  const change = transition(granted, { type: "settle", token, end: END }, { now_ms, random: Math.random });
  if (isRefusal(change)) throw new Error(change.refused);
  const [answer] = await worker.settle([{ id, token, change, process: null, audit: null }]);
  if (answer?.status !== "applied") throw new Error("a job was not settled");
}

async function ourDrain(): Promise<number> {
  await store.enqueue(times(DRAINED, () => job(["true"])));
  const lane = async () => {
    while ((await work(store, 500)) > 0);
  };
  const started_ms = performance.now();
  await Promise.all([lane(), lane()]);
  const rate = perSecond(DRAINED, started_ms);
  await clear();
  return rate;
}

async function ourBulk(): Promise<number> {
  const jobs = times(BULK, (index) => job(["echo", String(index)]));
  const started_ms = performance.now();
  await store.enqueue(jobs);
  const rate = perSecond(BULK, started_ms);
  await clear();
  return rate;
}

async function ourSingle(): Promise<number> {
  const started_ms = performance.now();
  for (let index = 0; index < SINGLE; index++) await store.enqueue([job(["echo", String(index)])]);
  const rate = perSecond(SINGLE, started_ms);
  await clear();
  return rate;
}

async function clear(): Promise<void> {
  await sql.unsafe("TRUNCATE bench.jobs, bench.attempts, bench.inputs, bench.checkpoints, bench.logs");
}

// ── graphile-worker ────────────────────────────────────────────────────────────────────────────────────────────────

const logger = new Logger(() => () => {});
const peer = await makeWorkerUtils({ connectionString: server.url, logger });
await peer.migrate();

async function peerDrain(): Promise<number> {
  await addMany(DRAINED);
  let left = DRAINED;
  const { promise, resolve } = Promise.withResolvers<void>();
  const started_ms = performance.now();
  const runner: Runner = await run({
    connectionString: server.url,
    logger,
    noHandleSignals: true,
    taskList: {
      noop: () => {
        if (--left === 0) resolve();
      },
    },
    preset: {
      worker: { concurrentJobs: 24, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 },
    },
  });
  await promise;
  await runner.stop();
  return perSecond(DRAINED, started_ms);
}

async function addMany(count: number): Promise<number> {
  const specs = times(count, (index) => ({ identifier: "noop", payload: { index } }));
  const started_ms = performance.now();
  await peer.addJobs(specs);
  return perSecond(count, started_ms);
}

async function peerBulk(): Promise<number> {
  const rate = await addMany(BULK);
  await sql.unsafe("TRUNCATE graphile_worker._private_jobs");
  return rate;
}

async function peerSingle(): Promise<number> {
  const started_ms = performance.now();
  for (let index = 0; index < SINGLE; index++) await peer.addJob("noop", { index });
  const rate = perSecond(SINGLE, started_ms);
  await sql.unsafe("TRUNCATE graphile_worker._private_jobs");
  return rate;
}

function perSecond(count: number, started_ms: number): number {
  return (count * 1_000) / (performance.now() - started_ms);
}

// ── Figures ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** From right before the enqueue until the store shows that the job was granted. */
async function pickUps(): Promise<number[]> {
  const worker = startLease(["worker"], store_url);
  await until(async () => ((await store.workers()).length > 0 ? true : null));
  await Bun.sleep(500);
  const samples: number[] = [];
  for (const _ of times(SAMPLES, () => null)) {
    await Bun.sleep(10 + Math.random() * 40);
    const asked_ms = await store.now();
    const [queued] = await store.enqueue([job(["true"])]);
    const done = await until(async () => {
      const [seen] = await store.jobs([queued?.id ?? 0]);
      return seen?.state.name === "completed" ? seen : null;
    });
    samples.push((done.started_at_ms ?? 0) - asked_ms);
  }
  worker.kill();
  await worker.exited;
  await clear();
  return samples;
}

/** 16 workers with 8 beating jobs each: row versions written per job and interval, and what is dead at the end. */
async function beats(): Promise<{ writes: number; dead: number }> {
  const [WORKERS, SLOTS, INTERVAL_MS] = [16, 8, 1_000];
  const stores = await Promise.all(times(WORKERS, open));
  await store.enqueue(times(WORKERS * SLOTS, () => job(["true"])));
  const request = { host: "bench", count: SLOTS, queues: null, task: null, lease_ms: 30_000 };
  const held = await Promise.all(stores.map((one, index) => one.acquire({ ...request, holder: `w${index}` })));
  // A session tells its figures when it does something a second later.
  for (const _ of times(2, () => null)) {
    await Bun.sleep(1_200);
    await Promise.all(stores.map((one) => one.now()));
  }
  const before = await written();
  const started_ms = performance.now();
  let intervals = 0;
  for (; performance.now() - started_ms < BEATING_MS; intervals++) {
    await Promise.all(
      stores.flatMap((one, index) =>
        (held[index] ?? []).map(({ job: { id, token } }) =>
          one.extend([{ id, token, expires_in_ms: 30_000, beat_age_ms: 0, beats: intervals }]),
        ),
      ),
    );
    await Bun.sleep(Math.max(0, (intervals + 1) * INTERVAL_MS - (performance.now() - started_ms)));
  }
  await Bun.sleep(1_200);
  await Promise.all(stores.map((one) => one.now()));
  await Bun.sleep(200);
  const after = await written();
  await Promise.all(stores.map((one) => one.close()));
  await clear();
  return { writes: (after.updates - before.updates) / (WORKERS * SLOTS * intervals), dead: after.dead };
}

/** Children that do nothing, by workers of two slots each that run at the same time. */
async function shellRate(workers: number): Promise<number> {
  await store.enqueue(times(CHILDREN, () => job(["true"])));
  const started_ms = performance.now();
  const running = times(workers, () => startLease(["worker", "--until-empty", "-j", "2"], store_url));
  await Promise.all(running.map((worker) => worker.exited));
  const rate = perSecond(CHILDREN, started_ms);
  await clear();
  return rate;
}

async function written(): Promise<{ updates: number; dead: number }> {
  const [row] = await sql<{ updates: string; dead: string }[]>`
    SELECT sum(n_tup_upd) AS updates, sum(n_dead_tup) AS dead FROM pg_stat_user_tables WHERE schemaname = 'bench'`;
  return { updates: Number(row?.updates), dead: Number(row?.dead) };
}

await ourDrain();
await peerDrain();
ratioFigure("postgres drain", "jobs/s", await takeTurns(TURNS, ourDrain, peerDrain), { at_least: 1 });
ratioFigure("postgres bulk enqueue", "jobs/s", await takeTurns(TURNS, ourBulk, peerBulk), { at_least: 1 });
ratioFigure("postgres single enqueue", "jobs/s", await takeTurns(TURNS, ourSingle, peerSingle), { at_least: 1 });
for (const workers of [1, 2, 4, 8]) {
  plainFigure(`postgres shell jobs, workers: ${workers}`, await shellRate(workers), "jobs/s", {});
}
const samples = await pickUps();
plainFigure("postgres pickup p50", quantile(samples, 0.5), "ms", { at_most: 15 });
plainFigure("postgres pickup p99", quantile(samples, 0.99), "ms", {});
const { writes, dead } = await beats();
plainFigure("postgres writes per beat", writes, "rows", { at_most: 1 });
plainFigure("postgres dead rows after beating", dead, "rows", { at_most: 5_000 });
await store.close();
await peer.release();
await sql.end();
await server.stop();
process.exit();
