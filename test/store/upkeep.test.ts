/**
 * What SQLite alone needs: a write-ahead log that does not grow for ever, and a diagnosis of the file.
 */

import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { chmodSync, closeSync, mkdtempSync, openSync, rmSync, statSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import type { Finding } from "../../src/store/queries.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { newJob } from "../support/jobs.ts";

const MIB = 2 ** 20;

let folder: string;
let path: string;
let store: Store;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "lease-upkeep-"));
  path = join(folder, "lease.db");
  store = await openSqlite(path, { clock: systemClock, random: systemRandom });
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

const walBytes = (): number => statSync(`${path}-wal`).size;

/** Jobs with input, until the log has grown by about so much. */
async function write(bytes: number): Promise<void> {
  const input = new Uint8Array(MIB / 4).fill(1);
  await store.enqueue(Array.from({ length: (bytes / MIB) * 4 }, () => newJob({ input })));
}

function pinned<T>(work: () => Promise<T>): Promise<T> {
  const reader = new Database(path);
  reader.run("BEGIN");
  reader.query("SELECT count(*) FROM jobs").get();
  return work().finally(() => {
    reader.run("ROLLBACK");
    reader.close();
  });
}

async function finding(name: string): Promise<Finding | undefined> {
  return (await store.diagnose()).find((found) => found.name === name);
}

describe("tidy", () => {
  test("cuts a long log back to nothing", async () => {
    await write(8 * MIB);
    expect(walBytes()).toBeGreaterThan(4 * MIB);
    await store.tidy();
    expect(walBytes()).toBe(0);
    expect((await store.counts())[0]?.count).toBe(32);
  });

  test("leaves a short one alone: it is used again", async () => {
    await store.enqueue([newJob()]);
    const before = walBytes();
    expect(before).toBeGreaterThan(0);
    await store.tidy();
    expect(walBytes()).toBe(before);
  });

  test("does not wait for a reader that pins the log, and cuts it when that is gone", async () => {
    await write(MIB);
    await pinned(async () => {
      await write(8 * MIB);
      const started_ms = performance.now();
      await store.tidy();
      expect(performance.now() - started_ms).toBeLessThan(1_000);
      expect(walBytes()).toBeGreaterThan(8 * MIB);
      expect(await store.enqueue([newJob()])).toHaveLength(1);
    });
    await store.tidy();
    expect(walBytes()).toBe(0);
  });

  test("does not wait for a writer of another process, nor fail because of it", async () => {
    await write(8 * MIB);
    const writer = new Database(path);
    writer.run("BEGIN IMMEDIATE");
    await store.tidy();
    writer.run("ROLLBACK");
    writer.close();
  });

  test("during a bulk enqueue with a long log leaves that in peace", async () => {
    await write(8 * MIB);
    const done = await store.enqueueAll(
      (async function* () {
        yield [newJob()];
        await store.tidy();
        yield [newJob()];
      })(),
    );
    expect(done.created).toBe(2);
  });
});

describe("the log", () => {
  test("does not grow with the number of commits", async () => {
    for (let round = 0; round < 40; round++) await write(MIB / 2);
    expect(walBytes()).toBeLessThan(8 * MIB);
  });

  test("is short again after a bulk enqueue that made it very long", async () => {
    const input = new Uint8Array(MIB).fill(1);
    await store.enqueueAll(
      (async function* () {
        for (let n = 0; n < 80; n++) yield [newJob({ input })];
      })(),
    );
    await store.enqueue([newJob()]);
    await store.tidy();
    expect(walBytes()).toBe(0);
  });
});

