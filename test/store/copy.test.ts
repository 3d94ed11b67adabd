/** Copies between stores of either kind: everything, in both directions, begun again after any interruption. */

import { Database } from "bun:sqlite";
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LeaseError } from "../../src/core/errors.ts";
import type { Schedule } from "../../src/core/schedule.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { copyStore } from "../../src/store/copy/copy.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { KINDS, type Transfer } from "../../src/store/copy/transfer.ts";
import { acquireRequest, audit, only, Subject } from "../contract/subject.ts";
import { end, newJob } from "../support/jobs.ts";
import { newSchema } from "../support/postgres.ts";
import { workerRecord } from "../support/workers.ts";

setDefaultTimeout(30_000);

const clearing: (() => unknown)[] = [];
afterAll(async () => {
  for (const clear of clearing.toReversed()) await clear();
});

async function sqlite(): Promise<Store> {
  const folder = mkdtempSync(join(tmpdir(), "lease-copy-"));
  clearing.push(() => rmSync(folder, { recursive: true, force: true }));
  const store = await openSqlite(join(folder, "lease.db"), { clock: systemClock, random: systemRandom });
  clearing.push(() => store.close());
  return store;
}

async function postgres(): Promise<Store> {
  const schema = await newSchema();
  clearing.push(() => schema.drop());
  await (await openPostgres(schema.url, { clock: systemClock, random: systemRandom })).close();
  // By a role that may read and write, and no more.
  const store = await openPostgres(await schema.grant(), { clock: systemClock, random: systemRandom });
  clearing.push(() => store.close());
  return store;
}

const ENGINES = { SQLite: sqlite, PostgreSQL: postgres };
const WAYS = Object.keys(ENGINES).flatMap((from) =>
  Object.keys(ENGINES).map((to) => [from, to] as [keyof typeof ENGINES, keyof typeof ENGINES]),
);

/** Something of everything. */
async function fill(store: Store): Promise<void> {
  const s = new Subject({ store, slack_ms: 0 } as never);
  const done = await s.granted({ key: "k", task: "t", input: new Uint8Array([1, 255, 10]), env: { Ä: "\u{1F980}" } });
  const { id, token } = done.job;
  const chunk = (start: number) => ({ start, bytes: 3, data: new Uint8Array([0, start, 255]) });
  await store.appendLogs([{ id, token, chunks: [chunk(0), chunk(3)], head_bytes: 0, keep_from: 0 }]);
  await store.checkpoint([{ id, token, text: 'half "way" \\ \n{},NULL' }]);
  await store.extend([{ id, token, expires_in_ms: 60_000, beat_age_ms: 0, beats: 7, progress: 12.5, message: "ü" }]);
  await s.settle(done, end("success", { output: "a\0b", last_line: "bye\0" }));
  const failed = await s.granted({ settings: { retries: 0, lease_ms: "auto" } });
  const request = await s.ending(failed.job, end("exit"), { audit: audit(), gaps: { 5: 2 } });
  await store.settle([request]);
  const running = await s.granted({ argv: ["NULL", "", "{}", '"'] });
  const beat = { expires_in_ms: 600_000, beat_age_ms: 0, beats: 3 };
  await store.extend([{ id: running.job.id, token: 1, ...beat }]);
  const [blocked] = await s.enqueue({ after: [running.job.id] }, { delay_ms: 60_000, priority: -3 }, { queue: "ü" });
  await store.setPaused(["mail", "ü"], true);
  await s.finished("cancelled", { queue: "gone", priority: 9 });
  await store.prune({ older_than_ms: 0, states: ["cancelled"], limit: 9 });
  expect(blocked).toBe(running.job.id + 1);
}

async function rowsOf(store: Store): Promise<unknown> {
  const transfer = await store.transfer();
  const rows = await Promise.all(KINDS.map((kind) => transfer.read(kind, null, 99)));
  return rows.map((all) => all.map((row) => row.map((cell) => (cell instanceof Uint8Array ? [...cell] : cell))));
}

