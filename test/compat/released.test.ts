/**
 * Stores as every released schema left them, made by the lease of then (scripts/store_fixture.ts): each opens, keeps every
 * job and all that belongs to it, passes the audit, and its jobs go on. A newer one is refused, and left as it is.
 */

import { Database } from "bun:sqlite";
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHash } from "node:crypto";
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { decodeChunk } from "../../src/runner/log/chunk.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import { MIGRATIONS as POSTGRES_STEPS } from "../../src/store/postgres/schema.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { MIGRATIONS as SQLITE_STEPS } from "../../src/store/sqlite/schema.ts";
import type { Store } from "../../src/store/store.ts";
import { acquireRequest, breaches, codeOf } from "../contract/subject.ts";
import { ManualClock } from "../support/clock.ts";
import { end, newJob } from "../support/jobs.ts";
import { newSchema, type Schema } from "../support/postgres.ts";
import { transition, isRefusal } from "../../src/core/transition.ts";

// The first test starts the server.
setDefaultTimeout(60_000);

const STORES = join(import.meta.dir, "stores");
const read = (name: string) => Bun.gunzipSync(new Uint8Array(readFileSync(join(STORES, name))));
const versionsBefore = (steps: readonly string[]) => steps.slice(1).map((_, index) => index + 1);

/** After all that is in them, and before what is delayed by a day. */
const NOW_MS = Date.UTC(2026, 10, 19, 12);

const folder = mkdtempSync(join(tmpdir(), "lease-released-"));
const schemas: Schema[] = [];
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  for (const schema of schemas) await schema.drop();
});

let copies = 0;
function sqliteFile(version: number): string {
  const path = join(folder, `${++copies}.db`);
  writeFileSync(path, read(`sqlite_${version}.db.gz`));
  chmodSync(path, 0o600);
  return path;
}

const openFile = (path: string) =>
  openSqlite(path, { clock: new ManualClock({ wall_ms: NOW_MS }), random: systemRandom, trust: true });

interface Dump {
  steps: readonly string[];
  rows: Readonly<Record<string, readonly Record<string, unknown>[]>>;
}

/** Lines may be broken elsewhere, and comments be said otherwise. */
const unspaced = (sql: string) =>
  sql
    .replaceAll(/--.*$/gm, "")
    .replaceAll(/\s+/g, " ")
    .replaceAll(/\s*([(),;])\s*/g, "$1")
    .trim();

const dumpOf = (version: number) => JSON.parse(new TextDecoder().decode(read(`postgres_${version}.json.gz`))) as Dump;

/** As it was then: by the steps of then, with the rows of then. */
async function restored(version: number): Promise<Schema> {
  const { steps, rows } = dumpOf(version);
  const schema = await newSchema();
  schemas.push(schema);
  const here = (sql: string) => sql.replaceAll(/\blease\./g, `${schema.name}.`);
  await schema.sql.unsafe(`CREATE SCHEMA ${schema.name}`);
  for (const step of steps) await schema.sql.unsafe(here(step));
  await schema.sql.unsafe("SET session_replication_role = replica");
  for (const [table, all] of Object.entries(rows)) {
    await schema.sql.unsafe(here(`DELETE FROM lease.${table}`));
    if (all.length === 0) continue;
    const names = Object.keys(all[0] ?? {}).join(", ");
    const given = table === "jobs" || table === "checkpoints" ? "OVERRIDING SYSTEM VALUE" : "";
    const from = here(`json_populate_recordset(NULL::lease.${table}, $1::text::json)`);
    await schema.sql.unsafe(here(`INSERT INTO lease.${table} (${names}) ${given} SELECT ${names} FROM ${from}`), [
      JSON.stringify(all),
    ]);
  }
  for (const table of ["jobs", "checkpoints"]) {
    const last = rows[table]?.reduce((most, { id }) => Math.max(most, Number(id)), 0) ?? 0;
    await schema.sql.unsafe(here(`SELECT setval(pg_get_serial_sequence('lease.${table}', 'id'), ${last + 1}, false)`));
  }
  await schema.sql.unsafe("SET session_replication_role = DEFAULT");
  return schema;
}

const STATES = [
  "default completed",
  "default failed",
  "mail completed",
  "lost running",
  "later pending",
  "later blocked",
  "later scheduled",
  "later cancelled",
];

