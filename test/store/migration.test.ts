/**
 * A store that an older lease made, with everything in it: it opens, nothing is lost, and what newer versions keep
 * beside the jobs is right from the start.
 */

import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemRandom } from "../../src/platform/clock.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { MIGRATIONS } from "../../src/store/sqlite/schema.ts";
import { APPLICATION_ID } from "../../src/store/sqlite/quick_enqueue.ts";
import type { Store } from "../../src/store/store.ts";
import { acquireRequest } from "../contract/subject.ts";
import { ManualClock } from "../support/clock.ts";
import { newJob } from "../support/jobs.ts";

const NOW_MS = Date.UTC(2030, 0, 1);

let folder: string;
let path: string;
let opened: Store[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "lease-migration-"));
  path = join(folder, "lease.db");
  opened = [];
  makeVersion1();
});
afterEach(async () => {
  for (const store of opened) await store.close();
  rmSync(folder, { recursive: true, force: true });
});

async function open(): Promise<Store> {
  const clock = new ManualClock({ wall_ms: NOW_MS });
  const store = await openSqlite(path, { clock, random: systemRandom, trust: true });
  opened.push(store);
  return store;
}

function withDatabase<T>(work: (database: Database) => T): T {
  const database = new Database(path);
  try {
    return work(database);
  } finally {
    database.close();
  }
}

const JOBS = `INSERT INTO jobs (id, state, queue, priority, run_at_ms, token, failures, retries, holder, expires_at_ms,
    created_at_ms, started_at_ms, finished_at_ms, task, key, argv, cwd, cause, exit_code, error) VALUES
  (1, 'completed', 'mail', 0, 1000, 1, 0, 3, NULL, NULL, 1000, 2000, 3000, 't', 'k', '["a"]', '/', 'success', 0, NULL),
  (2, 'completed', 'mail', 0, 1000, 3, 2, 3, NULL, NULL, 1000, 2000, 4000, 't', NULL, '["b"]', '/', 'success', 0, NULL),
  (3, 'failed', 'mail', 0, 1000, 1, 1, 0, NULL, NULL, 1000, 2000, 5000, NULL, NULL, '["c"]', '/', 'exit', 1, 'exit 1'),
  (4, 'cancelled', 'build', 0, 1000, 0, 0, 3, NULL, NULL, 1000, NULL, 6000, NULL, NULL, '["d"]', '/', NULL, NULL, NULL),
  (5, 'running', 'build', 0, 1000, 1, 0, 3, 'w1', ${NOW_MS + 60_000}, 1000, 2000, NULL, NULL, 'r', '["e"]', '/', NULL,
    NULL, NULL),
  (6, 'pending', 'build', 0, 1000, 0, 0, 3, NULL, NULL, 1000, NULL, NULL, NULL, NULL, '["f"]', '/', NULL, NULL, NULL),
  (7, 'scheduled', 'build', 0, ${NOW_MS + 90_000}, 1, 1, 3, NULL, NULL, 1000, 2000, NULL, NULL, NULL, '["g"]', '/',
    'exit', 1, 'exit 1'),
  (8, 'blocked', 'build', 0, 1000, 0, 0, 3, NULL, NULL, 1000, NULL, NULL, NULL, NULL, '["h"]', '/', NULL, NULL, NULL)`;

function makeVersion1(): void {
  withDatabase((database) => {
    database.run("PRAGMA journal_mode = WAL");
    database.exec(MIGRATIONS[0] as string);
    database.run(`PRAGMA application_id = ${APPLICATION_ID}`);
    database.run("PRAGMA user_version = 1");
    database.run(JOBS);
    database.run("INSERT INTO inputs VALUES (6, x'00ff')");
    database.run("INSERT INTO dependencies VALUES (8, 5, 'success')");
    database.run(`INSERT INTO attempts (job_id, attempt, worker, host, lease_ms, started_at_ms, ended_at_ms, cause)
      VALUES (1, 1, 'w0', 'h', 1000, 2000, 3000, 'success'), (5, 1, 'w1', 'h', 60000, 2000, NULL, NULL)`);
    database.run("INSERT INTO checkpoints VALUES (1, 5, NULL, 'progress', 1, 2500, 'half way')");
    database.run("INSERT INTO logs VALUES (1, 1, 1, 0, 3, x'010203')");
    database.run("INSERT INTO queues VALUES ('slow', 1000)");
    database.run(`INSERT INTO workers (id, host, boot_id, pid, pid_started, version, slots, started_at_ms, seen_at_ms)
      VALUES ('w1', 'h', 'b', 7, 70, '0.0.9', 2, 1000, 2000)`);
  });
}

async function figures(store: Store): Promise<{ counts: string[]; retries: unknown }> {
  const counts = (await store.counts()).map(({ queue, state, count }) => `${queue} ${state} ${count}`);
  return { counts: counts.toSorted(), retries: await store.retryCounts() };
}

