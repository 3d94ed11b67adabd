/**
 * The rows of the table of states that a store decides by itself. `after` applies one event and answers the change;
 * what is refused is in life_refusal.test.ts, what holds over whole lives in life_properties.test.ts.
 */

import { describe, expect, test } from "bun:test";
import type { Job, JobState } from "../../src/core/job.ts";
import { isRefusal } from "../../src/core/transition.ts";
import { jobIn } from "../support/jobs.ts";
import { happen, type LifeChange, type LifeEvent } from "./life.ts";

const NOW_MS = 1_000_000;
const PENDING: JobState = { name: "pending", run_at_ms: 100 };
const SCHEDULED: JobState = { name: "scheduled", run_at_ms: NOW_MS };
const FINISHED = { finished_at_ms: NOW_MS };

function running(overrides: Partial<Extract<JobState, { name: "running" }>> = {}): JobState {
  return { name: "running", holder: "w1", expires_at_ms: NOW_MS + 5_000, cancel_requested_at_ms: null, ...overrides };
}

function after(job: Job, event: LifeEvent, now_ms = NOW_MS): LifeChange {
  const answer = happen(job, event, { now_ms, random: () => 0.5 });
  if (isRefusal(answer)) throw new Error(`refused: ${answer.refused}`);
  return answer;
}

describe("a blocked job", () => {
  test("becomes pending when all dependencies are satisfied", () => {
    const job = jobIn({ name: "blocked" }, { run_at_ms: 100, reason: "waits for 3" });
    expect(after(job, { type: "unblock" })).toMatchObject({ state: PENDING, reason: null, token: 0, ended: null });
  });

  test("becomes scheduled when its dependencies are satisfied before its time has come", () => {
    const job = jobIn({ name: "blocked" }, { run_at_ms: NOW_MS + 1 });
    expect(after(job, { type: "unblock" }).state).toEqual({ name: "scheduled", run_at_ms: NOW_MS + 1 });
  });

  test("is cancelled, with the reason, when a dependency can't be satisfied any more", () => {
    const change = after(jobIn({ name: "blocked" }), { type: "doom", reason: "job 3 failed" });
    expect(change).toMatchObject({ state: { name: "cancelled", ...FINISHED }, reason: "job 3 failed", ended: null });
  });
});

describe("a scheduled job", () => {
  test("becomes pending when it is due, keeping its time", () => {
    const change = after(jobIn(SCHEDULED, { token: 2, failures: 1 }), { type: "due" });
    expect(change).toMatchObject({ state: { name: "pending", run_at_ms: NOW_MS }, token: 2, failures: 1 });
  });
});

describe("a pending job", () => {
  test("runs when it is acquired: a holder, an expiry, the next token", () => {
    const change = after(jobIn(PENDING, { token: 4, failures: 2 }), { type: "acquire", holder: "w1", lease_ms: 5_000 });
    expect(change).toMatchObject({ state: running(), token: 5, failures: 2, ended: null });
  });

  test("forgets why it waited when it is acquired", () => {
    const job = jobIn(PENDING, { reason: "returned" });
    expect(after(job, { type: "acquire", holder: "w1", lease_ms: 1 }).reason).toBeNull();
  });
});

describe("a running job", () => {
  const holds = (overrides: Parameters<typeof jobIn>[1] = {}): Job =>
    jobIn(running(), { token: 7, run_at_ms: 100, ...overrides });

  test("has a lease from now on when it is extended, and nothing else changes", () => {
    const change = after(holds({ failures: 1 }), { type: "extend", token: 7, lease_ms: 9_000 });
    expect(change).toMatchObject({
      state: running({ expires_at_ms: NOW_MS + 9_000 }),
      token: 7,
      failures: 1,
      ended: null,
    });
  });

  test("can be extended in the very millisecond in which its lease ends", () => {
    const change = after(holds(), { type: "extend", token: 7, lease_ms: 1_000 }, NOW_MS + 5_000);
    expect(change.state).toEqual(running({ expires_at_ms: NOW_MS + 6_000 }));
  });

  test("stays asked to stop when it is extended", () => {
    const asked = running({ cancel_requested_at_ms: 50 });
    const change = after(jobIn(asked, { token: 7 }), { type: "extend", token: 7, lease_ms: 5_000 });
    expect(change.state).toEqual(asked);
  });

  test("runs on when it is cancelled, and is asked to stop", () => {
    const change = after(holds(), { type: "cancel", reason: "not needed" });
    expect(change).toMatchObject({
      state: running({ cancel_requested_at_ms: NOW_MS }),
      reason: "not needed",
      token: 7,
      ended: null,
    });
  });

  test("remembers the first of two requests to stop", () => {
    const job = jobIn(running({ cancel_requested_at_ms: 50 }), { reason: "first" });
    const change = after(job, { type: "cancel", reason: "second" });
    expect(change).toMatchObject({ state: { cancel_requested_at_ms: 50 }, reason: "first" });
  });
});

describe("a job that waits", () => {
  const waiting: [string, JobState][] = [
    ["blocked", { name: "blocked" }],
    ["scheduled", SCHEDULED],
    ["pending", PENDING],
  ];

  test.each(waiting)("is cancelled at once while it is %s", (_, state) => {
    const change = after(jobIn(state, { token: 2, failures: 1 }), { type: "cancel", reason: "not needed" });
    expect(change).toMatchObject({
      state: { name: "cancelled", ...FINISHED },
      reason: "not needed",
      token: 2,
      failures: 1,
      ended: null,
    });
  });
});

describe("a finished job", () => {
  test.each(["completed", "failed", "cancelled"] as const)(
    "%p is pending again when a person retries it, with all its retries and its token",
    (name) => {
      const job = jobIn(
        { name, finished_at_ms: 5 },
        { token: 9, failures: 4, reason: "old", result: { cause: "exit", exit_code: 1, error: "old", output: "old" } },
      );
      expect(after(job, { type: "retry" })).toEqual({
        state: { name: "pending", run_at_ms: NOW_MS },
        token: 9,
        failures: 0,
        result: { cause: null, exit_code: null, error: null, output: null },
        reason: null,
        ended: null,
        before: job,
      });
    },
  );
});