/** What must hold of it, whatever it was before. */
async function isWhole(store: Store): Promise<void> {
  const jobs = await store.list({ limit: 99, newest_first: false });
  expect(jobs.map(({ queue, state }) => `${queue} ${state.name}`)).toEqual(STATES);
  expect(jobs.filter(({ damaged }) => damaged !== undefined)).toEqual([]);
  const [first, second, , lost] = jobs;
  expect(first).toMatchObject({ task: "release", key: "k1", token: 1, result: { cause: "success", exit_code: 0 } });
  const [whole] = await store.jobs([first?.id ?? 0]);
  expect(new TextDecoder().decode(whole?.input ?? undefined)).toBe("some input");
  const chunks = await store.logs({ job: first?.id ?? 0, attempt: 1, from: 0, limit: 100 });
  const printed = chunks.flatMap(decodeChunk).map(({ bytes }) => new TextDecoder().decode(bytes));
  expect(printed.join("")).toContain("2999\n3000\n");
  expect(second).toMatchObject({ token: 2, result: { cause: "exit", exit_code: 3 } });
  expect(await store.attempts(second?.id ?? 0)).toMatchObject([{ end: { exit_code: 3 } }, { end: { exit_code: 3 } }]);
  expect(await store.checkpoints({ job: second?.id ?? 0, limit: 9 })).toHaveLength(2);
  expect(lost).toMatchObject({ token: 1, state: { name: "running" } });
  expect(await store.pausedQueues()).toEqual(["quiet"]);
  expect(await breaches(store)).toEqual([]);
  const diagnosed = await store.diagnose();
  expect(diagnosed.filter(({ name, level }) => level !== "ok" && (name === "counts" || name === "integrity"))).toEqual(
    [],
  );
}

/** The lost job is found, all that is free runs, and what waited for it is free then. */
async function goesOn(store: Store): Promise<void> {
  const settle = async (cause: "success", ids: readonly number[]) => {
    for (const id of ids) {
      const [job = null] = await store.jobs([id]);
      if (job === null) throw new Error(`job ${id} is gone`);
      const event = { type: "settle", token: job.token, end: end(cause) } as const;
      const change = transition(job, event, { now_ms: await store.now(), random: () => 0.5 });
      if (isRefusal(change)) throw new Error(change.refused);
      const request = { id, token: job.token, change, process: null, audit: null };
      expect(await store.settle([request])).toEqual([{ status: "applied" }]);
    }
  };
  const [lease] = await store.expired({ grace_ms: 0, dead_holders: [], after: null, limit: 9 });
  expect(lease?.job.queue).toBe("lost");
  await settle("success", [lease?.job.id ?? 0]);
  const granted = (await store.acquire(acquireRequest({ count: 9 }))).map(({ job }) => job.id);
  expect(granted).toHaveLength(1);
  await settle("success", granted);
  const freed = (await store.acquire(acquireRequest({ count: 9 }))).map(({ job }) => job.argv.join(" "));
  expect(freed).toEqual(["echo blocked"]);
  const [added] = await store.enqueue([newJob()]);
  expect(added?.id).toBeGreaterThan(STATES.length);
  expect(await breaches(store)).toEqual([]);
}

test("there is one for every schema that was released", () => {
  const names = readdirSync(STORES).toSorted();
  expect(names).toEqual(
    [
      ...versionsBefore(SQLITE_STEPS).map((version) => `sqlite_${version}.db.gz`),
      ...versionsBefore(POSTGRES_STEPS).map((version) => `postgres_${version}.json.gz`),
    ].toSorted(),
  );
});

describe.each(versionsBefore(SQLITE_STEPS))("a SQLite store of schema %d", (version) => {
  test("opens whole, and its jobs go on", async () => {
    const path = sqliteFile(version);
    const store = await openFile(path);
    try {
      await isWhole(store);
      await goesOn(store);
    } finally {
      await store.close();
    }
  });
});

describe.each(versionsBefore(POSTGRES_STEPS))("a PostgreSQL store of schema %d", (version) => {
  test("opens whole, and its jobs go on; the steps that made it are the first of ours", async () => {
    expect(dumpOf(version).steps.map(unspaced)).toEqual(POSTGRES_STEPS.slice(0, version).map(unspaced));
    const schema = await restored(version);
    await schema.setClock(NOW_MS);
    const store = await openPostgres(schema.url, { clock: systemClock, random: systemRandom });
    try {
      await isWhole(store);
      await goesOn(store);
    } finally {
      await store.close();
    }
  });
});

describe("a store of a newer schema", () => {
  const digest = (path: string) => createHash("sha256").update(readFileSync(path)).digest("hex");

  test("is refused on SQLite, and not a byte of it is changed", async () => {
    const path = sqliteFile(SQLITE_STEPS.length - 1);
    const database = new Database(path);
    database.run(`PRAGMA user_version = ${SQLITE_STEPS.length + 1}`);
    database.run("PRAGMA wal_checkpoint(TRUNCATE)");
    database.close();
    const before = digest(path);
    expect(await codeOf(openFile(path))).toBe("store_newer");
    expect(digest(path)).toBe(before);
  });

  test("is refused on PostgreSQL", async () => {
    const schema = await restored(POSTGRES_STEPS.length - 1);
    await schema.sql.unsafe(
      `UPDATE ${schema.name}.meta SET value = '${POSTGRES_STEPS.length + 1}' WHERE name = 'version'`,
    );
    const opening = openPostgres(schema.url, { clock: systemClock, random: systemRandom });
    expect(await codeOf(opening)).toBe("store_newer");
    const [row] = await schema.sql.unsafe(`SELECT count(*)::int AS jobs FROM ${schema.name}.jobs`);
    expect(row?.["jobs"]).toBe(STATES.length);
  });
});
