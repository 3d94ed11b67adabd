/**
 * What a store remembers about the past of its queues: by the minute, then by the hour, and how long jobs waited and ran.
 * It is written with what it tells of, so that it is never more or less than what happened.
 */

import { describe, expect } from "bun:test";
import { HOUR_MS, MINUTE_MS, type HistoryPoint, sizeClass } from "../../src/core/history.ts";
import type { Grant } from "../../src/store/store.ts";
import type { HistoryQuery } from "../../src/store/queries.ts";
import { end } from "../support/jobs.ts";
import { only, type StoreTest, type Subject } from "./subject.ts";

async function past(s: Subject, query: Partial<HistoryQuery> = {}): Promise<HistoryPoint[]> {
  return s.store.history({ since_ms: 0, span_ms: MINUTE_MS, ...query });
}

/** All points of a queue as one. */
async function summed(s: Subject, queue = "default") {
  const sum = { ended: 0, first_ended: 0, completed: 0, failed: 0, cancelled: 0, retried: 0, recovered: 0 };
  for (const point of await past(s, { queues: [queue] })) {
    for (const name of Object.keys(sum) as (keyof typeof sum)[]) sum[name] += point[name];
  }
  return sum;
}

const NOTHING = { ended: 0, first_ended: 0, completed: 0, failed: 0, cancelled: 0, retried: 0, recovered: 0 };

async function totalsOf(s: Subject, name: string): Promise<Record<string, number>> {
  const found = (await s.store.totals()).filter((total) => total.name === name);
  return Object.fromEntries(found.map(({ queue, label, count }) => [`${queue} ${label}`, count]));
}