describe("diagnose", () => {
  test("names every part of a healthy store", async () => {
    const names = (await store.diagnose()).map(({ name }) => name).toSorted();
    expect(names).toEqual(
      [
        "sqlite",
        "schema",
        "integrity",
        "counts",
        "jobs",
        "permissions",
        "file",
        "wal",
        "disk",
        "file system",
      ].toSorted(),
    );
  });

  test("finds counts that somebody changed by hand: too many, too few, and of what is not there", async () => {
    await store.cancel([(await store.enqueue([newJob()]))[0]?.id ?? 0], null);
    const lies = [
      "UPDATE tallies SET count = count + 1",
      "UPDATE tallies SET count = count - 2",
      "INSERT INTO tallies VALUES ('x', 'failed', 7, 2)",
    ];
    expect((await finding("counts"))?.level).toBe("ok");
    for (const lie of lies) {
      const liar = new Database(path);
      liar.run(lie);
      liar.close();
      expect(await finding("counts")).toMatchObject({ level: "warn", value: expect.stringContaining("differ") });
    }
  });

  test("finds jobs counted right that were inserted as finished", async () => {
    const other = new Database(path);
    other.run(`INSERT INTO jobs (state, queue, priority, run_at_ms, token, retries, created_at_ms, finished_at_ms, argv,
      cwd) VALUES ('failed', 'a', 0, 0, 2, 3, 0, 1, '["x"]', '/')`);
    other.close();
    expect((await finding("counts"))?.level).toBe("ok");
    expect(await store.retryCounts()).toEqual([{ retries: 1, jobs: 1 }]);
  });

  test("finds files that others can get at", async () => {
    chmodSync(path, 0o644);
    const open = await finding("permissions");
    expect(open).toMatchObject({ level: "warn", value: "0644, open to others" });
    expect(open?.advice).toContain(`chmod go-rwx ${path}`);
  });

  test("finds rows that belong to no job", async () => {
    const other = new Database(path);
    other.run("PRAGMA foreign_keys = OFF");
    other.run("INSERT INTO inputs VALUES (99, x'00')");
    other.close();
    expect(await finding("integrity")).toMatchObject({ level: "error", value: "1 rows belong to no job" });
  });

  /** Opens the store again after every `step`th page was overwritten. */
  async function damage(step: number): Promise<void> {
    await store.enqueue(Array.from({ length: 3_000 }, (_, n) => newJob({ key: `key ${n}`, task: `t${n % 7}` })));
    await store.close();
    const file = openSync(path, "r+");
    const pages = statSync(path).size / 4096;
    for (let page = 40; page < pages; page += step) writeSync(file, Buffer.alloc(2_000, 0xa5), 0, 2_000, page * 4096);
    closeSync(file);
    store = await openSqlite(path, { clock: systemClock, random: systemRandom });
  }

  test.each([
    ["a few", 40],
    ["most", 4],
  ])("of a file that is damaged in %s of its pages says so instead of failing", async (_some, step) => {
    await damage(step);
    const findings = await store.diagnose();
    expect(findings[0]).toMatchObject({ name: "integrity", level: "error" });
    expect(findings[0]?.value).not.toContain("\n");
    expect(findings[0]?.advice).toContain(".recover");
    expect(findings.map(({ name }) => name)).toContain("disk");
  });

  test("is what is left of a file that is damaged: whatever reads or writes says what to do", async () => {
    await damage(2);
    const works: (() => Promise<unknown>)[] = [
      () => store.list({ limit: 9_999, newest_first: false }),
      () => store.jobs(Array.from({ length: 3_000 }, (_, n) => n + 1)),
      () => store.counts({ task: "t1" }),
      () =>
        store.cancel(
          Array.from({ length: 3_000 }, (_, n) => n + 1),
          null,
        ),
    ];
    for (const work of works) {
      const error: unknown = await work().catch((reason: unknown) => reason);
      expect(error).toMatchObject({ code: "store_corrupt", message: expect.stringContaining("is damaged: restore") });
    }
  });
});

describe("a store that is too large to be read in a moment", () => {
  /** Behind the back of the store, so that nothing notices it but who counts. */
  async function largeAndWrong(): Promise<void> {
    await write(40 * MIB);
    await store.tidy();
    const other = new Database(path);
    other.run("UPDATE tallies SET count = count + 1 WHERE state = 'all'");
    other.close();
  }

  test("is glanced into, and says so", async () => {
    await largeAndWrong();
    expect(await finding("integrity")).toMatchObject({ level: "ok", value: expect.stringContaining("--full") });
    expect(await finding("counts")).toBeUndefined();
    expect(await finding("jobs")).toMatchObject({ level: "ok" });
  });

  test("is read whole when that is asked for, part by part where somebody looks on", async () => {
    await largeAndWrong();
    const parts: string[] = [];
    const found = await store.diagnose({ full: true, step: (what) => parts.push(what) });
    expect(found.find(({ name }) => name === "counts")).toMatchObject({ level: "warn" });
    expect(found.find(({ name }) => name === "integrity")).toMatchObject({ value: "ok" });
    expect(parts.length).toBeGreaterThan(10);
    expect(parts.filter((part) => part.startsWith("table jobs,"))).toHaveLength(1);
  });
});

