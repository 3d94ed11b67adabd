/** A store from elsewhere: what is in its schema beside what the migrations make is refused by name. */

import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { platform } from "#platform";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { schemaOf } from "../../src/store/sqlite/exact_schema.ts";
import { openSqlite, openSqliteInbox } from "../../src/store/sqlite/open.ts";
import { quickEnqueue, SCHEMA_TEXT, SCHEMA_VERSION } from "../../src/store/sqlite/quick_enqueue.ts";
import { MIGRATIONS } from "../../src/store/sqlite/schema.ts";
import { newJob } from "../support/jobs.ts";
import { asIfBuilt } from "../support/built.ts";

asIfBuilt();

const OPTIONS = { clock: systemClock, random: systemRandom };
let folder: string;
let path: string;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "lease-schema-"));
  path = join(folder, "lease.db");
  await (await openSqlite(path, OPTIONS)).close();
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function change(...statements: string[]): void {
  const database = new Database(path);
  for (const sql of statements) database.run(sql);
  database.run("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
}

/** In the bytes of the file, as no engine would let us. */
function patch(from: string, to: string): void {
  expect(to.length).toBe(from.length);
  change();
  const bytes = readFileSync(path);
  expect(bytes.includes(from)).toBe(true);
  for (let at = bytes.indexOf(from); at !== -1; at = bytes.indexOf(from, at + 1)) bytes.write(to, at);
  writeFileSync(path, bytes);
}

test("many jobs at once leave the schema as it was, written or refused, and the next is counted as ever", async () => {
  const store = await openSqlite(path, OPTIONS);
  const some = Array.from({ length: 250 }, () => newJob({}));
  async function* refused() {
    yield some;
    yield [newJob({ argv: [] })];
  }
  async function* written() {
    yield some;
  }
  await store.enqueueAll(refused()).catch(() => {});
  expect(await store.counts()).toEqual([]);
  await store.enqueueAll(written());
  await store.enqueue([newJob({})]);
  expect(await store.counts()).toMatchObject([{ state: "pending", count: 251 }]);
  await store.close();
  const files = platform.quickFiles();
  if (files !== null) expect(quickEnqueue(files, path, newJob({}), 1)).toBe(252);
});

async function refusal(): Promise<unknown> {
  const files = platform.quickFiles();
  if (files !== null) expect(quickEnqueue(files, path, newJob({}), 1)).toBeNull();
  const inbox: unknown = await openSqliteInbox(path, OPTIONS).catch((error: unknown) => error);
  const store: unknown = await openSqlite(path, OPTIONS).catch((error: unknown) => error);
  expect(String(store)).toBe(String(inbox));
  return store;
}

describe("a schema that is ours", () => {
  test("is what the migrations make, step by step or at once", () => {
    const database = new Database(path);
    expect(database.query(`SELECT ${SCHEMA_TEXT} AS text`).get()).toEqual({ text: schemaOf(SCHEMA_VERSION) });
    database.close();
    expect(new Set(MIGRATIONS.map((_, index) => schemaOf(index + 1))).size).toBe(MIGRATIONS.length);
  });

  test.each([
    ["after VACUUM", ["VACUUM"]],
    ["after ANALYZE", ["ANALYZE"]],
  ])("%s is taken", async (_how, statements) => {
    change(...statements);
    const store = await openSqlite(path, OPTIONS);
    expect(await store.enqueue([newJob({})])).toMatchObject([{ id: 1 }]);
    await store.close();
  });

  test("as an earlier lease wrote it, with other blanks, is taken", async () => {
    patch("STRICT, WITHOUT ROWID", "STRICT ,WITHOUT ROWID");
    const store = await openSqlite(path, OPTIONS);
    expect(await store.enqueue([newJob({})])).toMatchObject([{ id: 1 }]);
    await store.close();
  });

  test("can't be changed by what is in it: the engine refuses, and trusts no function in it", async () => {
    const database = platform.openSqlite(path);
    database.exec("PRAGMA writable_schema = ON");
    expect(() => database.exec("UPDATE sqlite_schema SET sql = NULL")).toThrow(/may not be modified/);
    database.close();
  });
});

describe("a schema that is not ours is refused by name", () => {
  const LOOP = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
  test.each([
    [
      "a trigger",
      "trigger evil on jobs",
      [`CREATE TRIGGER evil AFTER INSERT ON jobs BEGIN UPDATE jobs SET argv = '["touch","/tmp/x"]'; END`],
    ],
    [
      "a trigger that never ends",
      "trigger evil on meta",
      [`CREATE TRIGGER evil BEFORE UPDATE ON meta BEGIN ${LOOP}; END`],
    ],
    ["a view", "view v", ["CREATE VIEW v AS SELECT 1"]],
    ["a view in the place of a table", "view learned", ["DROP TABLE learned", `CREATE VIEW learned AS ${LOOP}`]],
    ["a table", "table t", ["CREATE TABLE t (x)"]],
    ["an index", "index i on jobs", ["CREATE INDEX i ON jobs (cwd)"]],
    ["a generated column", "a changed table jobs", ["ALTER TABLE jobs ADD COLUMN g TEXT AS (upper(argv))"]],
    [
      "a text that looks like another when its blanks are gone",
      "a changed index jobs_due on jobs",
      ["DROP INDEX jobs_due", "CREATE INDEX jobs_due ON jobs (run_at_ms, queue) WHERE state = ' scheduled'"],
    ],
    ["less", "no index jobs_due", ["DROP INDEX jobs_due"]],
  ])("%s: %s", async (_what, name, statements) => {
    change(...statements);
    expect(await refusal()).toMatchObject({ code: "store_schema", message: expect.stringContaining(name) });
  });

  test.each([
    ["a table without its checks", "a changed table checkpoints", "text TEXT NOT NULL", "text TEXT         "],
    ["other statistics", "table sqlite_stat1", "sqlite_stat1(tbl,idx,stat)", "sqlite_stat1(tbl,idx,argv)"],
  ])("%s: %s", async (_what, name, from, to) => {
    change("ANALYZE");
    patch(from, to);
    expect(await refusal()).toMatchObject({ code: "store_schema", message: expect.stringContaining(name) });
  });
});
