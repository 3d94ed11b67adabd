/** Settings that are not flags: lease.toml and LEASE_* through the compiled binary. */

import { describe, expect, test } from "bun:test";
import { chmodSync, chownSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { expectRefusal, LEASE, ROOT, run, usePlaces, type Answer, type Place } from "./lease.ts";

const newPlace = usePlaces();

function write(place: Place, text: string, name = "lease.toml"): string {
  const path = join(place.folder, name);
  writeFileSync(path, text, { mode: 0o600 });
  return path;
}

/** Without LEASE_STORE, which would hide what the file says. */
function plain(place: Place, args: readonly string[], options: { env?: Record<string, string>; cwd?: string } = {}) {
  return run([LEASE, ...args], { cwd: options.cwd ?? place.folder, env: { HOME: place.folder, ...options.env } });
}

const job = async (answer: Promise<Answer>) => {
  const { stdout, stderr } = await answer;
  expect(stderr).toBe("");
  return JSON.parse(stdout) as { queue: string; retries: number; priority: number };
};

describe("lease.toml", () => {
  test("sets the store and what a job gets that says nothing, and flags and variables win", async () => {
    const place = newPlace();
    write(place, 'store = "jobs.db"\n[enqueue]\nqueue = "file"\nretries = 7\npriority = -2\n');
    const variables = { LEASE_ENQUEUE_QUEUE: "variable" };
    expect(await plain(place, ["enqueue", "--", "true"])).toEqual({ code: 0, stdout: "1\n", stderr: "" });
    expect((await plain(place, ["enqueue", "--", "true"], { env: variables })).stdout).toBe("2\n");
    expect((await plain(place, ["enqueue", "-q", "flag", "--", "true"], { env: variables })).stdout).toBe("3\n");
    const inspect = (id: string) => job(plain(place, ["inspect", id, "--json"]));
    expect(await inspect("1")).toMatchObject({ queue: "file", retries: 7, priority: -2 });
    expect(await inspect("2")).toMatchObject({ queue: "variable", retries: 7 });
    expect(await inspect("3")).toMatchObject({ queue: "flag", retries: 7 });
    expect(Object.keys(place.content())).toContain("jobs.db");
  });

  test("is that of the working folder before the user's own, and one that is named before both", async () => {
    const place = newPlace();
    mkdirSync(join(place.folder, ".config/lease"), { recursive: true });
    mkdirSync(join(place.folder, "xdg/lease"), { recursive: true });
    mkdirSync(join(place.folder, "here"));
    for (const [name, queue] of [
      [".config/lease/lease.toml", "home"],
      ["xdg/lease/lease.toml", "xdg"],
      ["here/lease.toml", "here"],
      ["named.toml", "named"],
    ] as const) {
      write(place, `store = "${place.store}"\n[enqueue]\nqueue = "${queue}"\n`, name);
    }
    const here = join(place.folder, "here");
    const queueOf = async (args: string[], options: { env?: Record<string, string>; cwd?: string }) => {
      const { stdout } = await plain(place, [...args, "enqueue", "--", "true"], options);
      return (await place.inspect(Number(stdout))).queue;
    };
    expect(await queueOf([], {})).toBe("home");
    expect(await queueOf([], { env: { XDG_CONFIG_HOME: join(place.folder, "xdg") } })).toBe("xdg");
    expect(await queueOf([], { cwd: here })).toBe("here");
    expect(await queueOf([], { cwd: here, env: { LEASE_CONFIG: "../named.toml" } })).toBe("named");
    expect(await queueOf(["--config", "../named.toml"], { cwd: here })).toBe("named");
    expect(await queueOf(["--config", "/dev/null", "--store", place.store], { cwd: here })).toBe("default");
  });

  test("names a store from where it is itself, not from the working folder", async () => {
    const place = newPlace();
    mkdirSync(join(place.folder, "deep"));
    write(place, 'store = "jobs.db"\n');
    const answer = await plain(place, ["enqueue", "--config", "../lease.toml", "--", "true"], {
      cwd: join(place.folder, "deep"),
    });
    expect(answer).toMatchObject({ code: 0, stderr: "" });
    expect(Object.keys(place.content())).toContain("jobs.db");
  });

  test("tells a worker what to serve, with what and how often", async () => {
    const place = newPlace();
    write(place, '[worker]\nqueue = ["b", "a"]\nname = "from the file"\nlog_dir = "logs"\nmax = 2\n');
    for (const queue of ["a", "b", "c"]) await place.enqueue("-q", queue, "-c", "echo $LEASE_QUEUE");
    expect(await place.work()).toBe(0);
    const states = await Promise.all([1, 2, 3].map(async (id) => (await place.inspect(id)).state));
    expect(states).toEqual(["completed", "completed", "pending"]);
    expect(Object.keys(place.content()).filter((name) => name.startsWith("logs/"))).toHaveLength(2);
    const overview = JSON.parse((await place.lease("inspect", "--json")).stdout) as { workers: { name: string }[] };
    expect(overview.workers.map(({ name }) => name)).toEqual(["from the file"]);
    // A number of slots on the command line makes the range of the file pointless.
    expect(await place.work("-j", "1", "-q", "c")).toBe(0);
  });

  test("can switch off what is on, and a variable can switch it on again", async () => {
    const place = newPlace();
    write(place, "[watchdog]\ncheckpoints = false\nkeep_checkpoints = 5\n");
    expect(await place.lease("watchdog", "--once")).toMatchObject({ code: 0 });
    expectRefusal(
      await place.leaseWith({ env: { LEASE_WATCHDOG_CHECKPOINTS: "perhaps" } }, "watchdog", "--once"),
      2,
      'LEASE_WATCHDOG_CHECKPOINTS "perhaps" is not a yes or a no: write 1 or 0',
    );
  });

  test("and LEASE_COLOR, LEASE_VERBOSE reach every command", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    write(place, 'color = "always"\n');
    expect((await place.lease("inspect")).stdout).toContain("\u001b[");
    expect((await place.leaseWith({ env: { LEASE_COLOR: "never" } }, "inspect")).stdout).not.toContain("\u001b[");
    expect((await place.leaseWith({ env: { LEASE_COLOR: "always" } }, "help")).stdout).toContain("\u001b[");
    expectRefusal(
      await place.leaseWith({ env: { LEASE_COLOR: "blue" } }, "inspect"),
      2,
      'LEASE_COLOR can\'t be "blue"',
    );
  });
});