describe("a prune", () => {
  test("leaves no row of any table that belongs to what it deleted", async () => {
    const owned = () => {
      const database = new Database(path);
      const tables = database
        .query(
          `SELECT t.name, l."from" AS "column", l.on_delete FROM sqlite_schema AS t
            JOIN pragma_foreign_key_list(t.name) AS l WHERE t.type = 'table' AND l."table" = 'jobs'`,
        )
        .all() as { name: string; column: string; on_delete: string }[];
      const rows = tables.map(
        ({ name }) => (database.query(`SELECT count(*) AS n FROM ${name}`).get() as { n: number }).n,
      );
      database.close();
      return { tables, rows: rows.reduce((sum, count) => sum + count, 0) };
    };
    // What the engine would delete, had it been asked to follow the links, is what a prune deletes.
    expect(owned().tables.every(({ on_delete }) => on_delete === "CASCADE")).toBe(true);
    const [parent] = await store.enqueue([newJob({ input: new Uint8Array([1]) })]);
    await store.enqueue([newJob({ after_any: [parent?.id ?? 0] })]);
    await store.acquire({ holder: "w", host: "h", lease_ms: 60_000, count: 1, queues: null, task: null });
    await store.appendLogs([
      {
        id: 1,
        token: 1,
        beats: 1,
        chunks: [{ start: 0, bytes: 1, data: new Uint8Array([1]) }],
        head_bytes: 10,
        keep_from: 0,
      },
    ]);
    await store.checkpoint([{ id: 1, token: 1, text: "half" }]);
    await store.cancel([2], null);
    await store.close();
    const database = new Database(path);
    database.run(
      `UPDATE jobs SET state = 'failed', finished_at_ms = 1, holder = NULL, expires_at_ms = NULL WHERE id = 1`,
    );
    database.run("INSERT INTO freeing VALUES (1, 0)");
    database.close();
    expect(owned().rows).toBeGreaterThan(5);
    store = await openSqlite(path, { clock: systemClock, random: systemRandom });
    const query = { states: ["failed", "cancelled"] as const, older_than_ms: 0, limit: 10 };
    expect((await store.prune(query)).count).toBe(2);
    expect(owned().rows).toBe(0);
    // And from here on links are followed again.
    const [again] = await store.enqueue([newJob({ input: new Uint8Array([1]) })]);
    expect(again?.id).toBe(3);
    expect((await store.diagnose()).filter(({ level }) => level === "error")).toEqual([]);
  });
});

describe("a bulk enqueue that says how long it will hold the lock", () => {
  async function* batch() {
    yield [newJob()];
  }

  test("prolongs the leases that would end before, and no others", async () => {
    await store.enqueue([newJob(), newJob(), newJob()]);
    const request = { holder: "w", host: "h", count: 1, queues: null, task: null };
    for (const lease_ms of [3_000, 3_000, 600_000]) await store.acquire({ ...request, lease_ms });
    const database = new Database(path);
    database.run("UPDATE jobs SET expires_at_ms = 1 WHERE id = 2");
    const [, , long] = database.query("SELECT expires_at_ms FROM jobs ORDER BY id").values().flat();
    const before_ms = Date.now();
    await store.enqueueAll(batch(), { hold_ms: 60_000 });
    const [short, over, same] = database.query("SELECT expires_at_ms FROM jobs ORDER BY id").values().flat();
    database.close();
    expect(short).toBeGreaterThanOrEqual(before_ms + 60_000);
    expect([over, same]).toEqual([1, long]);
  });
});
