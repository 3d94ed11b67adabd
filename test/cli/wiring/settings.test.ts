import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { COMMANDS } from "../../../src/cli/commands.ts";
import { command } from "../../../src/cli/command.ts";
import { parseLine } from "../../../src/cli/strict.ts";
import { applySettings, nameOrigin } from "../../../src/cli/settings.ts";
import { SHARED_FLAGS } from "../../../src/cli/flags.ts";
import { COUNT, DURATION, LEASE, QUEUE } from "../../../src/core/values.ts";
import { COMMAND_SETTINGS } from "../../../src/config/command_settings.ts";
import { SHARED_SETTINGS, variableName } from "../../../src/config/settings.ts";
import { LeaseError } from "../../../src/core/errors.ts";
import { jobVariables } from "../../../src/runner/environment.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "lease-settings-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Named like one that has settings, with flags of each kind. */
const worker = command({
  meta: { name: "worker", description: "Run" },
  args: {
    queue: { type: "string", alias: "q", value: QUEUE },
    slots: { type: "string", alias: "j", value: COUNT },
    max: { type: "string", value: COUNT },
    lease: { type: "string", value: LEASE },
    interval: { type: "string", value: DURATION },
    beat: { type: "enum", options: ["output", "timer"] },
    sweep: { type: "boolean", default: true, negativeDescription: "don't" },
    preempt: { type: "boolean" },
    // Not a setting, whatever the environment holds.
    once: { type: "boolean" },
  },
  repeat: ["queue"],
  rivals: [["slots"], ["max"]],
  rest: "none",
  run: async () => 0,
});

async function applied(words: string, env: Record<string, string>, toml?: string) {
  const path = join(folder, "lease.toml");
  if (toml !== undefined) writeFileSync(path, toml, { mode: 0o600 });
  const raw = words.split(" ").filter((word) => word !== "");
  const config = toml === undefined ? [] : ["--config", path];
  const scanned = parseLine(worker, [...raw, ...config]);
  const origins = await applySettings(worker, scanned, env);
  return { ...scanned, origins };
}

describe("a value comes from", () => {
  const env = { LEASE_WORKER_SLOTS: "2", LEASE_WORKER_QUEUE: "env,two" };
  const toml = '[worker]\nslots = 3\nqueue = ["file"]\nlease = "7m"';

  test("the flag before the environment before the file", async () => {
    expect((await applied("-j 1 -q flag", env, toml)).args["slots"]).toBe("1");
    expect((await applied("-j 1 -q flag", env, toml)).lists["queue"]).toEqual(["flag"]);
    expect((await applied("", env, toml)).args["slots"]).toBe("2");
    expect((await applied("", env, toml)).lists["queue"]).toEqual(["env,two"]);
    expect((await applied("", {}, toml)).args["slots"]).toBe("3");
    expect((await applied("", {}, toml)).lists["queue"]).toEqual(["file"]);
    expect((await applied("", {})).args["slots"]).toBeUndefined();
  });

  test("its origin can be told, and is not taken for a flag", async () => {
    const { origins, given } = await applied("", { LEASE_WORKER_SLOTS: "2" }, toml);
    const path = join(folder, "lease.toml");
    expect(Object.fromEntries(origins)).toEqual({
      slots: { from: "environment", place: "LEASE_WORKER_SLOTS", label: "LEASE_WORKER_SLOTS" },
      queue: { from: "file", place: path, label: `${path}: worker.queue` },
      lease: { from: "file", place: path, label: `${path}: worker.lease` },
    });
    expect([...given.keys()]).toEqual(["config"]);
  });

  test("no variable that is set to nothing, and none that is not a setting's", async () => {
    const { args, origins } = await applied("", {
      LEASE_WORKER_SLOTS: "",
      LEASE_WORKER_ONCE: "1",
      LEASE_WORKER_ID: "w",
      LEASE_QUEUE: "q",
      LEASE_SLOTS: "9",
      LEASE_TRUST_STORE: "1",
    });
    expect({ slots: args["slots"], once: args["once"], trust: args["trust_store"], origins: origins.size }).toEqual({
      slots: undefined,
      once: false,
      trust: false,
      origins: 0,
    });
  });

  test("a switch in both directions, also against a default that is on", async () => {
    expect((await applied("", { LEASE_WORKER_SWEEP: "no", LEASE_WORKER_PREEMPT: "On" })).args).toMatchObject({
      sweep: false,
      preempt: true,
    });
    expect((await applied("--no-sweep", { LEASE_WORKER_SWEEP: "1" })).args["sweep"]).toBe(false);
    expect((await applied("", {}, "verbose = true\n[worker]\nsweep = false")).args).toMatchObject({
      sweep: false,
      verbose: true,
    });
    expect(applied("", { LEASE_WORKER_SWEEP: "maybe" })).rejects.toThrow(
      'LEASE_WORKER_SWEEP "maybe" is not a yes or a no',
    );
  });

  test("one of the options where there are some", async () => {
    expect((await applied("", { LEASE_WORKER_BEAT: "timer" })).args["beat"]).toBe("timer");
    expect(applied("", { LEASE_WORKER_BEAT: "time" })).rejects.toThrow(
      'LEASE_WORKER_BEAT can\'t be "time"; did you mean timer?',
    );
    expect(applied("", {}, '[worker]\nbeat = "x"')).rejects.toThrow('lease.toml: worker.beat can\'t be "x"');
  });

  test("the most direct word, where two flags exclude each other", async () => {
    const { args, origins } = await applied("--max 4", { LEASE_WORKER_SLOTS: "2" }, "[worker]\nslots = 3");
    expect({ ...args, origins: [...origins.keys()] }).toMatchObject({ max: "4", slots: undefined, origins: [] });
    const env_wins = await applied("", { LEASE_WORKER_SLOTS: "2" }, "[worker]\nmax = 3");
    expect(env_wins.args).toMatchObject({ slots: "2", max: undefined });
    const both = await applied("", {}, "[worker]\nmax = 3\nslots = 2");
    expect(both.args).toMatchObject({ slots: "2", max: "3" });
  });
});

