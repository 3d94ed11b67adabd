/** `lease doctor`: what it finds, what it advises, and the settings it tells about. */

import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { LEASE, run, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();

interface Report {
  schema: number;
  healthy: boolean;
  findings: { name: string; level: string; value: string; advice: string | null }[];
  settings: { command: string | null; name: string; value: string | null; from: string; place: string | null }[];
}

async function doctor(place: Place, args: string[] = [], env: Record<string, string> = {}) {
  const { code, stdout, stderr } = await place.leaseWith({ env }, "doctor", "--json", ...args);
  expect(stderr).toBe("");
  const report = JSON.parse(stdout) as Report;
  const found = (name: string) => report.findings.filter((finding) => finding.name === name);
  const setting = (command: string | null, name: string) =>
    report.settings.find((other) => other.command === command && other.name === name);
  return { code, report, found, setting };
}

const write = (place: Place, text: string) => writeFileSync(join(place.folder, "lease.toml"), text, { mode: 0o600 });

/** A job that took its worker down, so that its lease is held by nobody. */
async function withDeadWorker(): Promise<Place> {
  const place = newPlace();
  await place.enqueue("-c", "kill -KILL $PPID");
  expect(await place.lease("worker", "--once", "--no-sweep", "--name", "gone")).toMatchObject({ code: "SIGKILL" });
  return place;
}

function change(place: Place, sql: string): void {
  const database = new Database(place.store);
  database.run(sql);
  database.close();
}

describe("a store that is well", () => {
  test("has all of its parts looked at, and the code says so", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    await place.work();
    const { code, report } = await doctor(place);
    expect(code).toBe(0);
    expect(report).toMatchObject({ schema: 1, healthy: true });
    const looked = report.findings.map(({ name, level }) => `${name} ${level}`);
    for (const name of ["config", "sqlite", "schema", "integrity", "permissions", "wal", "disk", "file system"]) {
      expect(looked).toContain(`${name} ok`);
    }
    for (const name of ["clock", "leases", "workers"]) expect(looked).toContain(`${name} ok`);
  });

  test("tells people the time as their clocks do, and programs in UTC", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    const { stdout } = await place.leaseWith({ env: { TZ: "Asia/Kolkata" } }, "doctor");
    const [, shown = ""] = /^ok +clock +(\S+ \S+)$/m.exec(stdout) ?? [];
    expect(shown).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/);
    const [utc] = (await doctor(place)).found("clock");
    const apart_ms = Date.parse(`${shown.replace(" ", "T")}+05:30`) - Date.parse(String(utc?.value));
    expect(Math.abs(apart_ms)).toBeLessThan(60_000);
  });

  test("is told so to people, in lines that fit the terminal's width and end with the settings", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    await place.work();
    const { code, stdout, stderr } = await place.lease("doctor");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/^ok +integrity +ok$/m);
    expect(stdout).toContain("\nall is well\n");
    expect(stdout).toMatch(/^worker\.slots +1 +default$/m);
    expect(stdout).not.toMatch(/ $/m);
  });
});