describe.each(WAYS)("from %s to %s", (from_engine, to_engine) => {
  test("every job and all that belongs to it arrive as they were, and life goes on there", async () => {
    const [from, to] = [await ENGINES[from_engine](), await ENGINES[to_engine]()];
    await fill(from);
    const before = await rowsOf(from);
    const { counts } = await copyStore({ from, to, force: false });
    expect(counts).toMatchObject({
      jobs: 6,
      inputs: 1,
      attempts: 3,
      checkpoints: 2,
      logs: 2,
      dependencies: 1,
      queues: 2,
      learned: 1,
    });
    expect(await rowsOf(to)).toEqual(before as never);
    expect(await rowsOf(from)).toEqual(before as never);

    const ids = [1, 2, 3, 4, 5, 6];
    expect(await to.jobs(ids)).toEqual(await from.jobs(ids));
    for (const id of ids) expect(await to.attempts(id)).toEqual(await from.attempts(id));
    expect(await to.counts()).toEqual(await from.counts());
    expect(await to.retryCounts()).toEqual(await from.retryCounts());
    expect(await to.pausedQueues()).toEqual(["mail", "ü"]);
    expect(await to.learned(["queue default"])).toEqual(await from.learned(["queue default"]));

    // The id of a job that was deleted does not come back, and the end of a job frees those that wait for it.
    const [running] = (await to.jobs([3])) as [NonNullable<Awaited<ReturnType<Store["jobs"]>>[number]>];
    const s = new Subject({ store: to, slack_ms: 0 } as never);
    expect(await to.settle([await s.ending(running, end("success"))])).toEqual([{ status: "applied" }]);
    expect(await s.stateOf(4)).toBe("pending");
    expect(only(await to.enqueue([newJob()])).id).toBe(8);
    expect(only(await to.acquire(acquireRequest({ queues: ["default"] }))).job.id).toBe(4);
  });
});

/** Something of all that plans and bounds jobs. */
async function plan(store: Store): Promise<void> {
  const s = new Subject({ store, slack_ms: 0 } as never);
  await store.setLimit("few", { most: 2, rate: { count: 5, per_ms: 3_600_000 } });
  await store.setLimit("none", { most: 0, rate: null });
  const bounded = { limits: ["few"], needs: { gpu: 1 } };
  await s.enqueue(bounded, bounded);
  const request = acquireRequest({ queues: ["default"], have: { gpu: ["0", "1"] } });
  const [grant] = await store.acquire(request);
  expect(grant?.held).toEqual({ gpu: ["0"] });
  const job = newJob({ argv: ["backup"], env: { A: "1" }, input: new Uint8Array([49, 255]), ...bounded });
  const when = { name: "nightly", cron: "0 3 * * *", every_ms: null, zone: "Europe/Berlin", jitter_ms: 5 };
  await store.setSchedule({ ...when, overlap: "queue", catch_up: "all", job }, 7);
  const schedule = only(await store.schedules());
  await store.fire(schedule, [{ at_ms: 7, job }], 9);
  await store.setSchedule({ ...when, name: "hourly", overlap: "skip", catch_up: "none", job }, 7);
  await store.pauseSchedule("hourly", true, null);
  await store.setRetention({ keep_checkpoints: 7, checkpoints: false });
}

describe.each(WAYS)("what is planned, from %s to %s,", (from_engine, to_engine) => {
  test("goes on there as it was: limits and what counts for them, needs, schedules, retention", async () => {
    const [from, to] = [await ENGINES[from_engine](), await ENGINES[to_engine]()];
    await plan(from);
    const { counts } = await copyStore({ from, to, force: true });
    expect(counts).toMatchObject({ jobs: 3, limits: 2, starts: 1, schedules: 2, fired: 1 });
    expect(await to.limits()).toEqual(await from.limits());
    expect(await to.holdings()).toEqual(await from.holdings());
    expect(await to.schedules()).toEqual(await from.schedules());
    expect(await to.retention()).toEqual({ keep_checkpoints: 7, checkpoints: false });
    // A time that was fired there is not fired here.
    const first = (await to.schedules()).find(({ name }) => name === "nightly") as Schedule;
    expect(await to.fire(first, [{ at_ms: 7, job: first.job }], 11)).toBe(0);
    const again = acquireRequest({ queues: ["default"], have: { gpu: ["0", "1"] }, count: 9 });
    expect((await to.acquire(again)).map(({ held }) => held)).toEqual([{ gpu: ["1"] }]);
  });
});

