/**
 * A year of schedules by the compiled program: ten watchdogs at a time, as cron starts them, and five workers, many of
 * which are killed in the middle of it, while the clock moves on by days and is set back by an hour now and then. Each
 * time becomes one job, none is missed, and all of them get done.
 *
 * PostgreSQL has a clock of its own that a test can set. With SQLite it is the machine's: libfaketime shows the processes
 * another one, and where it is not installed that half is left out.
 */

import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { timesAhead, timesOf } from "../../src/recovery/schedule_times.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { Chance } from "../sim/chance.ts";
import { newSchema } from "../support/postgres.ts";
import { BINARY, Program, until } from "../support/process.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** With a leap day, and both changes to and from daylight saving time. */
const YEAR = { from_ms: Date.UTC(2032, 0, 1), to_ms: Date.UTC(2033, 0, 1) };
const SCHEDULES: readonly (readonly [name: string, ...when: string[]])[] = [
  ["night", "--cron", "30 2 * * *", "--tz", "Europe/Berlin"],
  ["twice", "--cron", "0 */12 * * *", "--tz", "America/New_York"],
  ["leap", "--cron", "0 12 29 2 *", "--tz", "Asia/Tokyo"],
  ["month", "--cron", "0 0 1 * *", "--tz", "UTC"],
  ["every", "--every", "36h"],
];
const [WATCHDOGS, WORKERS] = [10, 5];

interface Engine {
  store: Store;
  /** What `--store` says. */
  location: string;
  folder: string;
  env: Record<string, string>;
  setClock(now_ms: number): Promise<void>;
  dispose(): Promise<void>;
}

const clearing: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const clear of clearing) await clear();
});

const newFolder = () => mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "lease-year-"));

async function onPostgres(): Promise<Engine> {
  const [schema, folder] = [await newSchema(), newFolder()];
  const store = await openPostgres(schema.url, { clock: systemClock, random: systemRandom });
  const dispose = async () => {
    await store.close();
    await schema.drop();
    rmSync(folder, { recursive: true, force: true });
  };
  return { store, location: schema.url, folder, env: {}, setClock: (now_ms) => schema.setClock(now_ms), dispose };
}

async function onSqlite(library: string): Promise<Engine> {
  const folder = newFolder();
  const location = join(folder, "lease.db");
  const store = await openSqlite(location, { clock: systemClock, random: systemRandom });
  const shown = join(folder, "now");
  const setClock = async (now_ms: number) => {
    const at = new Date(now_ms).toISOString();
    writeFileSync(`${shown}.new`, `${at.slice(0, 10)} ${at.slice(11, 19)}\n`);
    renameSync(`${shown}.new`, shown);
  };
  const env = {
    LD_PRELOAD: library,
    FAKETIME_TIMESTAMP_FILE: shown,
    FAKETIME_NO_CACHE: "1",
    FAKETIME_DONT_FAKE_MONOTONIC: "1",
    DONT_FAKE_MONOTONIC: "1",
    NO_FAKE_STAT: "1",
    TZ: "UTC",
  };
  const dispose = async () => {
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  };
  return { store, location, folder, env, setClock, dispose };
}

const LIBRARIES = "/usr/lib";
const LIBFAKETIME = readdirSync(LIBRARIES)
  .map((machine) => join(LIBRARIES, machine, "faketime/libfaketimeMT.so.1"))
  .find((path) => existsSync(path));
if (LIBFAKETIME === undefined) console.warn("SKIPPED: a year on SQLite, because libfaketime is not installed");

class Year {
  readonly #engine: Engine;
  readonly #chance: Chance;
  readonly #workers: Program[] = [];
  now_ms = YEAR.from_ms;
  killed = 0;

  constructor(engine: Engine, chance: Chance) {
    this.#engine = engine;
    this.#chance = chance;
  }