describe("what is wrong is named, with what to do about it:", () => {
  test("a lease whose holder is dead, and the worker that died", async () => {
    const place = await withDeadWorker();
    const { code, found } = await doctor(place);
    expect(code).toBe(0);
    expect(found("leases")).toEqual([
      {
        name: "leases",
        level: "warn",
        value: "1 held by dead workers (job 1)",
        advice: expect.stringContaining("lease watchdog --once"),
      },
    ]);
    expect(found("workers")).toContainEqual({
      name: "workers",
      level: "warn",
      value: expect.stringMatching(/^gone \(.*\) died without a word$/),
      advice: expect.stringContaining("lease watchdog --once"),
    });
    expect((await place.lease("watchdog", "--once")).code).toBe(0);
    expect((await doctor(place)).found("leases")).toMatchObject([{ level: "ok" }]);
  });

  test("a lease that ran out long ago is an error, because nobody sweeps", async () => {
    const place = await withDeadWorker();
    change(place, "UPDATE jobs SET expires_at_ms = expires_at_ms - 3600000");
    const { code, report, found } = await doctor(place);
    expect({ code, healthy: report.healthy }).toEqual({ code: 1, healthy: false });
    expect(found("leases")).toMatchObject([{ level: "error" }]);
    // The worst comes first.
    expect(report.findings[0]?.name).toBe("leases");
    expect((await place.lease("doctor")).stdout).toStartWith("ERROR  leases");
  });

  test("a worker that is not heard of any more", async () => {
    const place = await withDeadWorker();
    change(place, "UPDATE workers SET host = 'elsewhere', seen_at_ms = seen_at_ms - 600000");
    const { found } = await doctor(place);
    expect(found("workers")).toContainEqual({
      name: "workers",
      level: "warn",
      value: expect.stringMatching(/not heard of for 10m/),
      advice: expect.stringMatching(/^see whether pid \d+ on elsewhere lives/),
    });
  });

  test("queues that nobody serves, and paused ones in which jobs wait", async () => {
    const place = newPlace();
    await place.enqueue("-q", "gpu", "--", "true");
    await place.enqueue("-q", "mail", "--", "true");
    await place.lease("pause", "mail", "idle");
    const { code, found } = await doctor(place);
    expect(code).toBe(0);
    expect(found("queues").map(({ value, advice }) => [value, advice])).toEqual([
      ["1 job waits in queue gpu, and no worker serves it", "lease worker -q gpu"],
      ["1 job waits in queue mail, which is paused", "lease resume mail"],
    ]);
  });

  test("a clock that was set back since something was written", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    change(place, "UPDATE jobs SET created_at_ms = created_at_ms + 7200000");
    expect((await doctor(place)).found("clock")).toMatchObject([
      { level: "warn", value: expect.stringMatching(/^was set back: .* (?:2h|1h59m|1h60m) ahead$/) },
    ]);
  });

  test("a store that others can read", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    chmodSync(place.store, 0o644);
    expect((await doctor(place)).found("permissions")).toMatchObject([{ level: "warn" }]);
  });

  test("variables that look like settings and are none", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    await place.work();
    const { code, found } = await doctor(place, [], {
      LEASE_WORKER_SLOTZ: "3",
      LEASE_JOB_ID: "3",
      LEASE_WORKER_ID: "w",
    });
    expect(code).toBe(0);
    expect(found("environment")).toEqual([
      {
        name: "environment",
        level: "warn",
        value: "LEASE_WORKER_SLOTZ is not a setting",
        advice: "did you mean LEASE_WORKER_SLOTS?",
      },
    ]);
  });

  test.each([
    ['[worker]\nslots = "many"', 'lease.toml: worker.slots "many" is not a whole number'],
    ['[worker]\ndrain = "soon"', 'lease.toml: worker.drain "soon" is not a duration'],
    ['[worker]\nqueue = ["a", ""]', 'queue "" is not a name'],
    ['[worker]\nlease = "2s"\ninterval = "1s"', "interval must be less than half of lease"],
    ['[worker]\nlease = "10s"\nextension = "20s"', "extension must not be longer than lease"],
    ["[worker]\nmin = 5\nmax = 2", "lease.toml: worker.min 5 is more than --max 2"],
    ['[watchdog]\nevery = "10ms"', "every (between two sweeps) must be at least 1s"],
    ['[enqueue]\nbackoff = "1s..2s..3s"', 'lease.toml: enqueue.backoff "1s..2s..3s" has more than two ends'],
    ['[enqueue]\nlease = "1ms"', "lease must be at least 1s"],
    ['[enqueue]\nfatal_exit = "x"', 'lease.toml: enqueue.fatal_exit "x" is not a list of exit codes'],
    ['[enqueue]\nenv = ["NOT_SET_HERE"]', "lease.toml: enqueue.env NOT_SET_HERE is not set here"],
  ])("values that a command would refuse: %j", async (text, message) => {
    const place = newPlace();
    await place.enqueue("--", "true");
    write(place, text);
    const { code, found } = await doctor(place);
    expect(code).toBe(1);
    const wrong = found("config").filter(({ level }) => level === "error");
    expect(wrong.map(({ value }) => value)).toEqual([expect.stringContaining(message)]);
  });

  test("no value that a command accepts", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    write(
      place,
      '[worker]\nslots = 4\ngrace = "never"\nlease = "auto"\ninterval = "3s"\nqueue = ["a", "*"]\nname = "x"\n' +
        '[enqueue]\nbackoff = "fixed:30s"\nlease = "auto"\nfatal_exit = "2,64-78"\nenv = ["A=1,B=2"]\nlog_limit = "64k"\n',
    );
    expect((await doctor(place)).found("config")).toEqual([
      { name: "config", level: "ok", value: "lease.toml", advice: null },
    ]);
  });

  test("a lease.toml that is broken, while the rest is looked at all the same", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    for (const text of ["[worker]\nslotz = 1", "broken", '[worker]\nbeat = "hart"']) {
      write(place, text);
      const { code, found } = await doctor(place);
      expect(code).toBe(1);
      expect(found("config").find(({ level }) => level === "error")?.value).toStartWith("lease.toml");
      expect(found("integrity")).toMatchObject([{ level: "ok" }]);
      expect(await doctor(place, ["--config", "lease.toml"])).toMatchObject({ code: 1 });
    }
  });
});

