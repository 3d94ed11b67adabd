/**
 * list with everything by which it can be narrowed and ordered.
 */

import { describe, expect } from "bun:test";
import { shownState, type ShownState } from "../../src/core/job.ts";
import { SORTS, type ListQuery } from "../../src/store/queries.ts";
import { end } from "../support/jobs.ts";
import { only, type StoreTest, type Subject } from "./subject.ts";

async function list(s: Subject, query: Partial<ListQuery> = {}): Promise<number[]> {
  const asked = { limit: 100, newest_first: false, ...query };
  const jobs = await s.store.list(asked);
  const outlines = jobs.map(({ id, state, reason }) => ({ id, state: state.name, reason }));
  expect(await s.store.outlines(asked)).toEqual(outlines);
  return jobs.map(({ id }) => id);
}

/** One job in every state as it is shown. */
async function oneOfEach(s: Subject): Promise<Record<ShownState, number>> {
  const completed = await s.finished("completed");
  const failed = await s.finished("failed");
  const cancelled = await s.finished("cancelled");
  const retried = await s.granted();
  await s.settle(retried, end("exit"));
  const running = (await s.granted()).job.id;
  const cancelling = (await s.granted()).job.id;
  await s.store.cancel([cancelling], null);
  const [scheduled, pending] = (await s.enqueue({ delay_ms: 60_000 }, {})) as [number, number];
  const blocked = await s.enqueueOne({ after: [pending] });
  const retrying = retried.job.id;
  return { completed, failed, cancelled, retrying, running, cancelling, scheduled, pending, blocked };
}