  lease(...words: string[]): Program {
    const { location, folder, env } = this.#engine;
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("LEASE_"));
    const [command = "", ...rest] = words;
    const all = { ...(Object.fromEntries(inherited) as Record<string, string>), ...env, NO_COLOR: "1", TMPDIR: folder };
    return new Program([BINARY, command, "--store", location, ...rest], { env: all, cwd: folder });
  }

  /** By up to a month, or back by an hour. */
  async moveClock(): Promise<void> {
    this.now_ms += this.#chance.of(0.2) ? -HOUR_MS : this.#chance.between(DAY_MS, 30 * DAY_MS);
    await this.#engine.setClock(this.now_ms);
  }

  /** Ten watchdogs at once, of which some don't get far. */
  async look(): Promise<void> {
    const dogs = Array.from({ length: WATCHDOGS }, () => this.lease("watchdog", "--once"));
    for (const dog of dogs) {
      if (!this.#chance.of(0.4)) continue;
      // Some before they have opened the store, some when they are done with it.
      await Bun.sleep(this.#chance.between(0, 20));
      if (!dog.over) this.#kill(dog);
    }
    for (const { code, stderr } of await Promise.all(dogs.map(({ ended }) => ended))) {
      if (code !== 137) expect({ code, stderr }).toEqual({ code: 0, stderr: expect.not.stringContaining("error") });
    }
  }

  /** There are five again, after one was perhaps killed. */
  work(): void {
    const victim = this.#workers.length > 0 && this.#chance.of(0.4) ? this.#chance.pick(this.#workers) : null;
    if (victim !== null && !victim.over) this.#kill(victim);
    const left = this.#workers.filter((worker) => worker !== victim && !worker.over);
    this.#workers.splice(0, this.#workers.length, ...left);
    while (this.#workers.length < WORKERS) this.#workers.push(this.lease("worker", "-j", "2", "--quiet"));
  }

  #kill(program: Program): void {
    program.signal("SIGKILL");
    this.killed += 1;
  }

  async end(): Promise<void> {
    for (const worker of this.#workers) if (!worker.over) worker.signal("SIGKILL");
    await Promise.all(this.#workers.map(({ ended }) => ended));
  }
}

async function liveThrough(engine: Engine): Promise<void> {
  const { store } = engine;
  const year = new Year(engine, new Chance(Number(process.env["SIM_SEED"] ?? 16)));
  clearing.push(async () => {
    await year.end();
    await engine.dispose();
  });
  await engine.setClock(year.now_ms);
  const flags = "--overlap queue --catch-up all --retries 99 --lease 30d -- true".split(" ");
  for (const [name, ...when] of SCHEDULES) {
    const { code, stderr } = await year.lease("schedule", name, ...when, ...flags).ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  }
  const set = await store.schedules();
  while (year.now_ms < YEAR.to_ms) {
    await year.moveClock();
    year.work();
    await year.look();
  }
  expect((await year.lease("watchdog", "--once").ended).code).toBe(0);
  await until("all jobs are done", async () => (await store.backlog({ queues: null, task: null })).running === 0);
  const made = new Map<string, string[]>(SCHEDULES.map(([name]) => [name, []]));
  const jobs = await store.list({ limit: 10_000, newest_first: false });
  for (const { env } of jobs) made.get(env["LEASE_SCHEDULE"] as string)?.push(env["LEASE_SCHEDULED_AT"] as string);
  for (const schedule of set) {
    const all = timesAhead(await timesOf(schedule), schedule.set_at_ms, 3_000);
    const due = all.filter((at_ms) => at_ms <= year.now_ms).map((at_ms) => new Date(at_ms).toISOString());
    expect(made.get(schedule.name)?.toSorted()).toEqual(due);
  }
  expect(jobs.length).toBeGreaterThan(1_300);
  expect(new Set(jobs.map(({ state }) => state.name))).toEqual(new Set(["completed"]));
  expect(year.killed).toBeGreaterThan(50);
}

describe("a year of watchdogs and workers that are killed", () => {
  test(
    "makes one job for each time, and misses none, on PostgreSQL",
    async () => liveThrough(await onPostgres()),
    240_000,
  );

  test.skipIf(LIBFAKETIME === undefined)(
    "makes one job for each time, and misses none, on SQLite",
    async () => liveThrough(await onSqlite(LIBFAKETIME as string)),
    240_000,
  );
});
