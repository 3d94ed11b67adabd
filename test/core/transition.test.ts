/**
 * What settle and recover make of a running job, row by row of the table of states. `after` applies one event and
 * answers the change. The other rows are in test/contract/life.test.ts.
 */

import { describe, expect, test } from "bun:test";
import { CAUSES, type Job, type JobState, type Cause } from "../../src/core/job.ts";
import { isRefusal, MAX_RETRIES_EXCEEDED, transition, type Change, type JobEvent } from "../../src/core/transition.ts";
import { end, jobIn } from "../support/jobs.ts";

const NOW_MS = 1_000_000;
const PENDING: JobState = { name: "pending", run_at_ms: 100 };
const FINISHED = { finished_at_ms: NOW_MS };

function running(overrides: Partial<Extract<JobState, { name: "running" }>> = {}): JobState {
  return { name: "running", holder: "w1", expires_at_ms: NOW_MS + 5_000, cancel_requested_at_ms: null, ...overrides };
}

function after(job: Job, event: JobEvent, now_ms = NOW_MS): Change {
  const answer = transition(job, event, { now_ms, random: () => 0.5 });
  if (isRefusal(answer)) throw new Error(`refused: ${answer.refused}`);
  return answer;
}

describe("a running job", () => {
  const holds = (overrides: Parameters<typeof jobIn>[1] = {}): Job =>
    jobIn(running(), { token: 7, run_at_ms: 100, ...overrides });

  test("is completed by exit code 0", () => {
    const done = end("success", { output: "result", beats: 3 });
    const before = holds();
    expect(after(before, { type: "settle", token: 7, end: done })).toEqual({
      state: { name: "completed", ...FINISHED },
      token: 7,
      failures: 0,
      result: { cause: "success", exit_code: 0, error: null, output: "result" },
      reason: null,
      ended: done,
      before,
    });
  });

  test("is completed by a result that comes after the expiry, while nobody else has been granted the job", () => {
    const change = after(holds(), { type: "settle", token: 7, end: end("success") }, NOW_MS + 60_000);
    expect(change.state.name).toBe("completed");
  });

  test.each(["exit", "signal", "timeout", "silent"] as const)(
    "is scheduled with backoff after %p while retries are left",
    (cause) => {
      const settled = { type: "settle", token: 7, end: end(cause) } as const;
      expect(after(holds(), settled)).toMatchObject({
        state: { name: "scheduled", run_at_ms: NOW_MS + 1_000 },
        failures: 1,
        token: 7,
        result: { cause, error: `ended by ${cause}` },
        ended: { cause },
      });
      expect(after(holds({ failures: 2 }), settled).state).toEqual({ name: "scheduled", run_at_ms: NOW_MS + 4_000 });
    },
  );

  test.each(["exit", "signal", "timeout", "silent"] as const)("fails after %p when no retries are left", (cause) => {
    const change = after(holds({ failures: 3 }), { type: "settle", token: 7, end: end(cause) });
    expect(change).toMatchObject({
      state: { name: "failed", ...FINISHED },
      failures: 4,
      result: { cause, error: `ended by ${cause}` },
    });
  });

  test("runs once in all without retries", () => {
    const job = holds({ settings: { retries: 0 } });
    expect(after(job, { type: "settle", token: 7, end: end("exit") }).state.name).toBe("failed");
  });

  test.each(["not_found", "not_executable"] as const)("fails at once after %p, whatever retries are left", (cause) => {
    expect(after(holds(), { type: "settle", token: 7, end: end(cause) }).state.name).toBe("failed");
  });

  test("fails at once by a fatal exit code", () => {
    const job = holds({ settings: { fatal_exit: [[64, 78]] } });
    const settledWith = (exit_code: number): string =>
      after(job, { type: "settle", token: 7, end: end("exit", { exit_code }) }).state.name;
    expect([63, 64, 78, 79].map(settledWith)).toEqual(["scheduled", "failed", "failed", "scheduled"]);
  });

  test("fails at once by its own fault where only loss is retried", () => {
    const job = holds({ settings: { retry_on: "lost" } });
    expect(after(job, { type: "settle", token: 7, end: end("exit") }).state.name).toBe("failed");
    expect(after(job, { type: "recover", cause: "lost", grace_ms: 0 }).state.name).toBe("pending");
  });

  test("is pending again without backoff when its lease expired beyond the grace", () => {
    const change = after(holds(), { type: "recover", cause: "expired", grace_ms: 1_000 }, NOW_MS + 6_001);
    expect(change).toMatchObject({
      state: PENDING,
      failures: 1,
      token: 7,
      result: { cause: "expired" },
      ended: { cause: "expired" },
    });
  });

  test("is left alone to the very end of the grace", () => {
    const event = { type: "recover", cause: "expired", grace_ms: 1_000 } as const;
    const at = (now_ms: number) => transition(holds(), event, { now_ms, random: () => 0.5 });
    expect(at(NOW_MS + 6_000)).toEqual({ refused: "not_expired" });
    expect(at(NOW_MS + 6_001)).not.toHaveProperty("refused");
  });

  test("is pending again at once when its holder is known to be dead", () => {
    const change = after(holds(), { type: "recover", cause: "lost", grace_ms: 60_000 });
    expect(change).toMatchObject({ state: PENDING, failures: 1, result: { cause: "lost" }, ended: { cause: "lost" } });
  });

  test.each(["expired", "lost"] as const)(
    "fails as `max retries exceeded` when it is recovered as %p without retries left",
    (cause) => {
      const change = after(holds({ failures: 3 }), { type: "recover", cause, grace_ms: 0 }, NOW_MS + 5_001);
      expect(change).toMatchObject({
        state: { name: "failed", finished_at_ms: NOW_MS + 5_001 },
        failures: 4,
        result: { cause, error: MAX_RETRIES_EXCEEDED },
        ended: { cause },
      });
      expect(MAX_RETRIES_EXCEEDED).toBe("max retries exceeded");
    },
  );

  test("is pending again, in its old place, when it is returned, and the attempt does not count", () => {
    const change = after(holds({ failures: 3 }), { type: "settle", token: 7, end: end("returned") });
    expect(change).toMatchObject({ state: PENDING, failures: 3, token: 7, ended: { cause: "returned" } });
  });

  test("is due later when it is returned with a pause, and says why", () => {
    const returned = { ...end("returned"), error: "something of it lives", pause_ms: 60_000 };
    const change = after(holds({ failures: 3 }), { type: "settle", token: 7, end: returned });
    const later = { name: "scheduled", run_at_ms: NOW_MS + 60_000 };
    expect(change).toMatchObject({ state: later, failures: 3, result: { error: "something of it lives" } });
  });
});