describe("an error about a value", () => {
  async function told(message: string, code: "usage" | "calibration" = "usage"): Promise<string> {
    const { origins } = await applied(
      "--max 3",
      { LEASE_WORKER_LEASE: "x" },
      '[worker]\ninterval = "1s"\nqueue = ["a"]',
    );
    return (nameOrigin(new LeaseError(code, message), worker, origins) as LeaseError).message;
  }

  test("names where it stands instead of the flag that would set it", async () => {
    expect(await told('--lease "x" is not a duration')).toBe('LEASE_WORKER_LEASE "x" is not a duration');
    expect(await told('-q "a" is odd')).toBe(`${join(folder, "lease.toml")}: worker.queue "a" is odd`);
  });

  test("stays as it is when it is about a flag", async () => {
    expect(await told("--max is too small")).toBe("--max is too small");
    expect(await told("--lease-more is unknown")).toBe("--lease-more is unknown");
    expect(await told("the lease is wrong")).toBe("the lease is wrong");
  });

  test("that breaks a rule between values names those that are not flags", async () => {
    expect(await told("interval must be less than half of lease", "calibration")).toBe(
      `interval must be less than half of lease (set by LEASE_WORKER_LEASE and ${join(folder, "lease.toml")}: worker.interval)`,
    );
  });
});

describe("the table of settings", () => {
  const entries = Object.entries(COMMAND_SETTINGS).flatMap(([name, table]) =>
    Object.entries(table).map(([key, kind]) => ({ name, key, kind })),
  );

  test.each(entries)("$name.$key is a flag of that kind", async ({ name, key, kind }) => {
    const { flags, repeat } = await COMMANDS[name]!.load();
    const type = flags[key]?.type;
    expect(type).toBeDefined();
    expect(type === "boolean").toBe(kind === "switch");
    expect(repeat.includes(key)).toBe(kind === "list");
  });

  /** What a default says about one run, and no file can know. */
  const OF_THE_MOMENT = new Set(["enqueue.cwd", "run.cwd"]);

  test.each(Object.keys(COMMAND_SETTINGS))("has every flag of %s that something else can decide", async (name) => {
    const { flags } = await COMMANDS[name]!.load();
    const left = Object.entries(flags).filter(([key, flag]) => {
      const known = Object.hasOwn(COMMAND_SETTINGS[name] ?? {}, key) || Object.hasOwn(SHARED_FLAGS, key);
      return (flag.fallback !== undefined || flag.default !== undefined) && !known;
    });
    expect(left.map(([key]) => `${name}.${key}`).filter((key) => !OF_THE_MOMENT.has(key))).toEqual([]);
  });

  test("has the flags of every command but for those that no file may decide", () => {
    const left = Object.keys(SHARED_FLAGS).filter((key) => !(key in SHARED_SETTINGS));
    expect(left).toEqual(["trust_store", "config", "help"]);
  });

  test("no variable is one that a job is told about itself, and none means two things", () => {
    const names = [
      ...Object.keys(SHARED_SETTINGS).map((key) => variableName(null, key)),
      ...entries.map(({ name, key }) => variableName(name, key)),
    ];
    expect(new Set(names).size).toBe(names.length);
    // The store is the job's own on purpose: what it enqueues goes where it came from.
    const told = jobVariables({ job: {} } as never);
    expect(names.filter((name) => name in told)).toEqual(["LEASE_STORE"]);
  });
});
