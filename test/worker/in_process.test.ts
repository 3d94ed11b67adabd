/** Jobs that are functions of the worker's own program: the same attempt as for programs, on a clock the test moves. */

import { describe, expect } from "bun:test";
import { NoRetry, Stopped } from "../../src/runner/handler.ts";
import type { AttemptOptions } from "../../src/worker/attempt_options.ts";
import type { HandlerTools } from "../../src/worker/in_process.ts";
import { answered, LEASE_MS } from "../leasing/fixture.ts";
import type { JobOverrides } from "../support/jobs.ts";
import { attemptTest as test, type AttemptBench } from "./attempts.ts";

const INPUT = { argv: [], input: new TextEncoder().encode("{}") };

type Body = (tools: HandlerTools) => unknown;

const call = (b: AttemptBench, body: Body, job: JobOverrides = {}, options: Partial<AttemptOptions> = {}) =>
  b.start({ ...INPUT, ...job }, { handling: { run: body }, ...options });

/** Runs one to its settled end. */
async function run(b: AttemptBench, body: Body, job: JobOverrides = {}) {
  const { attempt, id } = await call(b, body, job);
  await attempt.settled;
  return b.job(id);
}

/** Resolves when told to stop, with the reason. */
const untilStopped = (signal: AbortSignal) =>
  new Promise<unknown>((resolve) => {
    signal.addEventListener("abort", () => resolve(signal.reason), { once: true });
  });

describe("a handler", () => {
  test("that returns completes the job, and what it returned is the output", async (b) => {
    expect(await run(b, async () => ({ sent: 3 }))).toMatchObject({
      state: { name: "completed" },
      result: { cause: "success", exit_code: null, error: null, output: '{"sent":3}' },
    });
    expect((await run(b, () => "as it is")).result.output).toBe("as it is");
    expect((await run(b, () => {})).result.output).toBeNull();
  });

  test("whose result is no JSON fails with that", async (b) => {
    expect((await run(b, () => ({ big: 1n }))).result).toMatchObject({
      cause: "error",
      error: expect.stringMatching(/BigInt/),
    });
  });

  test("that throws is tried again; message, stack and cause are kept", async (b) => {
    const job = await run(b, () => {
      throw new TypeError("no such page", { cause: new Error("the server said 404") });
    });
    expect(job).toMatchObject({
      state: { name: "scheduled" },
      result: { cause: "error", exit_code: null, error: "TypeError: no such page" },
    });
    const log = await b.logOf(job.id);
    expect(log).toContain("no such page");
    expect(log).toContain("in_process.test.ts");
    expect(log).toContain("caused by: ");
    expect(log).toContain("the server said 404");
    expect(await b.trail(job.id)).toMatchObject([{ cause: "error", attempt: 1 }]);
  });

  test("that throws NoRetry has failed for good, and so has one of whom only losses are retried", async (b) => {
    const refuse = () => {
      throw new NoRetry("the address does not exist");
    };
    expect(await run(b, refuse)).toMatchObject({
      state: { name: "failed" },
      result: { cause: "error", error: "the address does not exist" },
    });
    const fail = () => Promise.reject(new Error("no"));
    expect(await run(b, fail, { settings: { retry_on: "lost" } })).toMatchObject({ state: { name: "failed" } });
  });

  test("leaves no process behind that a later attempt would kill: it is the worker's own", async (b) => {
    const job = await run(b, () => 1);
    expect((await b.store.attempts(job.id))[0]?.process).toBeNull();
  });

  test("logs, and each line is a beat", async (b) => {
    const job = await run(b, ({ log }) => {
      log("page", 1, { of: 2 });
      log("done");
    });
    expect(await b.logOf(job.id)).toBe('page 1 {"of":2}\ndone\n');
    expect((await b.store.attempts(job.id))[0]).toMatchObject({ beats: 2, end: { last_line: "done" } });
  });

  test("has its lease extended by beats, at most once per interval", async (b) => {
    const { attempt } = await call(b, async ({ beat, signal }) => {
      const timer = setInterval(beat, 0);
      await untilStopped(signal);
      clearInterval(timer);
    });
    for (let n = 0; n < 4; n++) {
      await b.pass(LEASE_MS / 10);
      await new Promise((done) => setTimeout(done, 5));
      await answered();
    }
    expect(b.extensions.length).toBeGreaterThanOrEqual(2);
    expect(b.extensions.length).toBeLessThanOrEqual(5);
    attempt.kill();
    await attempt.settled;
  });

  test("says how far it is at once, then at most once a second, and its last word is not lost", async (b) => {
    const go = Promise.withResolvers<void>();
    const { attempt, id } = await call(b, async ({ progress }) => {
      for (let n = 1; n <= 50; n++) progress(n, `page ${n}`);
      await go.promise;
      progress(99, "last page");
    });
    await answered();
    expect(await b.job(id)).toMatchObject({ progress: 1, message: "page 1" });
    await b.pass(1_000);
    expect(await b.job(id)).toMatchObject({ progress: 50, message: "page 50" });
    expect(b.extensions).toHaveLength(2);
    go.resolve();
    await attempt.settled;
    expect(await b.job(id)).toMatchObject({ state: { name: "completed" }, progress: 99, message: "last page" });
  });

  test("is told when its progress is none", async (b) => {
    const job = await run(b, ({ progress }) => progress(101));
    expect(job.result.error).toContain("101 is not a percentage");
  });

  test("hands a checkpoint to the next attempt", async (b) => {
    const first = await run(b, async ({ checkpoint }) => {
      await checkpoint({ page: 7 });
      throw new Error("later");
    });
    await b.pass(10_000);
    const [lease] = await b.localManager().acquire({ job: first.id });
    expect(JSON.parse(lease?.grant.checkpoint ?? "")).toEqual({ page: 7 });
  });
});