describe("what is wrong in a setting is refused before anything happens, with where it stands:", () => {
  test.each([
    [["worker"], '[worker]\nslots = "many"', 'lease.toml: worker.slots "many" is not a whole number from 1'],
    [["worker"], "[worker]\nslots = 0", 'lease.toml: worker.slots "0" is not a whole number from 1'],
    [["worker"], '[worker]\ngrace = "x"', 'lease.toml: worker.grace "x" is not a duration'],
    [["worker"], "[worker]\nmin = 2", "lease.toml: worker.min needs --max"],
    [["worker"], '[worker]\nbeat = "hart"', 'lease.toml: worker.beat can\'t be "hart"'],
    [
      ["worker", "--lease", "2s"],
      '[worker]\ninterval = "1s"',
      "interval must be less than half of lease, and is 1s with a lease of 2s (set by lease.toml: worker.interval)",
    ],
    [["enqueue", "true"], "[enqueue]\nlog_limit = -1", 'lease.toml: enqueue.log_limit "-1" is not a size'],
    [["enqueue", "true"], '[enqueue]\nqueue = ""', "(set by lease.toml: enqueue.queue)"],
    [["enqueue", "true"], '[enqueue]\nenv = ["NOT_SET_HERE"]', "lease.toml: enqueue.env NOT_SET_HERE is not set here"],
    [
      ["enqueue", "true"],
      "[worker]\nslotz = 1",
      "lease.toml: worker.slotz is not a setting; did you mean worker.slots?",
    ],
    [["inspect"], "trust_store = true", "lease.toml: trust_store is not a setting: a file can't ask to be trusted"],
    [["inspect"], "store = ", /^lease: lease.toml:1:\d+: /],
  ] as const)("lease %j with %j", async (args, text, message) => {
    const place = newPlace();
    write(place, text);
    expectRefusal(await place.lease(...args), 2, message);
    expect(Object.keys(place.content())).toEqual(["lease.toml"]);
  });

  test("also in a variable", async () => {
    const place = newPlace();
    expectRefusal(
      await place.leaseWith({ env: { LEASE_WORKER_SLOTS: "0" } }, "worker"),
      2,
      'LEASE_WORKER_SLOTS "0" is not a whole number from 1',
    );
  });

  test("a file that was named and is not there, or is none", async () => {
    const place = newPlace();
    expectRefusal(await place.lease("inspect", "--config", "no.toml"), 2, "--config no.toml does not exist");
    expectRefusal(await place.lease("version", "--config", "no.toml"), 2, "--config no.toml does not exist");
    expectRefusal(await place.lease("inspect", "--config", "."), 2, ". is not a file");
    expectRefusal(await place.leaseWith({ env: { LEASE_CONFIG: "x" } }, "inspect"), 2, "LEASE_CONFIG x does not exist");
  });
});

