/** What a person changes about jobs that wait: only that, only while they do, and all or none. */

import { describe, expect } from "bun:test";
import { codeOf, only, type StoreTest, type Subject } from "./subject.ts";

const LATER = { when: { run_at_ms: null, delay_ms: 60_000 } };
const NOW = { when: { run_at_ms: null, delay_ms: 0 } };
const after = (...ids: number[]) => ({ parents: { after: ids, after_any: [], after_failed: [], after_task: [] } });

async function changed(s: Subject, id: number, changes: Parameters<Subject["store"]["edit"]>[1]): Promise<void> {
  expect(only(await s.store.edit([id], changes))).toMatchObject({ id, status: "changed" });
}

export function editContract(test: StoreTest): void {
  describe("edit", () => {
    test("changes what it names of a job that waits, and nothing else", async (s) => {
      const id = await s.enqueueOne({ task: "t", settings: { timeout_ms: 7_000, pty: true } });
      const before = await s.job(id);
      await changed(s, id, { priority: 5, queue: "slow", settings: { retries: 9, lease_ms: 30_000 } });
      expect(await s.job(id)).toEqual({
        ...before,
        priority: 5,
        queue: "slow",
        settings: { ...before.settings, retries: 9, lease_ms: 30_000 },
      });
      expect(only(await s.acquire({ queues: ["slow"] }))).toMatchObject({ job: { id }, lease_ms: 30_000 });
    });

    test("puts a job into its place in line", async (s) => {
      const [first, second] = (await s.enqueue({}, {})) as [number, number];
      await changed(s, second, { priority: 1 });
      expect(await s.acquireIds({ count: 2 })).toEqual([second, first]);
    });

    test("puts a job off and brings it forward, in the backlog too", async (s) => {
      const id = await s.enqueueOne();
      await changed(s, id, LATER);
      expect(await s.stateOf(id)).toBe("scheduled");
      expect(await s.acquireIds()).toEqual([]);
      expect(await s.store.counts()).toEqual([{ queue: "default", state: "scheduled", count: 1 }]);
      await changed(s, id, NOW);
      expect(await s.store.counts()).toEqual([{ queue: "default", state: "pending", count: 1 }]);
      expect(await s.acquireIds()).toEqual([id]);
    });

    test("moves the counts along with a job to another queue", async (s) => {
      const [one] = (await s.enqueue({ queue: "a" }, { queue: "a" })) as [number];
      await changed(s, one, { queue: "b" });
      expect(await s.store.counts()).toEqual([
        { queue: "a", state: "pending", count: 1 },
        { queue: "b", state: "pending", count: 1 },
      ]);
    });

    test("leaves alone what runs or has ended, and says how it is", async (s) => {
      const running = (await s.granted()).job;
      const ended = await s.finished("completed");
      const before = await s.job(running.id);
      expect(await s.store.edit([running.id, ended, 999], { priority: 5 })).toEqual([
        { id: running.id, status: "not_waiting", state: "running" },
        { id: ended, status: "not_waiting", state: "completed" },
        { id: 999, status: "unknown", state: null },
      ]);
      expect(await s.job(running.id)).toEqual(before);
    });

    test("is taken by the grant or takes it, at the same moment, and never half of either", async (s) => {
      const ids = await s.enqueue(...Array.from({ length: 40 }, () => ({})));
      const [grants, answers] = await Promise.all([
        s.acquire({ count: 20 }),
        Promise.all(ids.map(async (id) => only(await s.store.edit([id], { priority: 7 })))),
      ]);
      const granted = new Map(grants.map(({ job }) => [job.id, job.priority]));
      for (const { id, status } of answers) {
        const { priority, state } = await s.job(id);
        expect(priority).toBe(status === "changed" ? 7 : 0);
        expect(state.name).toBe(granted.has(id) ? "running" : "pending");
        if (granted.has(id)) expect(granted.get(id)).toBe(priority);
      }
    });

    test("makes a job wait for others, also later ones, and no more for those it waited for", async (s) => {
      const [one, two] = (await s.enqueue({}, { priority: 1 })) as [number, number];
      await changed(s, one, after(two));
      expect(await s.stateOf(one)).toBe("blocked");
      expect((await s.store.parents([one])).map(({ parent }) => parent)).toEqual([two]);
      const grant = only(await s.acquire());
      await s.settle(grant);
      expect(await s.stateOf(one)).toBe("pending");
      const third = await s.enqueueOne({ after: [one] });
      await changed(s, third, after());
      expect(await s.stateOf(third)).toBe("pending");
    });

    test("cancels a job that now waits for what can't come, and with it those that wait for it", async (s) => {
      const failed = await s.finished("failed");
      const [middle] = (await s.enqueue({})) as [number];
      const [below, last, any] = [
        await s.enqueueOne({ after: [middle] }),
        await s.enqueueOne({ after_any: [middle] }),
        await s.enqueueOne({ after_any: [middle], after: [failed] }),
      ];
      const deepest = await s.enqueueOne({ after: [below] });
      await changed(s, middle, after(failed));
      expect(await s.job(middle)).toMatchObject({
        state: { name: "cancelled" },
        reason: `job ${failed}, which it waits for, failed`,
      });
      expect(await s.job(below)).toMatchObject({
        state: { name: "cancelled" },
        reason: `job ${middle}, which it waits for, was cancelled`,
      });
      expect(await s.stateOf(deepest)).toBe("cancelled");
      expect(await s.stateOf(any)).toBe("cancelled");
      expect(await s.acquireIds()).toEqual([last]);
    });

    test("leaves alone one of those named that is cancelled along with another", async (s) => {
      const failed = await s.finished("failed");
      const one = await s.enqueueOne();
      const other = await s.enqueueOne({ after: [one] });
      expect(await s.store.edit([one, other], after(failed))).toEqual([
        { id: one, status: "changed", state: "pending" },
        { id: other, status: "not_waiting", state: "cancelled" },
      ]);
      expect([await s.stateOf(one), await s.stateOf(other)]).toEqual(["cancelled", "cancelled"]);
    });

    test("refuses a circle, a job that is not there, and what a new job could not have, for all that it names", async (s) => {
      const one = await s.enqueueOne();
      const two = await s.enqueueOne({ after: [one] });
      const three = await s.enqueueOne({ after: [two] });
      for (const ids of [[one], [three, one]]) expect(await codeOf(s.store.edit(ids, after(three)))).toBe("dependency");
      expect(s.store.edit([one], after(one))).rejects.toThrow(`job ${one} can't wait for itself`);
      expect(await codeOf(s.store.edit([one], after(999)))).toBe("dependency");
      expect(await codeOf(s.store.edit([one, two], { settings: { lease_ms: 5 } }))).toBe("calibration");
      expect([await s.stateOf(one), await s.stateOf(three)]).toEqual(["pending", "blocked"]);
      expect((await s.store.parents([three])).map(({ parent }) => parent)).toEqual([two]);
    });
  });
}