const FIGURES = {
  counts: [
    "build blocked 1",
    "build cancelled 1",
    "build pending 1",
    "build running 1",
    "build scheduled 1",
    "mail completed 2",
    "mail failed 1",
  ],
  retries: [
    { retries: 0, jobs: 2 },
    { retries: 2, jobs: 1 },
  ],
};

describe("a store of version 1", () => {
  test("is brought to this version, whole", async () => {
    const store = await open();
    withDatabase((database) => {
      expect(database.query("PRAGMA user_version").get()).toEqual({ user_version: MIGRATIONS.length });
      expect(database.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
      expect(database.query("PRAGMA foreign_key_check").all()).toEqual([]);
    });
    expect((await store.diagnose()).filter(({ level }) => level === "error")).toEqual([]);
    expect((await store.diagnose()).find(({ name }) => name === "counts")?.level).toBe("ok");
  });

  test("keeps every job and all that belongs to it", async () => {
    const store = await open();
    const jobs = await store.list({ limit: 99, newest_first: false });
    expect(jobs.map(({ argv, state }) => `${argv[0]} ${state.name}`)).toEqual([
      "a completed",
      "b completed",
      "c failed",
      "d cancelled",
      "e running",
      "f pending",
      "g scheduled",
      "h blocked",
    ]);
    expect(jobs[5]?.input).toEqual(new Uint8Array([0, 255]));
    expect((await store.attempts(5)).map(({ worker, end }) => [worker, end])).toEqual([["w1", null]]);
    expect((await store.checkpoints({ job: 5, limit: 9 })).map(({ text }) => text)).toEqual(["half way"]);
    expect(await store.logs({ job: 1, attempt: 1, from: 0, limit: 9 })).toHaveLength(1);
    expect(await store.pausedQueues()).toEqual(["slow"]);
    expect((await store.parents([8])).map(({ parent }) => parent)).toEqual([5]);
    expect(await store.workers()).toMatchObject([{ id: "w1", draining: false, completed: 0, failed: 0 }]);
  });

  test("has counted what had ended before", async () => {
    expect(await figures(await open())).toEqual(FIGURES);
  });

  test("goes on counting from there", async () => {
    const store = await open();
    await store.retry([3]);
    await store.cancel([6], null);
    expect((await store.prune({ older_than_ms: 0, states: ["completed"], limit: 1 })).count).toBe(1);
    const { counts, retries } = await figures(store);
    expect(counts).toEqual([
      "build blocked 1",
      "build cancelled 2",
      "build running 1",
      "build scheduled 1",
      "mail completed 1",
      "mail pending 1",
    ]);
    expect(retries).toEqual([{ retries: 2, jobs: 1 }]);
  });

  test("is worked on as if it had always been this version", async () => {
    const store = await open();
    expect(await store.enqueue([newJob({ key: "r" }), newJob({ key: "k" })])).toEqual([
      { id: 5, created: false },
      { id: 9, created: true },
    ]);
    const grants = await store.acquire(acquireRequest({ count: 9 }));
    expect(grants.map(({ job }) => job.id)).toEqual([6, 9]);
    expect(await store.list({ limit: 9, newest_first: false, task: "t" })).toHaveLength(2);
    expect(await store.list({ limit: 9, newest_first: false, key: "k" })).toHaveLength(2);
  });

  test("is migrated once when many open it at the same time", async () => {
    const stores = await Promise.all(Array.from({ length: 6 }, () => open()));
    for (const store of stores) expect(await figures(store)).toEqual(FIGURES);
  });

  test("stays as it was when a step fails half-way, and can be opened once the cause is gone", async () => {
    const steps = MIGRATIONS as string[];
    const [, step = ""] = steps;
    steps[1] = `${step}; CREATE TABLE tallies (again TEXT)`;
    try {
      expect(await open().catch((error: Error) => error.message)).toContain("already exists");
    } finally {
      steps[1] = step;
    }
    withDatabase((database) => {
      expect(database.query("PRAGMA user_version").get()).toEqual({ user_version: 1 });
      expect(database.query("SELECT 1 FROM sqlite_schema WHERE name = 'tallies'").all()).toEqual([]);
    });
    expect(await figures(await open())).toEqual(FIGURES);
  });

  test("is not touched when somebody has put something into its schema", async () => {
    withDatabase((database) => database.run("CREATE TRIGGER evil AFTER INSERT ON meta BEGIN SELECT 1; END"));
    expect(await open().catch((error: unknown) => error)).toMatchObject({
      code: "store_schema",
      message: expect.stringContaining("trigger evil on meta"),
    });
    withDatabase((database) => {
      expect(database.query("PRAGMA user_version").get()).toEqual({ user_version: 1 });
    });
  });

  test("that is empty is brought to this version too", async () => {
    withDatabase((database) => database.run("DELETE FROM jobs"));
    expect(await figures(await open())).toEqual({ counts: [], retries: [] });
  });
});
