import { describe, expect } from "bun:test";
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import type { ProcessIdentity } from "../../src/core/records.ts";
import { identify } from "../../src/platform/machine.ts";
import { signalGroup } from "../../src/platform/signals.ts";
import { groupLives } from "../../src/runner/group.ts";
import type { Store } from "../../src/store/store.ts";
import { answered, LEASE_MS } from "../leasing/fixture.ts";
import { eventually } from "../runner/fixture.ts";
import { end } from "../support/jobs.ts";
import { attemptTest as test, script, type AttemptBench, type Started } from "./attempts.ts";

const STUBBORN = script("trap '' TERM; echo go; while :; do sleep 1; done");

/** Verbs that fail so many times before they work. */
function failing(b: AttemptBench, times: Partial<Record<"settle" | "appendLogs" | "extend", number>>): Partial<Store> {
  const left = { settle: 0, appendLogs: 0, extend: 0, ...times };
  const flaky =
    <A extends unknown[], R>(verb: keyof typeof left, call: (...args: A) => Promise<R>) =>
    (...args: A): Promise<R> =>
      left[verb]-- > 0 ? Promise.reject(new Error("disk is full")) : call(...args);
  return {
    settle: flaky("settle", (requests: Parameters<Store["settle"]>[0]) => b.store.settle(requests)),
    appendLogs: flaky("appendLogs", (requests: Parameters<Store["appendLogs"]>[0]) => b.store.appendLogs(requests)),
    extend: flaky("extend", (requests: Parameters<Store["extend"]>[0]) => b.store.extend(requests)),
  };
}

/** The lease is over for the store; a sweep gives the job back, and another worker takes it. */
async function takenOver(b: AttemptBench, id: number): Promise<void> {
  const [found] = await b.store.expired({ grace_ms: -LEASE_MS * 100, dead_holders: [], after: null, limit: 1 });
  const { job, expires_at_ms } = found!;
  const change = { ...job, state: { name: "pending" as const, run_at_ms: 0 }, ended: end("expired"), before: job };
  const request = { id, token: job.token, change, process: null, audit: null, expires_at_ms };
  expect(await b.store.recover([request])).toEqual(["recovered"]);
  expect(await b.managerOf("w2").acquire()).toHaveLength(1);
}

describe("an attempt whose lease is lost", () => {
  test("is killed at once, and its end is stale: it changes nothing", async (b) => {
    const { attempt, id, printed } = await b.start(STUBBORN);
    await printed(3);
    await takenOver(b, id);
    await b.pass(LEASE_MS / 10);
    expect(await attempt.settled).toEqual({ status: "stale", reason: "conflict" });
    expect(await b.job(id)).toMatchObject({ state: { name: "running", holder: "w2" }, token: 2 });
    expect((await b.trail(id)).at(-1)).toMatchObject({ cause: "stale", token: 1, result: "expired" });
    expect(b.reports.join("\n")).toContain("lost its lease (conflict); killing it");
    expect(b.reports.join("\n")).toContain("kept as a stale checkpoint");
  });

  test("keeps a success that came too late as a stale checkpoint", async (b) => {
    const { attempt, id, printed } = await b.start(
      script(`echo go; while [ ! -e ${b.file("end")} ]; do sleep 0.01; done`),
    );
    await printed(3);
    await takenOver(b, id);
    writeFileSync(b.file("end"), "");
    expect(await attempt.settled).toEqual({ status: "stale", reason: "conflict" });
    expect((await b.trail(id)).at(-1)).toMatchObject({ cause: "stale", token: 1, result: "success" });
  });

  test("is dead before the lease is over when the store can't be reached", async (b) => {
    const { attempt, id, printed } = await b.start(STUBBORN, {}, failing(b, { extend: 1_000 }));
    await printed(3);
    await b.pass(50);
    const group = (await b.store.attempts(id))[0]!.process!.pid;
    await b.pass(LEASE_MS - 50 - 499);
    await attempt.ended;
    expect(groupLives(group)).toBe(false);
    expect(b.clock.wall_ms()).toBeLessThan(await b.expiryOf(id).catch(() => Infinity));
    expect(b.reports.join("\n")).toContain("times in a row");
    await attempt.settled;
    expect((await b.store.attempts(id))[0]).toMatchObject({ end: { cause: "expired" } });
  });

  test("before its program was started never starts it", async (b) => {
    const manager = b.localManager();
    const lease = await b.granted(script(`echo ran > ${b.file("ran")}`), manager);
    // The worker was stopped between the grant and the start.
    await b.pass(LEASE_MS * 2);
    const { attempt } = b.begin(lease, { manager });
    const ran = await eventually(() => b.read("ran") !== "", "it runs", 30).then(
      () => true,
      () => false,
    );
    await b.passUntil(attempt.settled, 20);
    expect(ran).toBe(false);
  });
});

