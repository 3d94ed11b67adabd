/**
 * The PostgreSQL store beside graphile-worker (local queue and batching on) and pg-boss (fetch and complete in batches), on
 * one server in one run, its data on the workspace's disk with its usual durability: jobs go in, one by one and in bulk,
 * and jobs that do nothing go through; that again while somebody holds an old snapshot, which keeps vacuum from its work,
 * and with a server that is restarted in the middle.
 */

import { chmodSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { Logger, makeWorkerUtils, run, type Runner } from "graphile-worker";
import PgBoss from "pg-boss";
import postgres from "postgres";
import { isRefusal, transition } from "../../../src/core/transition.ts";
import { systemClock, systemRandom } from "../../../src/platform/clock.ts";
import { openPostgres } from "../../../src/store/postgres/open.ts";
import type { Grant, Store } from "../../../src/store/store.ts";
import { startPostgres, type Server } from "../../../test/support/postgres.ts";
import { job, newFolder, root, SUCCESS, times, workspace } from "../harness.ts";
import type { Contest, Contestant } from "./contest.ts";
import type { Group, Size } from "./league.ts";

const SYNCED = "synced by the server";
const QUEUE = "noop";

const perSecond = (count: number, started_ms: number) => (count * 1_000) / (performance.now() - started_ms);

export async function startServer(): Promise<Server> {
  chmodSync(workspace, 0o755);
  const place = newFolder();
  chmodSync(place, 0o755);
  return startPostgres([], place);
}

/** Each job ends by a call of its own, as if each had a slot; the store gathers them. */
async function work(worker: Store, count: number): Promise<number> {
  const request = { holder: "bench", host: "bench", count, queues: ["default"], task: null, lease_ms: 300_000 };
  const grants = await worker.acquire(request);
  const now_ms = await worker.now();
  await Promise.all(grants.map((grant) => settle(worker, grant, now_ms)));
  return grants.length;
}

async function settle(worker: Store, { job: granted }: Grant, now_ms: number): Promise<void> {
  const { id, token } = granted;
  const change = transition(granted, { type: "settle", token, end: SUCCESS }, { now_ms, random: Math.random });
  if (isRefusal(change)) throw new Error(change.refused);
  const [answer] = await worker.settle([{ id, token, change, process: null, audit: null }]);
  if (answer?.status !== "applied") throw new Error("a job was not settled");
}

/** What each of them does in a contest; `clear` takes away what it left. */
interface Player {
  name: string;
  drain(count: number): Promise<number>;
  bulk(count: number): Promise<number>;
  single(count: number): Promise<number>;
}

function lease(store: Store, clear: () => Promise<unknown>): Player {
  const cleared = (rate: number) => clear().then(() => rate);
  return {
    name: "lease",
    async drain(count) {
      await store.enqueue(times(count, () => job(["true"])));
      const lane = async () => {
        while ((await work(store, 500)) > 0);
      };
      const started_ms = performance.now();
      await Promise.all([lane(), lane()]);
      return cleared(perSecond(count, started_ms));
    },
    async bulk(count) {
      const jobs = times(count, (index) => job(["echo", String(index)]));
      const started_ms = performance.now();
      await store.enqueue(jobs);
      return cleared(perSecond(count, started_ms));
    },
    async single(count) {
      const started_ms = performance.now();
      for (let index = 0; index < count; index++) await store.enqueue([job(["echo", String(index)])]);
      return cleared(perSecond(count, started_ms));
    },
  };
}

export async function graphile(url: string, clear: () => Promise<unknown>): Promise<Player & { end(): Promise<void> }> {
  const logger = new Logger(() => () => {});
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  await utils.migrate();
  const addMany = async (count: number) => {
    const specs = times(count, (index) => ({ identifier: QUEUE, payload: { index } }));
    const started_ms = performance.now();
    await utils.addJobs(specs);
    return perSecond(count, started_ms);
  };
  return {
    name: "graphile-worker, batched",
    async drain(count) {
      await addMany(count);
      let left = count;
      const { promise, resolve } = Promise.withResolvers<void>();
      const worker = { concurrentJobs: 24, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
      const started_ms = performance.now();
      const runner: Runner = await run({
        connectionString: url,
        logger,
        noHandleSignals: true,
        taskList: { [QUEUE]: () => void (--left === 0 && resolve()) },
        preset: { worker },
      });
      await promise;
      await runner.stop();
      return perSecond(count, started_ms);
    },
    bulk: (count) => addMany(count).then((rate) => clear().then(() => rate)),
    async single(count) {
      const started_ms = performance.now();
      for (let index = 0; index < count; index++) await utils.addJob(QUEUE, { index });
      const rate = perSecond(count, started_ms);
      await clear();
      return rate;
    },
    end: async () => utils.release(),
  };
}

const FETCHED = 500;

async function pgBoss(url: string, clear: () => Promise<unknown>): Promise<Player & { end(): Promise<void> }> {
  const boss = new PgBoss({ connectionString: url, supervise: false, schedule: false });
  boss.on("error", () => {});
  await boss.start();
  await boss.createQueue(QUEUE);
  const addMany = async (count: number) => {
    const jobs = times(count, (index) => ({ name: QUEUE, data: { index } }));
    const started_ms = performance.now();
    await boss.insert(jobs);
    return perSecond(count, started_ms);
  };
  return {
    name: `pg-boss, ${FETCHED} at a time`,
    async drain(count) {
      await addMany(count);
      const lane = async () => {
        for (;;) {
          const jobs = await boss.fetch(QUEUE, { batchSize: FETCHED });
          if (jobs.length === 0) return;
          await boss.complete(
            QUEUE,
            jobs.map(({ id }) => id),
          );
        }
      };
      const started_ms = performance.now();
      await Promise.all([lane(), lane()]);
      const rate = perSecond(count, started_ms);
      await clear();
      return rate;
    },
    bulk: (count) => addMany(count).then((rate) => clear().then(() => rate)),
    async single(count) {
      const started_ms = performance.now();
      for (let index = 0; index < count; index++) await boss.send(QUEUE, { index });
      const rate = perSecond(count, started_ms);
      await clear();
      return rate;
    },
    end: () => boss.stop({ graceful: false, wait: false }),
  };
}

type Deed = (player: Player) => Promise<number>;

export async function postgresContests({ quick }: Size): Promise<Group> {
  const server = await startServer();
  const sql = postgres(server.url, { max: 3, onnotice: () => {} });
  const store = await openPostgres(`${server.url}?schema=bench`, { clock: systemClock, random: systemRandom });
  const truncate = (tables: string) => () => sql.unsafe(`TRUNCATE ${tables} CASCADE`);
  const ours = lease(store, truncate("bench.jobs, bench.attempts, bench.inputs, bench.checkpoints, bench.logs"));
  const worker = await graphile(server.url, truncate("graphile_worker._private_jobs"));
  const boss = await pgBoss(server.url, truncate("pgboss.job"));
  const turns = quick ? 1 : 5;
  const contest = (name: string, deed: Deed, at_least: number): Contest => {
    const play = (player: Player): Contestant => ({
      name: player.name,
      durability: SYNCED,
      run: () => deed(player),
      at_least,
    });
    return { name: `PostgreSQL, ${name}`, unit: "jobs/s", turns, ours: play(ours), others: [play(worker), play(boss)] };
  };
  const [many, few, bulk, single] = quick ? [1_000, 200, 2_000, 50] : [40_000, 5_000, 100_000, 1_000];
  const contests = [
    contest("drain", (player) => player.drain(many), 1.3),
    contest(`drain of ${few}`, (player) => player.drain(few), 1.3),
    contest("bulk enqueue", (player) => player.bulk(bulk), 1.7),
    contest("single enqueue", (player) => player.single(single), 1.3),
    contest("drain beside an old snapshot", (player) => beside(sql, () => player.drain(many)), 1.3),
    restarts(server, quick),
  ];
  const end = async () => {
    await Promise.all([store.close(), worker.end(), boss.end()].map((ended) => ended.catch(() => {})));
    await sql.end();
    await server.stop();
  };
  return { contests, end };
}

/** While a transaction elsewhere sees the tables as they were before. */
async function beside(sql: postgres.Sql, deed: () => Promise<number>): Promise<number> {
  const holder = await sql.reserve();
  await holder`BEGIN ISOLATION LEVEL REPEATABLE READ`;
  await holder`SELECT count(*) FROM pg_class`;
  try {
    return await deed();
  } finally {
    await holder`ROLLBACK`;
    holder.release();
  }
}

/** Of the jobs of a worker process whose server is restarted, how many it has done soon after without anybody's help. */
function restarts(server: Server, quick: boolean): Contest {
  const [count, patience_ms] = quick ? [200, 15_000] : [4_000, 60_000];
  const play = (kind: string, name: string): Contestant => ({
    name,
    durability: SYNCED,
    async run() {
      const script = join(root, "scripts/bench/league/restarted.ts");
      const child = Bun.spawn([process.execPath, script, kind, server.url, String(count)], {
        stdout: "pipe",
        stderr: "ignore",
        stdin: "ignore",
      });
      const timer = setTimeout(() => child.kill("SIGKILL"), patience_ms);
      let done = 0;
      let restarted: Promise<void> | null = null;
      for await (const chunk of child.stdout) {
        done = Number(new TextDecoder().decode(chunk).trim().split("\n").at(-1)) || done;
        if (done >= count / 4) restarted ??= server.stop().then(() => server.start());
        if (done >= count) break;
      }
      clearTimeout(timer);
      child.kill("SIGKILL");
      await child.exited;
      await restarted;
      return (100 * Math.min(done, count)) / count;
    },
  });
  const others = [play("graphile", "graphile-worker"), play("boss", "pg-boss")];
  return {
    name: "PostgreSQL, server restarted in the middle",
    unit: "% done",
    turns: 1,
    ours: play("lease", "lease"),
    others,
  };
}