describe("a copy", () => {
  test("of an empty store is an empty store", async () => {
    const { counts } = await copyStore({ from: await sqlite(), to: await postgres(), force: false });
    expect(Object.values(counts).every((count) => count === 0)).toBe(true);
  });

  test("of more rows than one page has them all", async () => {
    const [from, to] = [await sqlite(), await postgres()];
    await from.enqueue(Array.from({ length: 2_500 }, (_, index) => newJob({ argv: [String(index)] })));
    expect((await copyStore({ from, to, force: false })).counts.jobs).toBe(2_500);
    expect(await to.counts()).toEqual([{ queue: "default", state: "pending", count: 2_500 }]);
  });

  test("that was interrupted anywhere is begun again by doing the same again", async () => {
    const [from, to] = [await sqlite(), await postgres()];
    await fill(from);
    for (const stop_at of ["write attempts", "write logs", "finish", "read learned"]) {
      const failing = interrupted(to, stop_at);
      await expect(copyStore({ from, to: failing, force: false })).rejects.toThrow("interrupted");
    }
    await copyStore({ from, to, force: false });
    expect(await rowsOf(to)).toEqual((await rowsOf(from)) as never);
  });

  test("of a row that the target refuses says whose it is and what to do", async () => {
    const [lite, schema] = [await sqlite(), await newSchema()];
    clearing.push(() => schema.drop());
    const pg = await openPostgres(schema.url, { clock: systemClock, random: systemRandom });
    clearing.push(() => pg.close());
    await lite.enqueue([newJob(), newJob(), newJob()]);
    using database = new Database(lite.location);
    database.run("UPDATE jobs SET token = 2147483648 WHERE id = 2");
    const refused = copyStore({ from: lite, to: pg, force: false });
    await expect(refused).rejects.toMatchObject({
      code: "store_failed",
      message: expect.stringMatching(/^job 2 can't be copied to postgres:.*out of range.*`lease prune`/),
    });
    database.run("UPDATE jobs SET token = 0");
    await copyStore({ from: lite, to: pg, force: false });
    await schema.sql.unsafe(`UPDATE ${schema.name}.jobs SET lease_ms = -1 WHERE id = 3`);
    const back = copyStore({ from: pg, to: await sqlite(), force: false });
    await expect(back).rejects.toThrow(/^job 3 can't be copied to \/.*CHECK constraint failed/);
  });

  test("is refused into a store that holds jobs, or an unfinished copy of another, or into itself", async () => {
    const [from, other, to] = [await sqlite(), await sqlite(), await postgres()];
    await fill(from);
    await other.enqueue([newJob()]);
    await expect(copyStore({ from, to: other, force: true })).rejects.toThrow("holds jobs already");
    const [limited, planned] = [await sqlite(), await sqlite()];
    await limited.setLimit("few", { most: 2, rate: null });
    await expect(copyStore({ from, to: limited, force: true })).rejects.toThrow("holds limits already");
    await plan(planned);
    for (const { id } of await planned.list({ limit: 9, newest_first: true })) await planned.cancel([id], null);
    using database = new Database(planned.location);
    database.run("DELETE FROM jobs");
    await expect(copyStore({ from, to: planned, force: true })).rejects.toThrow("holds schedules already");
    // Paused by somebody so that nothing of the copy starts: it would be forgotten.
    const paused = await sqlite();
    await paused.setPaused(["q"], true);
    await expect(copyStore({ from, to: paused, force: true })).rejects.toThrow("holds paused queues already");
    expect(await paused.pausedQueues()).toEqual(["q"]);
    await expect(copyStore({ from, to: from, force: true })).rejects.toThrow("onto itself");
    await expect(copyStore({ from, to: interrupted(to, "finish"), force: true })).rejects.toThrow("interrupted");
    await expect(copyStore({ from: other, to, force: true })).rejects.toThrow("an unfinished copy of");
  });

  test("is refused while workers are live on either side, unless forced", async () => {
    const [from, to] = [await sqlite(), await sqlite()];
    await from.saveWorker(workerRecord());
    await expect(copyStore({ from, to, force: false })).rejects.toThrow("live workers (w1)");
    await expect(copyStore({ from: to, to: from, force: false })).rejects.toThrow("live workers (w1)");
    await copyStore({ from, to, force: true });
  });

  test("that differs from its source is told, and not taken for one", async () => {
    const [from, to] = [await sqlite(), await postgres()];
    await fill(from);
    const careless = replacing(to, (transfer) => ({
      write: (kind, rows) => transfer.write(kind, kind === "logs" ? rows.slice(1) : rows),
    }));
    const error = await copyStore({ from, to: careless, force: false }).catch((reason: unknown) => reason);
    if (!(error instanceof LeaseError)) throw new Error(`expected a LeaseError, got ${String(error)}`);
    expect([error.exit_code, error.message]).toEqual([125, expect.stringContaining("differs in its logs")]);
    expect(await (await to.transfer()).mark()).toBe(from.location);
  });

  test("of a store that is damaged where it counts its ids says so, and what to do", async () => {
    const store = await sqlite();
    await fill(store);
    await store.close();
    zeroTable(store.location, "sqlite_sequence");
    const from = await openSqlite(store.location, { clock: systemClock, random: systemRandom });
    clearing.push(() => from.close());
    const error = await copyStore({ from, to: await sqlite(), force: true }).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: "store_corrupt", message: expect.stringContaining("restore a copy") });
  });
});

