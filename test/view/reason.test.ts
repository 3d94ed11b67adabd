import { describe, expect, test } from "bun:test";
import type { Job, JobState } from "../../src/core/job.ts";
import { failureText, NO_FACTS, reasonOf, type ReasonFacts } from "../../src/view/reason.ts";
import { jobIn } from "../support/jobs.ts";

const now_ms = 1_000_000_000;
const pending: JobState = { name: "pending", run_at_ms: 0 };
const blocked: JobState = { name: "blocked" };
const dueIn = (ms: number): JobState => ({ name: "scheduled", run_at_ms: now_ms + ms });
const running = (expires_in_ms: number, cancel_ago_ms: number | null = null): JobState => ({
  name: "running",
  holder: "w",
  expires_at_ms: now_ms + expires_in_ms,
  cancel_requested_at_ms: cancel_ago_ms === null ? null : now_ms - cancel_ago_ms,
});
const ended = (name: "completed" | "failed" | "cancelled"): JobState => ({ name, finished_at_ms: now_ms });

const why = (state: JobState, job: Partial<Omit<Job, "settings">> = {}, facts: Partial<ReasonFacts> = {}) =>
  reasonOf(jobIn(state, job), { ...NO_FACTS, ...facts }, now_ms);

test("a job without a command waits for a worker that has a handler", () => {
  const job = jobIn({ name: "pending", run_at_ms: 0 }, { queue: "gpu", argv: [] });
  expect(reasonOf(job, { ...NO_FACTS, workers: 0 }, 0)).toBe("no worker of queue gpu has a handler for it");
});

describe("a pending job", () => {
  test.each<[string | null, Partial<ReasonFacts>]>([
    ["queue paused", { queue_paused: true, workers: 0 }],
    ["no worker serves queue gpu", { workers: 0 }],
    ["the workers of queue gpu take other tasks only", { workers: 0, other_tasks: true }],
    ["next in line", { workers: 1, jobs_before: 0, free_slots: 1 }],
    ["next in line, all slots busy", { workers: 1, jobs_before: 0, free_slots: 0 }],
    ["1 job ahead", { workers: 1, jobs_before: 1 }],
    ["12 jobs ahead, all slots busy", { workers: 1, jobs_before: 12, free_slots: 0 }],
    ["one of 70000 in line, all slots busy", { workers: 1, in_line: 70_000, free_slots: 0 }],
    [null, {}],
  ])("waits because: %s", (reason, facts) => {
    expect(why(pending, { queue: "gpu" }, facts)).toBe(reason);
  });
});

describe("how it ended", () => {
  const failed = (cause: "exit" | "silent", error: string) =>
    jobIn(ended("failed"), { result: { cause, exit_code: null, error, output: null } });

  test("is told with the last line, unless that is in it, or came only when it was stopped", () => {
    expect(failureText({ job: failed("exit", "exit code 1"), last_line: "no such file" })).toBe(
      "exit code 1: no such file",
    );
    expect(failureText({ job: failed("exit", "exit code 1"), last_line: null })).toBe("exit code 1");
    const silent = "silent 5m of 5m, nothing was printed";
    expect(failureText({ job: failed("silent", silent), last_line: "Terminated" })).toBe(silent);
  });

  test("is no reason where it only says the state again", () => {
    const cancelled = (error: string | null) => ({
      result: { cause: "cancelled" as const, exit_code: null, error, output: null },
    });
    expect(why(ended("cancelled"), cancelled("cancelled"))).toBeNull();
    expect(why(ended("cancelled"), { ...cancelled("cancelled"), reason: "wrong branch" })).toBe("wrong branch");
  });
});

describe("a damaged job", () => {
  test("says what can't be read of it, whatever else it waits for, unless it runs all the same", () => {
    const damaged = "damaged: argv is not JSON";
    expect(why(pending, { damaged }, { workers: 0 })).toBe(damaged);
    expect(why(dueIn(7_200_000), { damaged })).toBe(damaged);
    expect(why(running(60_000), { damaged, message: "half" })).toBe("half");
  });
});

describe("a scheduled job", () => {
  test("is due later because somebody wanted it so", () => {
    expect(why(dueIn(7_200_000))).toBe("due in 2h");
    expect(why(dueIn(-5))).toBe("due now");
  });

  test("or is tried again after a failure", () => {
    expect(why(dueIn(41_000), { token: 2, failures: 2 })).toBe("retry 2 of 3 in 41s");
    expect(why(dueIn(-5), { token: 1, failures: 1 })).toBe("retry 1 of 3 due");
  });

  test("tells when it is due and nobody is there to take it", () => {
    expect(why(dueIn(-5), { queue: "gpu" }, { workers: 0 })).toBe("due now, no worker serves queue gpu");
    expect(why(dueIn(41_000), { queue: "gpu" }, { workers: 0 })).toBe("due in 41s");
  });

  test("tells when its queue is paused as well", () => {
    expect(why(dueIn(41_000), {}, { queue_paused: true })).toBe("due in 41s, queue paused");
  });
});

describe("a blocked job", () => {
  const parent = (id: number, state: "running" | "pending", ago_ms: number | null) => ({
    id,
    state,
    since_ms: ago_ms === null ? null : now_ms - ago_ms,
  });

  test("names what it waits for and how that is", () => {
    expect(why(blocked, {}, { parents: [parent(12, "running", 192_000)] })).toBe("waits for 12 (running 3m)");
  });

  test("names two of many", () => {
    const parents = [parent(12, "running", 192_000), parent(13, "pending", null), parent(14, "pending", null)];
    expect(why(blocked, {}, { parents })).toBe("waits for 12 (running 3m), 13 (pending) and 1 more");
  });

  test("says so even when nobody looked for its parents", () => {
    expect(why(blocked)).toBe("waits for other jobs");
  });
});

describe("a running job", () => {
  test("tells of a cancel request before anything else", () => {
    expect(why(running(-5_000, 4_000), { progress: 40 })).toBe("cancel asked 4s ago");
  });

  test("tells that its worker died, whatever it said last", () => {
    expect(why(running(5_000), { progress: 40 }, { holder_dead: true })).toBe("its worker died, waits for a sweep");
  });

  test("tells that its lease ran out", () => {
    expect(why(running(-12_000))).toBe("lease ran out 12s ago, waits for a sweep");
  });

  test("tells how far it is, or when it was last heard of", () => {
    expect(why(running(5_000), { progress: 40, message: "linking" })).toBe("40 % linking");
    expect(why(running(5_000), { message: "linking" })).toBe("linking");
    expect(why(running(5_000), { last_beat_at_ms: now_ms - 2_000 })).toBe("beat 2s ago");
    expect(why(running(5_000))).toBeNull();
  });
});

describe("a finished job", () => {
  const result = { cause: "exit", exit_code: 3, error: "exit code 3", output: null } as const;

  test("needs no reason when it completed", () => {
    expect(why(ended("completed"))).toBeNull();
  });

  test("tells how it failed, or why it was cancelled", () => {
    expect(why(ended("failed"), { result })).toBe("exit code 3");
    expect(why(ended("cancelled"), { reason: "dependency 101 failed", result })).toBe("dependency 101 failed");
  });
});
