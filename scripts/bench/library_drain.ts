/**
 * How fast handlers that do nothing go through a worker of the library, on disk, every commit synced: beside the bare
 * statements of the same work in the same batches, and beside two queues that keep jobs in SQLite as well.
 *
 * The bare statements are what somebody would write by hand on the same schema, with its indexes, checks and triggers: a
 * batch is granted by one statement in one commit, with a row per attempt, and ended by two statements per job in another.
 * A batch is as large as those that the worker turned out to make. They check no limits, dependencies or cancels, write
 * no history, decode no rows, and call nobody.
 */

import { Database } from "bun:sqlite";
import { join } from "node:path";
import { bun, defineQueue, defineWorker } from "plainjob";
import { Queue as BunQueue, Worker as BunWorker } from "bunqueue/client";
import { open } from "../../src/index.ts";
import { SQL, TURNS } from "../../src/store/sqlite/statements.ts";
import { countCommits, newFolder, newStorePath, plainFigure, ratioFigure, takeTurns } from "./harness.ts";

export const SLOTS = 100;
const JOBS = 10_000;
const TAKEN = 5;

const commits = countCommits();
/** Jobs per commit of the worker. */
let batch = SLOTS;

const perSecond = (count: number, started_ms: number) => (count * 1_000) / (performance.now() - started_ms);

async function filled(): Promise<string> {
  const path = newStorePath();
  await using queue = await open(path);
  await queue.enqueue(
    (async function* () {
      for (let n = 0; n < JOBS; n++) yield { input: n };
    })(),
  );
  return path;
}

export async function throughWorker(): Promise<number> {
  await using queue = await open(await filled());
  let done = 0;
  const before = commits.count;
  const started_ms = performance.now();
  const worker = queue.worker({ slots: SLOTS, until_empty: true, sweep: false }, () => void (done += 1));
  await worker.finished;
  const figure = perSecond(JOBS, started_ms);
  if (done !== JOBS) throw new Error(`${done} jobs ran`);
  batch = Math.round(JOBS / (commits.count - before));
  return figure;
}

export async function bareStatements(): Promise<number> {
  const database = new Database(await filled());
  database.run("PRAGMA synchronous = FULL");
  database.run("PRAGMA foreign_keys = ON");
  const [begin, commit] = [database.prepare("BEGIN IMMEDIATE"), database.prepare("COMMIT")];
  const acquire = database.prepare<{ id: number; token: number }, (string | number)[]>(TURNS.all.acquire);
  const inputOf = database.prepare(SQL.inputOf);
  const insertAttempt = database.prepare(SQL.insertAttempt);
  const settle = database.prepare(SQL.settle);
  const endAttempt = database.prepare(SQL.endAttempt);
  const started_ms = performance.now();
  for (let ended = 0; ended < JOBS;) {
    const granted_ms = Date.now();
    begin.run();
    const rows = acquire.all("bench", granted_ms, 300_000, "default", batch);
    for (const { id, token } of rows) {
      inputOf.get(id);
      insertAttempt.run(id, token, "bench", "bench", granted_ms, 300_000);
    }
    commit.run();
    const now_ms = Date.now();
    const how = ["success", null, null, null, null, 0, null, null, null, null, null, null];
    begin.run();
    for (const { id, token } of rows) {
      settle.run(id, token, "completed", null, now_ms, 0, "success", null, null, null, null, now_ms);
      endAttempt.run(id, token, now_ms, ...how);
    }
    commit.run();
    ended += rows.length;
    if (rows.length === 0) throw new Error("the store ran dry");
  }
  const figure = perSecond(JOBS, started_ms);
  database.close();
  return figure;
}

export const FEWER = 3_000;

export async function throughPlainjob(): Promise<number> {
  const database = new Database(join(newFolder(), "plainjob.db"), { strict: true });
  database.run("PRAGMA journal_mode = WAL");
  const logger = { error() {}, warn() {}, info() {}, debug() {} };
  const queue = defineQueue({ connection: bun(database), logger });
  // Whatever it sets for itself: the comparison is of commits that are synced.
  database.run("PRAGMA synchronous = FULL");
  queue.addMany(
    "noop",
    Array.from({ length: FEWER }, (_, n) => ({ n })),
  );
  const all = Promise.withResolvers<void>();
  let done = 0;
  const onCompleted = () => (done += 1) === FEWER && all.resolve();
  const worker = defineWorker("noop", async () => {}, { queue, logger, onCompleted: () => void onCompleted() });
  const started_ms = performance.now();
  void worker.start();
  await all.promise;
  const figure = perSecond(FEWER, started_ms);
  await worker.stop();
  queue.close();
  return figure;
}

// One for all turns: a process has one of its databases.
const dataPath = join(newFolder(), "bunqueue.db");
let turns = 0;

export async function throughBunqueue(): Promise<number> {
  const options = { embedded: true, dataPath } as const;
  const name = `noop-${(turns += 1)}`;
  const queue = new BunQueue(name, options);
  const jobs = Array.from({ length: FEWER }, (_, n) => ({ name: "noop", data: { n }, opts: { durable: true } }));
  await queue.addBulk(jobs);
  const all = Promise.withResolvers<void>();
  let done = 0;
  const handler = async () => {
    if ((done += 1) === FEWER) all.resolve();
  };
  const started_ms = performance.now();
  const worker = new BunWorker(name, handler, { ...options, concurrency: SLOTS });
  await all.promise;
  const figure = perSecond(FEWER, started_ms);
  await worker.close();
  await queue.close();
  return figure;
}

if (import.meta.main) {
  ratioFigure("library-drain/raw", "jobs/s", await takeTurns(TAKEN, throughWorker, bareStatements), { at_least: 0.7 });
  plainFigure("library-drain/batch", batch, "jobs/commit", {});
  ratioFigure("library-drain/plainjob", "jobs/s", await takeTurns(3, throughWorker, throughPlainjob), { at_least: 2 });
  ratioFigure("library-drain/bunqueue", "jobs/s", await takeTurns(3, throughWorker, throughBunqueue), { at_least: 2 });
  process.exit(process.exitCode ?? 0);
}