describe("the signal of a handler", () => {
  const reasons: unknown[] = [];
  const wait: Body = async ({ signal }) => void reasons.push(await untilStopped(signal));
  const told = () => {
    const reason = reasons.pop();
    return reason instanceof Stopped ? reason.cause : reason;
  };

  test("aborts with the cause when it is cancelled", async (b) => {
    const { attempt, id } = await call(b, wait);
    await answered();
    attempt.cancel();
    await attempt.settled;
    expect(told()).toBe("cancelled");
    expect((await b.job(id)).state.name).toBe("cancelled");
  });

  test("aborts when it was silent for its lease", async (b) => {
    const { attempt, id } = await call(b, wait);
    await b.pass(LEASE_MS);
    await attempt.settled;
    expect(told()).toBe("silent");
    expect(await b.job(id)).toMatchObject({ state: { name: "scheduled" }, result: { cause: "silent" } });
  });

  test("aborts when its time is over", async (b) => {
    const { attempt, id } = await call(b, wait, { settings: { timeout_ms: 5_000 } });
    await b.pass(5_000);
    await attempt.settled;
    expect(told()).toBe("timeout");
    expect((await b.job(id)).result.cause).toBe("timeout");
  });

  test("aborts when it is returned to the queue, and that counts no attempt", async (b) => {
    const { attempt, id } = await call(b, wait);
    await answered();
    attempt.giveBack(10_000);
    await attempt.settled;
    expect(told()).toBe("returned");
    expect(await b.job(id)).toMatchObject({ state: { name: "pending" }, failures: 0 });
  });

  test("aborts when its lease is lost, also when the store can't be reached", async (b) => {
    const { attempt, id } = await call(b, ({ beat, signal }) => {
      beat();
      return wait({ signal } as HandlerTools);
    });
    await answered();
    b.extend = () => Promise.reject(new Error("unreachable"));
    await b.pass(LEASE_MS);
    await attempt.ended;
    expect(told()).toBe("lost");
    expect(b.reports.join("\n")).toContain(`job ${id}: lost its lease`);
    await attempt.settled;
  });

  test("has aborted already for one that asks late", async (b) => {
    const go = Promise.withResolvers<void>();
    const { attempt } = await call(b, async (tools) => {
      await go.promise;
      reasons.push(tools.signal.reason);
    });
    await answered();
    attempt.giveBack(10_000);
    go.resolve();
    await attempt.settled;
    expect(told()).toBe("returned");
  });

  test("does not make a failure of what it made the handler throw", async (b) => {
    const { attempt, id } = await call(b, async ({ signal }) => {
      await untilStopped(signal);
      signal.throwIfAborted();
    });
    await answered();
    attempt.cancel();
    await attempt.settled;
    expect(await b.job(id)).toMatchObject({ state: { name: "cancelled" } });
    expect(await b.logOf(id)).toBe("");
  });
});