describe("a lease.toml that somebody else may have written", () => {
  test("is refused when others can write it", async () => {
    const place = newPlace();
    const path = write(place, 'store = "theirs.db"');
    chmodSync(path, 0o666);
    expectRefusal(await place.lease("worker", "--until-empty"), 2, "lease.toml can be written by others");
    expect(Object.keys(place.content())).toEqual(["lease.toml"]);
  });

  test.skipIf(process.getuid?.() !== 0)("is refused when it is another user's, unless it is named (root)", async () => {
    const place = newPlace();
    const path = write(place, '[enqueue]\nqueue = "theirs"');
    chownSync(path, 65_534, 65_534);
    expectRefusal(await place.lease("enqueue", "--", "true"), 2, "lease.toml belongs to another user");
    expect((await place.lease("enqueue", "--config", "lease.toml", "--", "true")).stdout).toBe("1\n");
    expect(place.rows("SELECT queue FROM jobs")).toEqual([{ queue: "theirs" }]);
  });
});

describe("inside a job", () => {
  test("what it enqueues goes to its store, but not to its queue, its task or its key", async () => {
    const place = newPlace();
    await place.enqueue("-q", "outer", "-t", "task", "-k", "key", "-c", '"$LEASE" enqueue -- true');
    expect(
      await plain(place, ["worker", "--until-empty", "-q", "outer", "--store", place.store], { env: { LEASE } }),
    ).toMatchObject({ code: 0 });
    expect(await place.inspect(2)).toMatchObject({ queue: "default", task: null, key: null });
  });

  test("a broken lease.toml in its folder does not keep it from beating and noting", async () => {
    const place = newPlace();
    mkdirSync(join(place.folder, "work"));
    write(place, "broken", "work/lease.toml");
    const script = '"$LEASE" beat --message here && "$LEASE" checkpoint "page 1" && "$LEASE" guard -- true';
    await place.enqueue("--retries", "0", "--cwd", join(place.folder, "work"), "-c", script);
    expect(await place.work()).toBe(0);
    expect(await place.inspect(1)).toMatchObject({ state: "completed", message: "here" });
  });
});

test("help and version work with a broken lease.toml, and without a file there is nothing to say", async () => {
  const place = newPlace();
  write(place, "broken");
  for (const args of [["--help"], ["worker", "--help"], ["version"]]) {
    expect(await place.lease(...args)).toMatchObject({ code: 0, stderr: "" });
  }
});

test("the lease.toml in the documents is one that works", async () => {
  const [, example = ""] = /```toml\n([^]*?)```/.exec(readFileSync(join(ROOT, "docs/configuration.md"), "utf8")) ?? [];
  const place = newPlace();
  write(place, example);
  expect(await plain(place, ["enqueue", "--", "true"])).toEqual({ code: 0, stdout: "1\n", stderr: "" });
  expect(await job(plain(place, ["inspect", "1", "--json"]))).toMatchObject({ queue: "builds", retries: 1 });
  expect(await plain(place, ["worker", "--until-empty"])).toMatchObject({ code: 0 });
  expect(await plain(place, ["watchdog", "--once"])).toMatchObject({ code: 0 });
  expect(await plain(place, ["doctor"])).toMatchObject({ code: 0, stderr: "" });
});
