/**
 * Questions about jobs: by id, as lists, as figures.
 */

import { describe, expect } from "bun:test";
import type { ListQuery } from "../../src/store/queries.ts";
import { end } from "../support/jobs.ts";
import { only, type StoreTest, type Subject } from "./subject.ts";

async function list(s: Subject, query: Partial<ListQuery> = {}): Promise<number[]> {
  return (await s.store.list({ limit: 100, newest_first: false, ...query })).map(({ id }) => id);
}

export function readContract(test: StoreTest): void {
  describe("now", () => {
    test("is asked anew, unless an older reading will do", async (s) => {
      const before_ms = await s.store.now();
      await s.passTime(5_000);
      // What was read before, and moved on by as much as has really passed.
      expect(await s.store.now({ within_ms: 60_000 })).toBeGreaterThanOrEqual(before_ms);
      s.sameTime(await s.store.now(), before_ms + 5_000);
      s.sameTime(await s.store.now({ within_ms: 0 }), before_ms + 5_000);
    });
  });

  describe("jobs", () => {
    test("come in the order asked, null for an unknown one, and twice if asked twice", async (s) => {
      const [first, second] = (await s.enqueue({}, {})) as [number, number];
      const jobs = await s.store.jobs([second, 999, first, second]);
      expect(jobs.map((job) => job?.id ?? null)).toEqual([second, null, first, second]);
      expect(await s.store.jobs([])).toEqual([]);
    });

    test("come in any number", async (s) => {
      const ids = await s.enqueue(...Array.from({ length: 2_000 }, () => ({})));
      expect((await s.store.jobs(ids)).map((job) => job?.id)).toEqual(ids);
    });
  });

  describe("list", () => {
    test("is in order of id, either way round, up to the limit", async (s) => {
      const [a, b, c] = (await s.enqueue({}, { priority: 9 }, {})) as [number, number, number];
      expect(await list(s)).toEqual([a, b, c]);
      expect(await list(s, { newest_first: true })).toEqual([c, b, a]);
      expect(await list(s, { limit: 2 })).toEqual([a, b]);
      expect(await list(s, { limit: 2, newest_first: true })).toEqual([c, b]);
    });

    test("holds whole jobs", async (s) => {
      const id = await s.enqueueOne({ input: new Uint8Array([1, 255]), env: { A: "1" } });
      expect(only(await s.store.list({ limit: 9, newest_first: false }))).toEqual(await s.job(id));
    });

    test("can be narrowed to states, queues and a task, all at once", async (s) => {
      const running = (await s.granted({ queue: "a", task: "t" })).job.id;
      const [pending, otherTask, otherQueue, scheduled] = (await s.enqueue(
        { queue: "a", task: "t" },
        { queue: "a", task: "u" },
        { queue: "b", task: "t" },
        { queue: "c", delay_ms: 1_000 },
      )) as [number, number, number, number];
      expect(await list(s, { states: ["running"] })).toEqual([running]);
      expect(await list(s, { states: ["running", "scheduled"] })).toEqual([running, scheduled]);
      expect(await list(s, { queues: ["b", "c"] })).toEqual([otherQueue, scheduled]);
      expect(await list(s, { task: "t" })).toEqual([running, pending, otherQueue]);
      expect(await list(s, { states: ["pending"], queues: ["a"], task: "t" })).toEqual([pending]);
      expect(await list(s, { states: [] })).toEqual([]);
      expect(await list(s, { task: "nothing" })).toEqual([]);
      expect(await list(s, { queues: ["a"], task: "u" })).toEqual([otherTask]);
    });

    test("can be narrowed to what has happened since a moment", async (s) => {
      const grant = await s.granted();
      const old = await s.finished("completed");
      await s.passTime(10_000);
      const since_ms = await s.store.now();
      expect(await list(s, { since_ms: since_ms + 1 + s.slack_ms })).toEqual([]);
      await s.settle(grant);
      const fresh = await s.enqueueOne();
      const found = await list(s, { since_ms });
      expect(found).toEqual([grant.job.id, fresh]);
      expect(found).not.toContain(old);
    });
  });

  describe("attempts", () => {
    test("of a job that never ran, or is unknown, are none", async (s) => {
      expect(await s.store.attempts(await s.enqueueOne())).toEqual([]);
      expect(await s.store.attempts(999)).toEqual([]);
    });

    test("are those of the job alone, in order, the running one last and without an end", async (s) => {
      const other = await s.granted();
      const first = await s.granted();
      await s.settle(first, end("returned"));
      await s.settle(only(await s.acquire({ holder: "w2" })), end("returned"));
      await s.acquire({ holder: "w3" });
      const attempts = await s.store.attempts(first.job.id);
      expect(attempts.map(({ attempt, worker, end: ended }) => [attempt, worker, ended?.cause ?? null])).toEqual([
        [1, "w1", "returned"],
        [2, "w2", "returned"],
        [3, "w3", null],
      ]);
      expect(await s.store.attempts(other.job.id)).toHaveLength(1);
    });
  });

  describe("counts", () => {
    test("add up the jobs of each queue and state", async (s) => {
      await s.finished("completed", { queue: "a" });
      await s.granted({ queue: "a" });
      await s.enqueue({ queue: "a" }, { queue: "a" }, { queue: "b", delay_ms: 1_000 }, { queue: "b" });
      const counts = (await s.store.counts()).filter(({ count }) => count > 0);
      expect(counts.map(({ queue, state, count }) => `${queue} ${state} ${count}`).toSorted()).toEqual([
        "a completed 1",
        "a pending 2",
        "a running 1",
        "b pending 1",
        "b scheduled 1",
      ]);
    });
  });

  describe("retryCounts", () => {
    test("tell how many jobs that ran to their end needed how many retries", async (s) => {
      expect(await s.store.retryCounts()).toEqual([]);
      await s.finished("completed");
      await s.finished("failed");
      const twice = await s.granted();
      await s.settle(twice, end("exit"));
      await s.passTime(1_000);
      await s.settle(only(await s.acquire()));
      await s.granted();
      await s.store.cancel([await s.enqueueOne()], null);
      expect(await s.store.retryCounts()).toEqual([
        { retries: 0, jobs: 2 },
        { retries: 1, jobs: 1 },
      ]);
    });
  });

  describe("nextDue", () => {
    test("is the earliest time of a scheduled job, in any queue, and null when none is scheduled", async (s) => {
      await s.enqueue({});
      expect(await s.store.nextDue()).toBeNull();
      const [, soon] = await s.enqueue({ delay_ms: 9_000 }, { delay_ms: 5_000, queue: "b" });
      const { run_at_ms } = await s.job(soon as number);
      expect(await s.store.nextDue()).toBe(run_at_ms);
      await s.passTime(20_000);
      await s.store.promote();
      expect(await s.store.nextDue()).toBeNull();
    });
  });

  describe("backlog", () => {
    test("of an empty store is nothing", async (s) => {
      const nothing = { pending: 0, running: 0, retrying: 0, waiting: 0, next_due_ms: null };
      expect(await s.store.backlog({ queues: null, task: null })).toEqual(nothing);
      expect(await s.store.backlog({ queues: ["a"], task: "t" })).toEqual(nothing);
    });

    test("tells what waits for its retry from what a person delayed", async (s) => {
      const grant = await s.granted();
      await s.settle(grant, end("exit"));
      await s.granted();
      await s.enqueue({ delay_ms: 60_000 }, { delay_ms: 70_000 }, {}, {}, {});
      await s.finished("completed", { priority: 9 });
      const { next_due_ms, ...rest } = await s.store.backlog({ queues: null, task: null });
      expect(rest).toEqual({ pending: 3, running: 1, retrying: 1, waiting: 2 });
      expect(next_due_ms).toBe((await s.job(grant.job.id)).run_at_ms);
    });

    test("is that of the queues and the task asked for", async (s) => {
      const [soon] = await s.enqueue(
        { queue: "a", delay_ms: 9_000 },
        { queue: "a", delay_ms: 5_000, task: "t" },
        { queue: "b", task: "t" },
        { queue: "c", delay_ms: 1_000 },
      );
      const { run_at_ms } = await s.job((soon as number) + 1);
      const backlog = (queues: string[] | null, task: string | null) => s.store.backlog({ queues, task });
      expect(await backlog(["a", "b"], null)).toMatchObject({ pending: 1, waiting: 2, next_due_ms: run_at_ms });
      expect(await backlog(null, "t")).toMatchObject({ pending: 1, waiting: 1, next_due_ms: run_at_ms });
      expect(await backlog(["b"], "t")).toMatchObject({ pending: 1, waiting: 0, next_due_ms: null });
    });
  });
}
