/**
 * Figures about all jobs. A store may keep them as it goes instead of counting, so they are compared with what the jobs
 * themselves say after everything that can happen to a job.
 */

import { describe, expect } from "bun:test";
import type { Selection } from "../../src/store/queries.ts";
import type { Store } from "../../src/store/store.ts";
import { end, newJob } from "../support/jobs.ts";
import { codeOf, only, type StoreTest, type Subject } from "./subject.ts";

async function counted(store: Store, selection?: Selection): Promise<string[]> {
  const counts = (await store.counts(selection)).filter(({ count }) => count > 0);
  return counts.map(({ queue, state, count }) => `${queue} ${state} ${count}`).toSorted();
}

/** The figures as they must be, from the jobs one by one. */
async function countedByHand(store: Store): Promise<{ counts: string[]; retries: Record<number, number> }> {
  const counts: Record<string, number> = {};
  const retries: Record<number, number> = {};
  for (const { queue, state, token } of await store.list({ limit: 10_000, newest_first: false })) {
    counts[`${queue} ${state.name}`] = (counts[`${queue} ${state.name}`] ?? 0) + 1;
    const ran = state.name === "completed" || state.name === "failed";
    if (ran) retries[token - 1] = (retries[token - 1] ?? 0) + 1;
  }
  const lines = Object.entries(counts).map(([name, count]) => `${name} ${count}`);
  return { counts: lines.toSorted(), retries };
}

async function isRight(s: Subject): Promise<void> {
  const expected = await countedByHand(s.store);
  expect(await counted(s.store)).toEqual(expected.counts);
  const retries = (await s.store.retryCounts()).map(({ retries: times, jobs }) => [times, jobs]);
  expect(Object.fromEntries(retries)).toEqual(expected.retries);
  expect(retries).toEqual(retries.toSorted(([a = 0], [b = 0]) => a - b));
}