export function queueHistoryContract(test: StoreTest): void {
  describe("history", () => {
    test("of a store in which nothing has happened is empty", async (s) => {
      await s.enqueue({}, {});
      expect(await past(s)).toEqual([]);
      expect(await s.store.totals()).toEqual([]);
    });

    test("counts ends and returns by queue", async (s) => {
      await s.enqueue({ queue: "a" }, { queue: "a" }, { queue: "b", settings: { retries: 0 } }, { queue: "b" });
      const grants = await s.acquire({ count: 4, queues: ["a", "b"] });
      const causes = ["success", "exit", "exit", "returned"] as const;
      const ends = grants.map(({ job }, index) => s.ending(job, end(causes[index] ?? "success")));
      await s.store.settle(await Promise.all(ends));
      expect(await summed(s, "a")).toEqual({ ...NOTHING, ended: 2, first_ended: 2, completed: 1, retried: 1 });
      expect(await summed(s, "b")).toEqual({ ...NOTHING, ended: 2, first_ended: 2, failed: 1, retried: 1 });
      expect(await totalsOf(s, "end")).toEqual({ "a success": 1, "a exit": 1, "b exit": 1, "b returned": 1 });
    });

    test("knows what a sweep ended, and that a second attempt is no first one", async (s) => {
      const { job } = await s.granted({}, { lease_ms: 1_000 });
      await s.passTime(5_000);
      await s.store.recover([await s.recovery(job.id)]);
      await s.settle(only(await s.acquire()));
      expect(await summed(s)).toEqual({
        ...NOTHING,
        ended: 2,
        first_ended: 1,
        completed: 1,
        retried: 1,
        recovered: 1,
      });
    });

    test("counts waiting jobs that are cancelled, and those that can't run because of it", async (s) => {
      const root = await s.enqueueOne();
      await s.enqueue({ after: [root] }, { delay_ms: 60_000 });
      await s.store.cancel([root, root + 2], null);
      await s.store.cancel([root], null);
      expect(await summed(s)).toEqual({ ...NOTHING, cancelled: 3 });
    });

    test("does not move for a write that is refused", async (s) => {
      const grant = await s.granted();
      await s.settle(grant);
      await s.settle(grant, end("exit"));
      expect(await summed(s)).toEqual({ ...NOTHING, ended: 1, first_ended: 1, completed: 1 });
    });

    test("tells how long jobs waited and ran, in sum, at most, and by size", async (s) => {
      await s.enqueue({}, {});
      await s.passTime(2_000);
      const [first, second] = (await s.acquire({ count: 2 })) as [Grant, Grant];
      await s.passTime(7_000);
      await s.settle(first);
      await s.settle(second, end("exit"));
      const points = await past(s);
      const sum = (name: "wait_ms" | "run_ms") => points.reduce((all, point) => all + point[name], 0);
      const most = (name: "wait_max_ms" | "run_max_ms") => Math.max(...points.map((point) => point[name]));
      for (const [actual, expected] of [
        [sum("wait_ms"), 4_000],
        [most("wait_max_ms"), 2_000],
        [sum("run_ms"), 14_000],
        [most("run_max_ms"), 7_000],
      ] as const) {
        expect(actual).toBeGreaterThanOrEqual(expected);
        expect(actual).toBeLessThanOrEqual(expected + 4 * s.slack_ms);
      }
      expect(await totalsOf(s, "wait")).toEqual({ [`default ${sizeClass(2_000)}`]: 2 });
      expect(await totalsOf(s, "run")).toEqual({ [`default ${sizeClass(7_000)}`]: 2 });
    });

    test("has a point for each minute in which something happened, and adds them up by the hour", async (s) => {
      const now_ms = await s.store.now();
      await s.finished("completed");
      const [point] = await past(s);
      expect((point?.at_ms ?? 1) % MINUTE_MS).toBe(0);
      expect(Math.abs((point?.at_ms ?? 0) - now_ms)).toBeLessThanOrEqual(MINUTE_MS + s.slack_ms);
      const [hour] = await past(s, { span_ms: HOUR_MS });
      expect((hour?.at_ms ?? 1) % HOUR_MS).toBe(0);
      expect(hour?.completed).toBe(1);
      expect(await past(s, { since_ms: now_ms + HOUR_MS })).toEqual([]);
      expect(await past(s, { until_ms: now_ms - HOUR_MS })).toEqual([]);
      expect(await past(s, { queues: ["other"] })).toEqual([]);
    });

    test("is the same after it was folded, and to every handle", async (s) => {
      await s.finished("completed", { queue: "a" });
      await s.finished("failed", { queue: "b" });
      const [before, totals, counts] = [await past(s), await s.store.totals(), await s.store.counts()];
      await s.store.foldHistory();
      expect(await past(s)).toEqual(before);
      expect(await s.store.totals()).toEqual(totals);
      expect(await s.store.counts()).toEqual(counts);
      await s.finished("completed", { queue: "a" });
      await s.store.foldHistory();
      expect((await summed(s, "a")).completed).toBe(2);
      const other = await s.reopen();
      expect(await other.history({ since_ms: 0, span_ms: MINUTE_MS })).toEqual(await past(s));
    });

    test("is kept by the minute for a week, by the hour for a year, and then not at all", async (s) => {
      await s.finished("completed");
      const age = (days: number) => `UPDATE lease.history SET at_ms = at_ms - ${days * 24 * HOUR_MS}`;
      await s.store.foldHistory();
      await s.tamper(age(6));
      await s.store.foldHistory();
      expect(await summed(s)).toMatchObject({ completed: 1 });
      await s.tamper(age(2));
      await s.store.foldHistory();
      expect(await past(s)).toEqual([]);
      const [hour, ...rest] = await past(s, { span_ms: HOUR_MS });
      expect(rest).toEqual([]);
      expect(hour).toMatchObject({ queue: "default", ended: 1, completed: 1 });
      await s.tamper(age(400));
      await s.finished("completed");
      await s.tamper(age(8));
      await s.store.foldHistory();
      expect(await past(s, { span_ms: HOUR_MS })).toHaveLength(1);
    });
  });

  describe("oldestPending", () => {
    test("tells since when the oldest of each queue has been pending, whatever its priority", async (s) => {
      expect(await s.store.oldestPending()).toEqual([]);
      const first_ms = await s.store.now();
      await s.enqueue({ queue: "a", priority: -5, limits: ["few"] }, { queue: "b", delay_ms: 60_000 });
      await s.passTime(2_000);
      const second_ms = await s.store.now();
      await s.enqueue({ queue: "a", priority: 9 }, { queue: "a" }, { queue: "c", priority: 3 });
      const [a, c, ...rest] = await s.store.oldestPending();
      expect([a?.queue, c?.queue, rest]).toEqual(["a", "c", []]);
      s.sameTime(a?.since_ms ?? null, first_ms);
      s.sameTime(c?.since_ms ?? null, second_ms);
    });
  });
}
