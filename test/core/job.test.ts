import { describe, expect, test } from "bun:test";
import { EXIT_CODES, LeaseError, assert } from "../../src/core/errors.ts";
import { isFinished, retriesLeft, shownState, type JobState } from "../../src/core/job.ts";
import { jobIn } from "../support/jobs.ts";

const running = (cancel_requested_at_ms: number | null): JobState => ({
  name: "running",
  holder: "w",
  expires_at_ms: 10,
  cancel_requested_at_ms,
});

describe("shownState", () => {
  test("says cancelling for a running job that was asked to stop", () => {
    expect(shownState(jobIn(running(5)))).toBe("cancelling");
    expect(shownState(jobIn(running(0)))).toBe("cancelling");
    expect(shownState(jobIn(running(null)))).toBe("running");
  });

  test("says retrying for a scheduled job that has already run", () => {
    expect(shownState(jobIn({ name: "scheduled", run_at_ms: 9 }, { token: 1 }))).toBe("retrying");
    expect(shownState(jobIn({ name: "scheduled", run_at_ms: 9 }, { token: 0 }))).toBe("scheduled");
  });

  test("says the stored name of every other state", () => {
    expect(shownState(jobIn({ name: "blocked" }))).toBe("blocked");
    expect(shownState(jobIn({ name: "pending", run_at_ms: 0 }, { token: 3 }))).toBe("pending");
    expect(shownState(jobIn({ name: "failed", finished_at_ms: 0 }, { token: 3 }))).toBe("failed");
  });
});

describe("isFinished", () => {
  test("is true of the three terminal states", () => {
    const states: JobState[] = [
      { name: "blocked" },
      { name: "scheduled", run_at_ms: 0 },
      { name: "pending", run_at_ms: 0 },
      running(null),
      { name: "completed", finished_at_ms: 0 },
      { name: "failed", finished_at_ms: 0 },
      { name: "cancelled", finished_at_ms: 0 },
    ];
    expect(states.filter(isFinished).map((state) => state.name)).toEqual(["completed", "failed", "cancelled"]);
  });
});

describe("retriesLeft", () => {
  test("counts down with the failures and stops at none", () => {
    const left = (failures: number): number =>
      retriesLeft(jobIn({ name: "blocked" }, { failures, settings: { retries: 2 } }));
    expect([0, 1, 2, 3].map(left)).toEqual([2, 1, 0, 0]);
  });
});

describe("LeaseError", () => {
  test("has the exit code of its code, and only those that the specification knows", () => {
    expect(new LeaseError("lease_lost", "the lease is lost").exit_code).toBe(4);
    expect(new LeaseError("cancel_requested", "stop").exit_code).toBe(3);
    expect(new Set(Object.values(EXIT_CODES))).toEqual(new Set([1, 2, 3, 4, 124, 125, 126, 127]));
  });

  test("keeps what caused it", () => {
    const cause = new Error("disk");
    expect(new LeaseError("store_full", "make room", { cause }).cause).toBe(cause);
  });
});

describe("assert", () => {
  test("fails loudly on a broken promise and says which", () => {
    expect(() => assert(false, "a token fell")).toThrow("broken promise: a token fell");
    expect(() => assert(true, "fine")).not.toThrow();
  });
});