describe("an end that the store does not take at first", () => {
  test("is written as soon as it does", async (b) => {
    const { attempt, id } = await b.start(script("exit 0"), {}, failing(b, { settle: 3 }));
    await attempt.ended;
    await answered();
    await b.pass(1_000);
    await attempt.settled;
    expect(await b.stateOf(id)).toBe("completed");
    expect(b.reports.filter((line) => line.includes("could not be written"))).toHaveLength(2);
  });

  test("is given up when the lease is over, for a sweep to find", async (b) => {
    const { attempt, id } = await b.start(script("exit 0"), {}, failing(b, { settle: 1_000 }));
    await attempt.ended;
    const given_up = attempt.settled.catch((error: Error) => error.message);
    await b.pass(LEASE_MS);
    expect(await given_up).toBe("disk is full");
    expect(await b.stateOf(id)).toBe("running");
  });

  test("comes with the log, which must not be lost either", async (b) => {
    const { attempt, id } = await b.start(script("echo precious"), {}, failing(b, { settle: 1, appendLogs: 1 }));
    await attempt.ended;
    await answered();
    await b.pass(1_000);
    await attempt.settled;
    expect(await b.stateOf(id)).toBe("completed");
    expect(await b.logOf(id)).toBe("precious\n");
  });

  test("is written though a long log before it was not taken at first", async (b) => {
    const long = script("head -c 2000000 /dev/zero");
    const { attempt, id } = await b.start(long, {}, failing(b, { appendLogs: 1 }));
    const settled = attempt.settled.catch(() => {});
    await attempt.ended;
    await answered();
    await b.pass(1_000);
    await settled;
    expect(await b.stateOf(id)).toBe("completed");
  });
});

describe("what is left of an earlier attempt", () => {
  /** A process group as a dead worker would have left it: with the marks of the job, or without. */
  function orphan(marks: Record<string, string>): number {
    const env = { PATH: process.env["PATH"] ?? "", ...marks };
    const child = spawn("/bin/sh", ["-c", "trap '' TERM; while :; do sleep 1; done"], {
      detached: true,
      stdio: "ignore",
      env,
    });
    return child.pid!;
  }

  /** The job again, with what the first attempt noted of its process. */
  async function secondAttempt(b: AttemptBench, pid: number, process: ProcessIdentity | null): Promise<Started> {
    const manager = b.localManager();
    const first = await b.granted(script(`grep State /proc/${pid}/status > ${b.file("state")}`), manager);
    await manager.release(first, { end: end("exit"), process });
    await b.pass(5_000);
    const [lease] = await manager.acquire();
    return b.begin(lease!, { manager });
  }

  /** A zombie is dead: only its number is still there. */
  const ranBeside = (b: AttemptBench): boolean => !/^$|\(zombie\)|\(dead\)/.test(b.read("state"));

  test("is dead before the next one's program starts", async (b) => {
    const pid = orphan({ LEASE_JOB_ID: "1", LEASE_TOKEN: "1", LEASE_STORE: b.path });
    await eventually(() => readFileSync(`/proc/${pid}/environ`, "latin1").includes("LEASE_JOB_ID=1"), "it runs");
    const { attempt } = await secondAttempt(b, pid, identify(pid));
    await b.passUntil(attempt.settled, 10);
    expect([groupLives(pid), ranBeside(b)]).toEqual([false, false]);
  });

  test("is not what only the store says it is: nobody dies for a row", async (b) => {
    const pid = orphan({});
    const { attempt } = await secondAttempt(b, pid, identify(pid));
    await b.passUntil(attempt.settled, 10);
    expect(groupLives(pid)).toBe(true);
    signalGroup(pid, "SIGKILL");
  });

  test("is found by its marks when the worker died before it could note it", async (b) => {
    const pid = orphan({ LEASE_JOB_ID: "1", LEASE_TOKEN: "1", LEASE_STORE: b.path });
    await eventually(() => readFileSync(`/proc/${pid}/environ`, "latin1").includes("LEASE_JOB_ID=1"), "it runs");
    const { attempt, id } = await secondAttempt(b, pid, null);
    await b.passUntil(attempt.settled, 10);
    expect([id, groupLives(pid)]).toEqual([1, false]);
  });

  test("is not somebody who got its pid in the meantime", async (b) => {
    const pid = orphan({});
    try {
      const { pid_started, ...rest } = identify(pid);
      const { attempt } = await secondAttempt(b, pid, { ...rest, pid_started: pid_started - 1 });
      await b.passUntil(attempt.settled, 10);
      expect(groupLives(pid)).toBe(true);
    } finally {
      process.kill(-pid, "SIGKILL");
    }
  });
});