export function listingContract(test: StoreTest): void {
  describe("list by state", () => {
    test("knows every state as it is shown, each apart from all others", async (s) => {
      const ids = await oneOfEach(s);
      for (const [state, id] of Object.entries(ids) as [ShownState, number][]) {
        expect(shownState(await s.job(id))).toBe(state);
        expect(await list(s, { states: [state] })).toEqual([id]);
      }
    });

    test("takes several at once, in one order, and each job once", async (s) => {
      const ids = await oneOfEach(s);
      const byId = (...wanted: number[]) => wanted.toSorted((a, b) => a - b);
      expect(await list(s, { states: ["scheduled", "retrying"] })).toEqual(byId(ids.scheduled, ids.retrying));
      expect(await list(s, { states: ["cancelling", "running", "running"] })).toEqual(
        byId(ids.running, ids.cancelling),
      );
      const finished: ShownState[] = ["failed", "completed", "cancelled"];
      const newest = byId(ids.failed, ids.completed, ids.cancelled).toReversed();
      expect(await list(s, { states: finished, newest_first: true })).toEqual(newest);
      expect(await list(s, { states: finished, newest_first: true, limit: 2 })).toEqual(newest.slice(0, 2));
      const all = Object.keys(ids) as ShownState[];
      expect(await list(s, { states: all })).toEqual(byId(...Object.values(ids)));
    });

    test("joins with every other condition, whichever states are asked for", async (s) => {
      const done = await s.finished("completed", { queue: "a", task: "t" });
      await s.finished("completed", { queue: "b", task: "t" });
      await s.finished("failed", { queue: "a", task: "u" });
      const pending = await s.enqueueOne({ queue: "a", task: "t" });
      await s.enqueue({ queue: "b", task: "t" }, { queue: "a", task: "u" });
      const states: ShownState[] = ["completed", "failed", "pending"];
      expect(await list(s, { states, queues: ["a"], task: "t" })).toEqual([done, pending]);
      expect(await list(s, { states, queues: ["a"], task: "t", behind_id: done })).toEqual([pending]);
      expect(await list(s, { states, queues: ["a"], task: "t", sort: "attempts", limit: 1 })).toEqual([pending]);
    });
  });

  describe("list by key, holder and ids", () => {
    test("finds all jobs that ever had a key", async (s) => {
      const old = await s.finished("completed", { key: "k" });
      const live = await s.enqueueOne({ key: "k" });
      await s.enqueue({ key: "K" }, {});
      expect(await list(s, { key: "k" })).toEqual([old, live]);
      expect(await list(s, { key: "k", states: ["pending"] })).toEqual([live]);
      expect(await list(s, { key: "k", newest_first: true, limit: 1 })).toEqual([live]);
      expect(await list(s, { key: "nothing" })).toEqual([]);
    });

    test("finds what a worker holds now, and nothing that it held before", async (s) => {
      const before = await s.granted({}, { holder: "w1" });
      await s.settle(before);
      const held = (await s.granted({}, { holder: "w1" })).job.id;
      const other = (await s.granted({}, { holder: "w2" })).job.id;
      expect(await list(s, { holder: "w1" })).toEqual([held]);
      expect(await list(s, { holder: "w2" })).toEqual([other]);
      expect(await list(s, { holder: "w3" })).toEqual([]);
      expect(await list(s, { holder: "w1", states: ["completed"] })).toEqual([]);
    });

    test("keeps to the ids given, in the order of the list, each once", async (s) => {
      const [a, b, c] = (await s.enqueue({}, { priority: 5 }, {})) as [number, number, number];
      expect(await list(s, { ids: [c, 999, a, a] })).toEqual([a, c]);
      expect(await list(s, { ids: [a, b], newest_first: true })).toEqual([b, a]);
      expect(await list(s, { ids: [a, b, c], behind_id: a, limit: 1 })).toEqual([b]);
      expect(await list(s, { ids: [] })).toEqual([]);
      expect(await list(s, { queues: [] })).toEqual([]);
    });
  });

  describe("list behind an id", () => {
    for (const newest_first of [false, true]) {
      test(`pages through all, ${newest_first ? "newest" : "oldest"} first, each once`, async (s) => {
        const ids = await s.enqueue(...Array.from({ length: 7 }, (_, index) => ({ priority: index % 3 })));
        const pages: number[][] = [];
        for (let behind_id: number | undefined; ;) {
          const page = await list(s, { newest_first, limit: 3, ...(behind_id === undefined ? {} : { behind_id }) });
          if (page.length === 0) break;
          pages.push(page);
          behind_id = page.at(-1) as number;
        }
        expect(pages.map((page) => page.length)).toEqual([3, 3, 1]);
        expect(pages.flat()).toEqual(newest_first ? ids.toReversed() : ids);
      });
    }

    test("need not be one that is there", async (s) => {
      const [first, second] = (await s.enqueue({}, {})) as [number, number];
      expect(await list(s, { behind_id: second + 100, newest_first: true })).toEqual([second, first]);
      expect(await list(s, { behind_id: second + 100 })).toEqual([]);
      expect(await list(s, { behind_id: 0 })).toEqual([first, second]);
    });
  });

  describe("list in order", () => {
    test("of priority, due time or attempts, equal ones by id, either way round", async (s) => {
      const twice = await s.granted({ priority: 1, settings: { retries: 0 } });
      await s.settle(twice, end("returned"));
      await s.settle(only(await s.acquire()), end("returned"));
      const [low, high, later] = (await s.enqueue(
        { priority: -1, delay_ms: 9_000 },
        { priority: 7, delay_ms: 5_000 },
        { priority: 1, delay_ms: 20_000 },
      )) as [number, number, number];
      const expected: [(typeof SORTS)[number], number[]][] = [
        ["id", [twice.job.id, low, high, later]],
        ["priority", [low, twice.job.id, later, high]],
        ["due", [twice.job.id, high, low, later]],
        ["attempts", [low, high, later, twice.job.id]],
      ];
      for (const [sort, ids] of expected) {
        expect(await list(s, { sort })).toEqual(ids);
        expect(await list(s, { sort, newest_first: true })).toEqual(ids.toReversed());
        expect(await list(s, { sort, limit: 2, newest_first: true })).toEqual(ids.toReversed().slice(0, 2));
      }
    });

    test("of start or end, with those that have none last, either way round", async (s) => {
      const never = await s.enqueueOne({ priority: -9 });
      const long = await s.granted();
      await s.passTime(1_000);
      const short = await s.granted();
      await s.passTime(1_000);
      await s.settle(short);
      await s.passTime(1_000);
      await s.settle(long, end("not_found"));
      await s.passTime(1_000);
      const running = await s.granted();
      const [a, b, c] = [long.job.id, short.job.id, running.job.id];
      expect(await list(s, { sort: "started" })).toEqual([a, b, c, never]);
      expect(await list(s, { sort: "started", newest_first: true })).toEqual([c, b, a, never]);
      expect(await list(s, { sort: "finished" })).toEqual([b, a, never, c]);
      expect(await list(s, { sort: "finished", newest_first: true })).toEqual([a, b, c, never]);
      const ended = { sort: "finished", states: ["completed", "failed"], newest_first: true } as const;
      expect(await list(s, ended)).toEqual([a, b]);
      expect(await list(s, { ...ended, limit: 1 })).toEqual([a]);
    });

    test("of any kind is whole jobs, and joins with what narrows the list", async (s) => {
      const id = await s.enqueueOne({ queue: "a", input: new Uint8Array([1, 255]), env: { A: "1" }, priority: 3 });
      await s.enqueue({ queue: "b", priority: 9 });
      for (const sort of SORTS) {
        const found = await s.store.list({ queues: ["a"], sort, limit: 9, newest_first: true });
        expect(only(found)).toEqual(await s.job(id));
      }
    });
  });
}