export function figuresContract(test: StoreTest): void {
  describe("leases", () => {
    test("tells of none where none is held", async (s) => {
      await s.enqueue({}, {});
      expect(await s.store.leases()).toEqual({ held: 0, stale: 0, next_expires_at_ms: null });
    });

    test("counts those that are held and those that are over, and tells the next end", async (s) => {
      await s.granted({ settings: { lease_ms: 1_000 } });
      const second = await s.granted({ settings: { lease_ms: 30_000 } });
      await s.granted({ settings: { lease_ms: 90_000 } });
      await s.passTime(5_000);
      expect(await s.store.leases()).toEqual({ held: 3, stale: 1, next_expires_at_ms: second.expires_at_ms });
      await s.settle(second, end("success"));
      expect(await s.store.leases()).toMatchObject({ held: 2, stale: 1 });
    });
  });

  describe("counts and retryCounts", () => {
    test("stay right while jobs are settled, one by one and many at once", async (s) => {
      await s.enqueue({ queue: "a" }, { queue: "a" }, { queue: "b" }, { queue: "b" }, { queue: "b", delay_ms: 9_000 });
      const [first, ...rest] = await s.acquire({ count: 4 });
      await isRight(s);
      if (first) await s.settle(first);
      await isRight(s);
      const causes = ["exit", "returned", "not_found"] as const;
      const ends = rest.map(({ job }, index) => s.ending(job, end(causes[index] ?? "success")));
      await s.store.settle(await Promise.all(ends));
      await isRight(s);
      expect(await counted(s.store)).toEqual([
        "a completed 1",
        "a scheduled 1",
        "b failed 1",
        "b pending 1",
        "b scheduled 1",
      ]);
    });

    test("stay right through retries by a person, again and again", async (s) => {
      const id = await s.finished("failed", { queue: "a" });
      await s.finished("failed", { queue: "a" });
      for (let round = 0; round < 3; round++) {
        await s.store.retry([id]);
        await isRight(s);
        const grant = only(await s.acquire());
        await isRight(s);
        await s.settle(grant, end(round % 2 === 0 ? "success" : "exit"));
        await isRight(s);
      }
      expect(await counted(s.store)).toEqual(["a completed 1", "a failed 1"]);
      expect(await s.store.retryCounts()).toEqual([
        { retries: 0, jobs: 1 },
        { retries: 3, jobs: 1 },
      ]);
    });

    test("stay right when jobs are cancelled: waiting, running, and all that wait for them", async (s) => {
      const grant = await s.granted({ queue: "a" });
      const [root, delayed] = (await s.enqueue({ queue: "a" }, { queue: "b", delay_ms: 9_000 })) as [number, number];
      const [child] = (await s.enqueue({ queue: "c", after: [root] })) as [number];
      await s.enqueue({ queue: "d", after: [child] }, { queue: "d", after_any: [root] });
      await isRight(s);
      await s.store.cancel([root, delayed, grant.job.id, 999], "not needed");
      await isRight(s);
      expect(await counted(s.store)).toEqual([
        "a cancelled 1",
        "a running 1",
        "b cancelled 1",
        "c cancelled 1",
        "d cancelled 1",
        "d pending 1",
      ]);
      await s.settle(grant, end("cancelled"));
      await s.store.cancel([root, grant.job.id], null);
      await isRight(s);
      await s.store.retry([root, child]);
      await isRight(s);
    });

    test("stay right when a sweep recovers jobs, fails them, or finds them changed", async (s) => {
      const ids: number[] = [];
      for (const retries of [0, 1, 2]) ids.push((await s.granted({ settings: { retries } })).job.id);
      await s.store.cancel(ids.slice(2), null);
      await s.passTime(100_000);
      const requests = await Promise.all(ids.map((id) => s.recovery(id)));
      await s.store.recover(requests);
      await isRight(s);
      expect(await s.store.recover(requests)).toEqual(["changed", "changed", "changed"]);
      await isRight(s);
      expect(await counted(s.store)).toEqual(["default cancelled 1", "default failed 1", "default pending 1"]);
    });

    test("do not move when a stale or late write is refused", async (s) => {
      const grant = await s.granted();
      await s.settle(grant);
      await s.settle(grant, end("exit"));
      await s.settle(grant);
      await isRight(s);
      const late = await s.granted();
      await s.store.cancel([late.job.id], null);
      expect(await s.settle(late, end("exit"))).toEqual({ status: "cancelling" });
      await isRight(s);
    });

    test("do not move when a batch is refused that would have replaced jobs", async (s) => {
      await s.enqueueOne({ key: "k", queue: "a" });
      const batch = [newJob({ key: "k", if_exists: "replace" }), newJob({ argv: [] })];
      expect(await codeOf(s.store.enqueue(batch))).toBe("invalid_job");
      await isRight(s);
      await s.store.enqueue(batch.slice(0, 1));
      await isRight(s);
      expect(await counted(s.store)).toEqual(["a cancelled 1", "default pending 1"]);
    });

    test("stay right when jobs are cancelled by what they are made to wait for", async (s) => {
      const failed = await s.finished("failed");
      await s.enqueue({ queue: "a", after: [failed] }, { queue: "a", after_any: [failed] });
      await isRight(s);
    });

    test("stay right when finished jobs are pruned, and some of those are then retried", async (s) => {
      for (const state of ["completed", "failed", "cancelled", "completed"] as const) await s.finished(state);
      const kept = await s.finished("failed", { queue: "a" });
      await s.passTime(1_000);
      const states = ["completed", "failed", "cancelled"] as const;
      await s.store.prune({ older_than_ms: 0, states, queues: ["default"], limit: 3 });
      await isRight(s);
      await s.store.retry([kept]);
      await s.store.prune({ older_than_ms: 0, states, limit: 9 });
      await isRight(s);
      expect(await counted(s.store)).toEqual(["a pending 1"]);
      expect(await s.store.retryCounts()).toEqual([]);
    });

    test("are the same to every handle, and after the store was opened again", async (s) => {
      const other = await s.reopen();
      const id = await s.finished("completed", { queue: "a" });
      expect(await counted(other)).toEqual(["a completed 1"]);
      await other.retry([id]);
      await isRight(s);
      await s.store.close();
      expect(await counted(await s.reopen())).toEqual(["a pending 1"]);
    });

    test("tell queues apart whose names differ in little", async (s) => {
      for (const queue of ["a", "A", "ä", "a ", "a:b", "%", "日本"]) await s.finished("completed", { queue });
      expect(await counted(s.store)).toHaveLength(7);
      await isRight(s);
    });
  });

  describe("counts of a selection", () => {
    test("are those of the ids, the queues and the task that are named, all at once", async (s) => {
      const done = await s.finished("completed", { queue: "a", task: "t" });
      const [pending, other, scheduled] = (await s.enqueue(
        { queue: "a", task: "t" },
        { queue: "b", task: "t" },
        { queue: "b", task: "u", delay_ms: 1_000 },
      )) as [number, number, number];
      expect(await counted(s.store, { task: "t" })).toEqual(["a completed 1", "a pending 1", "b pending 1"]);
      expect(await counted(s.store, { queues: ["b"] })).toEqual(["b pending 1", "b scheduled 1"]);
      expect(await counted(s.store, { queues: ["a", "b"], task: "u" })).toEqual(["b scheduled 1"]);
      expect(await counted(s.store, { ids: [done, other, 999] })).toEqual(["a completed 1", "b pending 1"]);
      expect(await counted(s.store, { ids: [pending, scheduled], task: "t" })).toEqual(["a pending 1"]);
      expect(await counted(s.store, {})).toEqual(await counted(s.store));
    });

    test("that names nothing, or nothing that is there, are none", async (s) => {
      await s.enqueue({ queue: "a", task: "t" });
      for (const selection of [{ ids: [] }, { ids: [999] }, { queues: [] }, { queues: ["x"] }, { task: "x" }]) {
        expect(await counted(s.store, selection)).toEqual([]);
      }
    });

    test("count each job once, however often it is named", async (s) => {
      const id = await s.enqueueOne({ queue: "a" });
      expect(await counted(s.store, { ids: [id, id], queues: ["a", "a"] })).toEqual(["a pending 1"]);
    });

    test("take thousands of ids", async (s) => {
      const ids = await s.enqueue(...Array.from({ length: 3_000 }, () => ({})));
      expect(await counted(s.store, { ids: ids.slice(1) })).toEqual(["default pending 2999"]);
    });
  });
}