describe("a handler that goes on", () => {
  test("holds its slot until it settles, within its grace", async (b) => {
    const go = Promise.withResolvers<void>();
    const { attempt } = await call(b, async () => void (await go.promise));
    await answered();
    attempt.giveBack(10_000);
    let ended = false;
    void attempt.ended.then(() => (ended = true));
    await b.pass(9_000);
    expect(ended).toBe(false);
    go.resolve();
    await attempt.ended;
  });

  test("is left behind when the grace is over, and can write nothing more", async (b) => {
    const go = Promise.withResolvers<void>();
    const said: unknown[] = [];
    const ended = Promise.withResolvers<void>();
    const { attempt, id } = await call(b, async ({ beat, log, progress, checkpoint }) => {
      await go.promise;
      beat();
      log("still here");
      progress(50);
      await checkpoint("too late").catch((error: unknown) => said.push(error));
      ended.resolve();
      return "late";
    });
    await answered();
    attempt.giveBack(10_000);
    await b.pass(10_000);
    await attempt.settled;
    const before = await b.job(id);
    expect(before.state.name).toBe("pending");
    expect(b.reports.join("\n")).toContain("it was left behind");
    go.resolve();
    await ended.promise;
    await answered();
    expect(said).toMatchObject([{ code: "lease_lost" }]);
    expect(await b.job(id)).toEqual(before);
    expect(await b.logOf(id)).toBe("");
    expect(await b.store.checkpoints({ job: id, kind: "progress", limit: 9 })).toEqual([]);
  });

  test("after somebody else was granted the job leaves a stale result, never the result", async (b) => {
    const go = Promise.withResolvers<void>();
    const { attempt, id } = await call(b, async ({ checkpoint }) => {
      await go.promise;
      await checkpoint("mine").catch(() => {});
      return "late";
    });
    await answered();
    // Its worker stood still: nobody has heard that the lease is over.
    b.clock.jumpWall(10 * LEASE_MS);
    const lease = attempt.lease;
    const other = await b.reopen();
    const [found] = await other.expired({ grace_ms: 0, dead_holders: [], after: null, limit: 5 });
    expect(found?.job.id).toBe(id);
    const { transition } = await import("../../src/core/transition.ts");
    const change = transition(
      found!.job,
      { type: "recover", cause: "expired", grace_ms: 0 },
      { now_ms: b.clock.wall_ms(), random: () => 0.5 },
    );
    if (!("state" in change)) throw new Error("it can be recovered");
    const request = { id, token: lease.token, change, process: null, audit: null, expires_at_ms: found!.expires_at_ms };
    expect(await other.recover([request])).toEqual(["recovered"]);
    go.resolve();
    expect(await attempt.settled).toMatchObject({ status: "stale" });
    expect(await b.job(id)).toMatchObject({ state: { name: "pending" }, result: { output: null } });
    expect(await b.trail(id)).toMatchObject([{ cause: "stale" }]);
    expect(await b.store.checkpoints({ job: id, kind: "progress", limit: 9 })).toEqual([]);
  });
});