describe("an audit", () => {
  /** A failure, a success that was retried, a pair in order: all that a history should hold. */
  async function lived(): Promise<Place> {
    const place = newPlace();
    await place.enqueue("--retries", "1", "--backoff", "fixed:1ms", "-c", "exit 3");
    const parent = await place.enqueue("-c", "echo one; lease checkpoint half");
    await place.enqueue("--after", String(parent), "-c", "echo two");
    await place.work();
    await place.lease("retry", String(parent));
    await place.work();
    return place;
  }

  test("of a store that kept every promise names them, and nothing else", async () => {
    const place = await lived();
    const { code, report } = await doctor(place, ["--audit"]);
    expect(report.findings.filter(({ level }) => level !== "ok")).toEqual([]);
    expect(code).toBe(0);
    const promises = report.findings.map(({ name }) => name);
    for (const name of ["tokens", "overlap", "done", "order", "counts", "integrity"]) expect(promises).toContain(name);
    expect(report.settings).toEqual([]);
    expect((await place.lease("doctor", "--audit")).stdout).toEndWith("\nall is well\n");
  });

  test("names each breach, says what was promised, and ends with 1", async () => {
    const place = await lived();
    change(place, "UPDATE attempts SET ended_at_ms = started_at_ms + 3600000 WHERE job_id = 2 AND attempt = 1");
    const { code, found } = await doctor(place, ["--audit"]);
    expect(code).toBe(1);
    const [first] = found("overlap");
    expect(first).toMatchObject({
      level: "error",
      value: expect.stringMatching(/^job 2: attempt 2 was granted \d+ ms/),
    });
    expect(first?.advice).toStartWith("promised: no attempt is granted before the one before it has ended (times");
  });
});

describe("a store that can't be opened", () => {
  test("is 125, with the reason and what can be told without it", async () => {
    const place = newPlace();
    writeFileSync(place.store, "this is not a database, and long enough to be looked at as one\n".repeat(30), {
      mode: 0o600,
    });
    const { code, report, found } = await doctor(place);
    expect({ code, healthy: report.healthy }).toEqual({ code: 125, healthy: false });
    expect(found("store")).toMatchObject([{ level: "error", value: expect.stringContaining(place.store) }]);
    for (const name of ["sqlite", "clock", "disk", "config"]) expect(found(name)).toMatchObject([{ level: "ok" }]);
    expect(report.settings.length).toBeGreaterThan(10);
  });

  test("because others can write it is 125 until it is trusted", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    chmodSync(place.store, 0o666);
    expect(await doctor(place)).toMatchObject({ code: 125 });
    expect(await doctor(place, ["--trust-store"])).toMatchObject({ code: 0 });
  });

  test("because there is none yet is 1, and none is made", async () => {
    const place = newPlace();
    const { code, found } = await doctor(place);
    expect(code).toBe(1);
    expect(found("store")).toMatchObject([{ level: "error", value: expect.stringContaining("there is no store at") }]);
    expect(place.content()).toEqual({});
  });

  test("because nobody says where is told like the rest", async () => {
    const place = newPlace();
    const { code, stdout } = await run([LEASE, "doctor"], { cwd: place.folder, env: { HOME: "" } });
    expect(code).toBe(2);
    expect(stdout).toContain("HOME is not set");
  });
});

