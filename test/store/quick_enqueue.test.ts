/** The quick enqueue: it writes what the store proper would, or nothing at all. */

import { Database } from "bun:sqlite";
import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, statSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import type { NewJob } from "../../src/core/job.ts";
import { systemRandom } from "../../src/platform/clock.ts";
import { quickFiles } from "../../src/platform/libc.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { SHORT_WAL_BYTES, quickEnqueue } from "../../src/store/sqlite/quick_enqueue.ts";
import { ManualClock } from "../support/clock.ts";
import { newJob } from "../support/jobs.ts";
import { asIfBuilt } from "../support/built.ts";

asIfBuilt();

const top = mkdtempSync(join(tmpdir(), "lease-quick-enqueue-"));
afterAll(() => rmSync(top, { recursive: true }));

const NOW_MS = 1_800_000_000_000;
let stores = 0;

function open(path: string) {
  return openSqlite(path, { clock: new ManualClock({ wall_ms: NOW_MS }), random: systemRandom });
}

/** A store as `lease enqueue` leaves it. */
async function store(): Promise<string> {
  const path = join(top, `${++stores}`, "lease.db");
  await (await open(path)).close({ exiting: true });
  return path;
}

function rows(path: string, table = "jobs"): unknown[] {
  const database = new Database(path);
  const found = database.query(`SELECT * FROM ${table} ORDER BY 1, 2`).all();
  database.close();
  return found;
}

const links = (path: string) => rows(path, "dependencies");

function quick(path: string, job: NewJob = newJob()): number | null {
  const files = quickFiles();
  if (files === null) throw new Error("the C library can't be called here");
  return quickEnqueue(files, path, job, NOW_MS);
}

describe.if(process.platform === "linux")("the quick enqueue", () => {
  const PLAIN: [string, Partial<NewJob>][] = [
    ["a command", {}],
    ["one that is delayed", { delay_ms: 5_000 }],
    ["one with a task, a queue, a priority and variables", { task: "t", queue: "q", priority: -7, env: { A: "ä" } }],
    ["one with settings", { settings: { ...newJob().settings, retries: 0, lease_ms: 60_000, pty: true } }],
    ["one with a key", { key: "k" }],
    ["one with a learned lease", { settings: { ...newJob().settings, lease_ms: "auto" } }],
  ];
  test.each(PLAIN)("writes the row that the store writes: %s", async (_what, more) => {
    const job = { ...newJob(), ...more };
    const [ours, proper] = [await store(), await store()];
    expect(quick(ours, job)).toBe(1);
    const opened = await open(proper);
    await opened.enqueue([job]);
    await opened.close();
    expect(rows(ours)).toEqual(rows(proper));
    expect(rows(ours)).toHaveLength(1);
  });

  const DOUBTS: [string, Partial<NewJob>][] = [
    ["an input", { input: new Uint8Array([1]) }],
    ["a parent that is not there", { after: [1] }],
    ["a parent in any end", { after_any: [1] }],
  ];
  test.each(DOUBTS)("leaves a job with %s to the store", async (_what, more) => {
    const path = await store();
    expect(quick(path, { ...newJob(), ...more })).toBeNull();
    expect(rows(path)).toEqual([]);
  });

  test("leaves a key that a live job has to the store", async () => {
    const path = await store();
    expect(quick(path, { ...newJob(), key: "k" })).toBe(1);
    expect(quick(path, { ...newJob(), key: "k" })).toBeNull();
    expect(rows(path)).toHaveLength(1);
  });

  const PARENTS: [string, string, number | null][] = [
    ["waits", "pending", 2],
    ["has completed", "completed", 2],
    ["has failed", "failed", null],
    ["was cancelled", "cancelled", null],
  ];
  test.each(PARENTS)("does what the store does about a parent that %s, or nothing", async (_what, state, id) => {
    const [ours, proper] = [await store(), await store()];
    for (const path of [ours, proper]) {
      quick(path);
      const ended = state === "pending" ? "" : `, finished_at_ms = ${NOW_MS}`;
      const database = new Database(path);
      database.run(`UPDATE jobs SET state = '${state}'${ended}`);
      database.close();
    }
    const child = { ...newJob(), after: [1] };
    expect(quick(ours, child)).toBe(id);
    const opened = await open(proper);
    await opened.enqueue([child]);
    await opened.close();
    expect(rows(ours)).toEqual(id === null ? rows(proper).slice(0, 1) : rows(proper));
    expect(links(ours)).toEqual(id === null ? [] : links(proper));
  });

  test("leaves nothing of a job with one parent that is there and one that is not", async () => {
    const path = await store();
    quick(path);
    expect(quick(path, { ...newJob(), after: [1, 99] })).toBeNull();
    expect(rows(path)).toHaveLength(1);
    expect(links(path)).toEqual([]);
  });

  test.each(["user_version = 99", "application_id = 7"])("leaves a store with %s alone", async (pragma) => {
    const path = await store();
    const database = new Database(path);
    database.run(`PRAGMA ${pragma}`);
    expect(quick(path)).toBeNull();
    database.close();
    expect(rows(path)).toEqual([]);
  });

  test("leaves a store that somebody writes to, without waiting", async () => {
    const path = await store();
    const other = new Database(path);
    other.run("BEGIN IMMEDIATE");
    expect(quick(path)).toBeNull();
    other.run("ROLLBACK");
    other.close();
    expect(rows(path)).toEqual([]);
  });

  test("leaves what is no database, and a store that is not there", async () => {
    const path = await store();
    // The log outranks the file for as long as it has something to say.
    truncateSync(`${path}-wal`, 0);
    await Bun.write(path, "not a database, but long enough to be taken for one".repeat(100));
    expect(quick(path)).toBeNull();
    expect(quick(join(top, "none", "lease.db"))).toBeNull();
  });

  test("folds a log back that has grown long, and keeps all jobs", async () => {
    const path = await store();
    const job = { ...newJob(), argv: ["true", "x".repeat(20_000)] };
    let count = 0;
    // Opened all the time: nobody else folds it back meanwhile.
    const other = new Database(path);
    other.query("SELECT count(*) FROM jobs").get();
    while (statSync(`${path}-wal`).size <= SHORT_WAL_BYTES) expect(quick(path, job)).toBe(++count);
    other.close();
    expect(quick(path, job)).toBe(++count);
    expect(rows(path)).toHaveLength(count);
  });
});
