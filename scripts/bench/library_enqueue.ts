/** How fast the library enqueues, on disk, every commit synced: one by one and in bulk, beside the bare statements. */

import { Database } from "bun:sqlite";
import { open } from "../../src/index.ts";
import { newStorePath, ratioFigure, takeTurns } from "./harness.ts";

const SINGLE = 2_000;
const MANY = 50_000;
const TAKEN = 5;

const perSecond = (count: number, started_ms: number) => (count * 1_000) / (performance.now() - started_ms);

const JOB = `INSERT INTO jobs (state, queue, priority, run_at_ms, retries, created_at_ms, argv, cwd)
  VALUES ('pending', 'default', 0, ?1, 3, ?1, '[]', '/')`;
const INPUT = "INSERT INTO inputs (job_id, data) VALUES (?1, ?2)";

async function rawStore() {
  const path = newStorePath();
  await (await open(path)).close();
  const database = new Database(path);
  database.run("PRAGMA synchronous = FULL");
  database.run("PRAGMA foreign_keys = ON");
  const [begin, commit] = [database.prepare("BEGIN IMMEDIATE"), database.prepare("COMMIT")];
  const [job, input] = [database.prepare(JOB), database.prepare(INPUT)];
  const encoder = new TextEncoder();
  const insert = (n: number) => {
    const { lastInsertRowid } = job.run(Date.now());
    input.run(Number(lastInsertRowid), encoder.encode(JSON.stringify({ n })));
  };
  return { begin, commit, insert };
}

async function oneByOne(): Promise<number> {
  await using queue = await open(newStorePath());
  const started_ms = performance.now();
  for (let n = 0; n < SINGLE; n++) await queue.enqueue({ input: { n } });
  return perSecond(SINGLE, started_ms);
}

async function rawOneByOne(): Promise<number> {
  const { begin, commit, insert } = await rawStore();
  const started_ms = performance.now();
  for (let n = 0; n < SINGLE; n++) {
    begin.run();
    insert(n);
    commit.run();
  }
  return perSecond(SINGLE, started_ms);
}

async function inBulk(): Promise<number> {
  await using queue = await open(newStorePath());
  const started_ms = performance.now();
  await queue.enqueue(
    (async function* () {
      for (let n = 0; n < MANY; n++) yield { input: { n } };
    })(),
  );
  return perSecond(MANY, started_ms);
}

async function rawInBulk(): Promise<number> {
  const { begin, commit, insert } = await rawStore();
  const started_ms = performance.now();
  begin.run();
  for (let n = 0; n < MANY; n++) insert(n);
  commit.run();
  return perSecond(MANY, started_ms);
}

ratioFigure("library-enqueue/one-by-one", "jobs/s", await takeTurns(TAKEN, oneByOne, rawOneByOne), { at_least: 0.8 });
ratioFigure("library-enqueue/bulk", "jobs/s", await takeTurns(TAKEN, inBulk, rawInBulk), { at_least: 0.6 });