describe("settings", () => {
  test("are told with where each comes from", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    write(place, '[worker]\nslots = 3\nbeat = "timer"\n[enqueue]\nqueue = "builds"');
    const { setting } = await doctor(place, ["--color", "never"], { LEASE_WORKER_SLOTS: "5" });
    expect(setting(null, "store")).toMatchObject({ value: place.store, from: "environment", place: "LEASE_STORE" });
    expect(setting(null, "color")).toMatchObject({ value: "never", from: "flag", place: null });
    expect(setting("worker", "slots")).toMatchObject({ value: "5", from: "environment", place: "LEASE_WORKER_SLOTS" });
    expect(setting("worker", "beat")).toMatchObject({ value: "timer", from: "file", place: "lease.toml" });
    expect(setting("enqueue", "queue")).toMatchObject({ value: "builds", from: "file", place: "lease.toml" });
    expect(setting("enqueue", "retries")).toMatchObject({ value: "3", from: "default", place: null });
    expect(setting("watchdog", "checkpoints")).toMatchObject({ value: "true", from: "default" });
  });

  test("of the file hold for doctor itself: the store it looks at, and colour", async () => {
    const place = newPlace();
    const plain = (...args: string[]) => run([LEASE, ...args], { cwd: place.folder, env: { HOME: place.folder } });
    write(place, 'store = "other.db"\ncolor = "always"');
    await plain("enqueue", "--", "true");
    const { code, stdout } = await plain("doctor");
    expect(code).toBe(0);
    expect(stdout).toContain(`${join(place.folder, "other.db")}, `);
    expect(stdout).toContain("\u001b[");
  });

  test("show no password and no value of a job's variables", async () => {
    const place = newPlace();
    write(place, 'store = "postgres://me:hunter2@host/db"\n[enqueue]\nenv = ["TOKEN=hunter2", "HOME"]');
    const options = { cwd: place.folder, env: { HOME: place.folder } };
    const [text, json] = await Promise.all([
      run([LEASE, "doctor"], options),
      run([LEASE, "doctor", "--json"], options),
    ]);
    for (const { stdout, stderr } of [text, json]) {
      expect(stdout).toContain("postgres://me:…@host/db");
      expect(stdout).toContain("TOKEN=…,HOME");
      expect(stdout + stderr).not.toContain("hunter2");
    }
  });
});

describe("doctor --grants", () => {
  test("prints the SQL for the store's roles, without a connection or a password", async () => {
    const url = "postgres://app:hunter2@a,b:7/jobs?schema=Jobs&owner=boss";
    const { code, stdout, stderr } = await newPlace().lease("doctor", "--grants", "--store", url);
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toContain('CREATE SCHEMA IF NOT EXISTS "Jobs" AUTHORIZATION "boss";');
    expect(stdout).toContain('GRANT USAGE ON SCHEMA "Jobs" TO "app";');
    expect(stdout).toContain("lease worker --store 'postgres://app@a:5432,b:7/jobs?schema=Jobs&owner=boss'");
    expect(stdout).not.toContain("hunter2");
  });

  test("is for PostgreSQL alone", async () => {
    const { code, stderr } = await newPlace().lease("doctor", "--grants");
    expect(code).toBe(2);
    expect(stderr).toContain("grants are for stores in PostgreSQL");
  });
});