describe("a job that was asked to stop", () => {
  const asked = (overrides: Parameters<typeof jobIn>[1] = {}): Job =>
    jobIn(running({ cancel_requested_at_ms: 50 }), { token: 7, reason: "not needed", ...overrides });

  const BY_ITSELF: ReadonlySet<Cause> = new Set(["success", "exit", "signal", "error"]);

  test.each(CAUSES)("is cancelled and never retried when its attempt ends by %p", (cause) => {
    const change = after(asked(), { type: "settle", token: 7, end: end(cause) });
    expect(change).toMatchObject({
      state: { name: "cancelled", ...FINISHED },
      reason: "not needed",
      ended: { cause: BY_ITSELF.has(cause) ? "cancelled" : cause },
    });
  });

  test.each(["expired", "lost"] as const)("is cancelled when it is recovered as %p", (cause) => {
    const change = after(asked(), { type: "recover", cause, grace_ms: 0 }, NOW_MS + 5_001);
    expect(change).toMatchObject({ state: { name: "cancelled" }, ended: { cause } });
  });

  test("is cancelled when it is recovered, also by a clock that was set back behind the request", () => {
    const job = jobIn(running({ cancel_requested_at_ms: NOW_MS + 3_600_000 }), { token: 7, failures: 3 });
    const change = after(job, { type: "recover", cause: "expired", grace_ms: 0 }, NOW_MS + 5_001);
    expect(change.state.name).toBe("cancelled");
  });

  test("is completed if it had finished first", () => {
    const change = after(asked(), { type: "settle", token: 7, end: end("success"), ended_at_ms: 49 });
    expect(change).toMatchObject({ state: { name: "completed" }, reason: null, result: { cause: "success" } });
    const late = after(asked(), { type: "settle", token: 7, end: end("success"), ended_at_ms: 50 });
    expect(late).toMatchObject({ state: { name: "cancelled" }, result: { cause: "cancelled", exit_code: 0 } });
  });

  test("is failed if it had failed for good first, and is not retried if it had not", () => {
    const failure = { type: "settle", token: 7, end: end("exit"), ended_at_ms: 49 } as const;
    expect(after(asked({ settings: { retries: 0 } }), failure)).toMatchObject({ state: { name: "failed" } });
    expect(after(asked({ settings: { retries: 1 } }), failure)).toMatchObject({ state: { name: "cancelled" } });
  });
});