/** Nothing but zeros where the table begins. */
function zeroTable(path: string, name: string): void {
  const database = new Database(path);
  database.run("PRAGMA wal_checkpoint(TRUNCATE)");
  const page = database.query<{ root: number }, [string]>("SELECT rootpage AS root FROM sqlite_master WHERE name = ?");
  const { root = 0 } = page.get(name) ?? {};
  const size = database.query<{ page_size: number }, []>("PRAGMA page_size").get()?.page_size ?? 0;
  database.close();
  const file = openSync(path, "r+");
  writeSync(file, new Uint8Array(size), 0, size, (root - 1) * size);
  closeSync(file);
}

/** The store with some of its transfer's verbs replaced. */
function replacing(store: Store, change: (transfer: Transfer) => Partial<Transfer>): Store {
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (name !== "transfer") return typeof value === "function" ? value.bind(target) : value;
      return async () => {
        const transfer = await target.transfer();
        const changed = change(transfer) as Record<string, unknown>;
        return new Proxy(transfer, {
          get(own, verb) {
            const own_verb: unknown = Reflect.get(own, verb, own);
            return changed[String(verb)] ?? (typeof own_verb === "function" ? own_verb.bind(own) : own_verb);
          },
        });
      };
    },
  });
}

function interrupted(store: Store, at: string): Store {
  const [verb = "", stop_kind] = at.split(" ");
  return replacing(store, (transfer) => ({
    [verb]: async (kind: unknown, ...rest: unknown[]) => {
      if (stop_kind === undefined || kind === stop_kind) throw new Error("interrupted");
      return (Reflect.get(transfer, verb) as (...args: unknown[]) => unknown).call(transfer, kind, ...rest);
    },
  }));
}

describe("what no enqueue would take", () => {
  test.each([
    ["jobs", "UPDATE jobs SET key = printf('%.*c', 2000, 'k')", "job 1 can't be copied", "its key is too long"],
    [
      "inputs",
      "INSERT INTO inputs VALUES (1, zeroblob(2000000))",
      "a row of inputs (job_id 1)",
      "its data is too long",
    ],
  ])("in %s is not copied, and named", async (_kind, sql, whose, why) => {
    const [from, to] = [await sqlite(), await sqlite()];
    await from.enqueue([newJob({})]);
    const database = new Database(from.location);
    database.run(sql);
    database.close();
    const refused: unknown = await copyStore({ from, to, force: false }).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: "store_failed" });
    expect(String(refused)).toContain(whose);
    expect(String(refused)).toContain(why);
  });
});
