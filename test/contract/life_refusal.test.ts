/**
 * What does not happen to a job. Every pair of state and event that the table does not name is refused.
 */

import { describe, expect, test } from "bun:test";
import { STATE_NAMES, type JobState, type StateName } from "../../src/core/job.ts";
import { holdsLease, isRefusal, lossReason } from "../../src/core/transition.ts";
import { end, jobIn } from "../support/jobs.ts";
import { happen, type LifeEvent } from "./life.ts";

const NOW_MS = 1_000_000;
const TOKEN = 7;

function stateOf(name: StateName): JobState {
  switch (name) {
    case "blocked":
      return { name };
    case "scheduled":
    case "pending":
      return { name, run_at_ms: NOW_MS };
    case "running":
      return { name, holder: "w1", expires_at_ms: NOW_MS, cancel_requested_at_ms: null };
    default:
      return { name, finished_at_ms: NOW_MS };
  }
}

function refusalOf(state: JobState, event: LifeEvent, now_ms = NOW_MS): string | null {
  const answer = happen(jobIn(state, { token: TOKEN }), event, { now_ms, random: () => 0.5 });
  return isRefusal(answer) ? answer.refused : null;
}

const EVENTS: Record<LifeEvent["type"], { event: LifeEvent; from: readonly StateName[]; otherwise: string }> = {
  unblock: { event: { type: "unblock" }, from: ["blocked"], otherwise: "wrong_state" },
  doom: { event: { type: "doom", reason: "r" }, from: ["blocked"], otherwise: "wrong_state" },
  due: { event: { type: "due" }, from: ["scheduled"], otherwise: "wrong_state" },
  acquire: { event: { type: "acquire", holder: "w", lease_ms: 1 }, from: ["pending"], otherwise: "wrong_state" },
  extend: { event: { type: "extend", token: TOKEN, lease_ms: 1 }, from: ["running"], otherwise: "expired" },
  settle: { event: { type: "settle", token: TOKEN, end: end("success") }, from: ["running"], otherwise: "expired" },
  recover: { event: { type: "recover", cause: "lost", grace_ms: 0 }, from: ["running"], otherwise: "wrong_state" },
  cancel: {
    event: { type: "cancel", reason: null },
    from: ["blocked", "scheduled", "pending", "running"],
    otherwise: "finished",
  },
  retry: { event: { type: "retry" }, from: ["completed", "failed", "cancelled"], otherwise: "wrong_state" },
};

describe.each(Object.entries(EVENTS))("%s", (_, { event, from, otherwise }) => {
  test.each(STATE_NAMES.filter((name) => from.includes(name)))("happens to a job that is %s", (name) => {
    expect(refusalOf(stateOf(name), event)).toBeNull();
  });

  test.each(STATE_NAMES.filter((name) => !from.includes(name)))("does not happen to a job that is %s", (name) => {
    expect(refusalOf(stateOf(name), event)).toBe(otherwise);
  });
});

describe("a holder", () => {
  const running = stateOf("running");

  test.each([
    { type: "extend", lease_ms: 1 },
    { type: "settle", end: end("success") },
  ] as const)("is told that it conflicts when its token is not the current one", (event) => {
    expect(refusalOf(running, { ...event, token: TOKEN - 1 })).toBe("conflict");
    expect(refusalOf(running, { ...event, token: TOKEN + 1 })).toBe("conflict");
    expect(refusalOf(stateOf("pending"), { ...event, token: TOKEN - 1 })).toBe("conflict");
  });

  test("can't extend a lease a millisecond after it ended", () => {
    const extend = { type: "extend", token: TOKEN, lease_ms: 1_000 } as const;
    expect(refusalOf(running, extend, NOW_MS)).toBeNull();
    expect(refusalOf(running, extend, NOW_MS + 1)).toBe("expired");
  });

  test("learns whether anyone has been granted the job since", () => {
    expect(lossReason({ token: 3 }, 3)).toBe("expired");
    expect(lossReason({ token: 4 }, 3)).toBe("conflict");
  });

  test("holds a lease by running, by the token, and by the clock", () => {
    const job = { state: running, token: TOKEN };
    expect(holdsLease(job, TOKEN, NOW_MS)).toBe(true);
    expect(holdsLease(job, TOKEN, NOW_MS + 1)).toBe(false);
    expect(holdsLease(job, TOKEN - 1, NOW_MS)).toBe(false);
    expect(holdsLease({ state: stateOf("pending"), token: TOKEN }, TOKEN, NOW_MS)).toBe(false);
  });
});

describe("a sweep", () => {
  test("can't recover a job until its lease has been over for longer than the grace", () => {
    const expired = { type: "recover", cause: "expired", grace_ms: 100 } as const;
    const tried = [-1, 0, 100, 101].map((past_ms) => refusalOf(stateOf("running"), expired, NOW_MS + past_ms));
    expect(tried).toEqual(["not_expired", "not_expired", "not_expired", null]);
  });
});

describe("a scheduled job", () => {
  test("is not due before its time", () => {
    const tried = [-1, 0, 1].map((past_ms) => refusalOf(stateOf("scheduled"), { type: "due" }, NOW_MS + past_ms));
    expect(tried).toEqual(["not_due", null, null]);
  });
});
