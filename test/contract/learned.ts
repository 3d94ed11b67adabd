/**
 * Leases that learn: what runs showed about the gaps between their beats is kept by key or queue, and decides how long
 * the next job with `lease: auto` is granted.
 */

import { describe, expect } from "bun:test";
import { addGap, learn, subjectOf, type Learned } from "../../src/core/learning.ts";
import { end, type JobOverrides } from "../support/jobs.ts";
import { LEASE_MS, only, type StoreTest, type Subject } from "./subject.ts";

const AUTO: JobOverrides = { settings: { lease_ms: "auto" } };
const UNLEARNED_MS = 300_000;

function gaps(...sizes_ms: number[]): Record<string, number> {
  const found: Record<string, number> = {};
  for (const size_ms of sizes_ms) addGap(found, size_ms);
  return found;
}

/** One run of such a job, with these gaps between its beats. */
async function run(s: Subject, job: JobOverrides, ...gaps_ms: number[]): Promise<void> {
  const { job: granted } = await s.granted({ ...AUTO, ...job });
  const request = await s.ending(granted, end("success"), { gaps: gaps(...gaps_ms) });
  expect(await s.store.settle([request])).toEqual([{ status: "applied" }]);
}

async function runs(s: Subject, count: number, job: JobOverrides, ...gaps_ms: number[]): Promise<void> {
  for (let n = 0; n < count; n++) await run(s, job, ...gaps_ms);
}

async function learnedOf(s: Subject, subject: { key: string | null; queue: string }): Promise<Learned | null> {
  return only(await s.store.learned([subjectOf(subject)]));
}

/** What such a job is granted now. */
async function leaseOf(s: Subject, job: JobOverrides = {}): Promise<number> {
  const grant = await s.granted({ ...AUTO, ...job });
  await s.settle(grant);
  return grant.lease_ms;
}

export function learnedContract(test: StoreTest): void {
  describe("learned", () => {
    test("is nothing where nothing was recorded", async (s) => {
      await s.finished("completed", AUTO);
      expect(await learnedOf(s, { key: null, queue: "default" })).toBeNull();
      expect(await s.store.learned([])).toEqual([]);
    });

    test("is all that runs showed, as core adds it up", async (s) => {
      await run(s, { queue: "a" }, 100, 2_000);
      await run(s, { queue: "a" }, 100);
      await run(s, { queue: "a" });
      const expected = [gaps(100, 2_000), gaps(100), {}].reduce<Learned | null>(learn, null);
      expect(await learnedOf(s, { key: null, queue: "a" })).toEqual(expected);
      expect(expected?.runs).toBe(3);
    });

    test("comes in the order asked, null for an unknown subject", async (s) => {
      await run(s, { queue: "a" }, 100);
      await run(s, { queue: "b" }, 100);
      await run(s, { queue: "b" }, 100);
      const subjects = ["b", "x", "a", "b"].map((queue) => subjectOf({ key: null, queue }));
      const found = await s.store.learned(subjects);
      expect(found.map((subject) => subject?.runs ?? null)).toEqual([2, null, 1, 2]);
    });

    test("keeps what a key showed apart from its queue, and from a queue of the same name", async (s) => {
      await run(s, { queue: "a", key: "k" }, 100);
      await run(s, { queue: "b", key: "k" }, 100);
      await run(s, { queue: "k" }, 100);
      expect((await learnedOf(s, { key: "k", queue: "a" }))?.runs).toBe(2);
      expect((await learnedOf(s, { key: null, queue: "k" }))?.runs).toBe(1);
      expect(await learnedOf(s, { key: null, queue: "a" })).toBeNull();
    });

    test("counts every attempt that says something, however it ended", async (s) => {
      const grant = await s.granted({ ...AUTO, queue: "a", settings: { lease_ms: "auto", retries: 0 } });
      await s.store.settle([await s.ending(grant.job, end("returned"), { gaps: gaps(10) })]);
      const again = only(await s.acquire());
      await s.store.settle([await s.ending(again.job, end("exit"), { gaps: gaps(10) })]);
      expect((await learnedOf(s, { key: null, queue: "a" }))?.runs).toBe(2);
    });

    test("takes nothing from an attempt that says nothing, or whose end is refused", async (s) => {
      const silent = await s.granted({ ...AUTO, queue: "a" });
      await s.store.settle([await s.ending(silent.job, end("success"), { gaps: null })]);
      const stale = await s.granted({ ...AUTO, queue: "a" });
      const late = await s.ending(stale.job, end("exit"), { gaps: gaps(10) });
      await s.store.cancel([stale.job.id], null);
      expect(await s.store.settle([late])).toEqual([{ status: "cancelling" }]);
      await s.settle(stale, end("cancelled"));
      expect(only(await s.store.settle([late])).status).toBe("stale");
      expect(await learnedOf(s, { key: null, queue: "a" })).toBeNull();
    });

    test("adds up attempts that end together", async (s) => {
      await s.enqueue(...Array.from({ length: 3 }, () => ({ ...AUTO, queue: "a" })));
      const grants = await s.acquire({ count: 3 });
      const ends = grants.map(({ job }) => s.ending(job, end("success"), { gaps: gaps(500) }));
      await s.store.settle(await Promise.all(ends));
      expect(await learnedOf(s, { key: null, queue: "a" })).toMatchObject({
        runs: 3,
        gaps: { ...times(gaps(500), 3) },
      });
    });

    test("adds up what two handles have seen at the same time", async (s) => {
      const other = await s.reopen();
      await s.enqueue(...Array.from({ length: 10 }, () => ({ ...AUTO, queue: "a" })));
      const grants = await s.acquire({ count: 10 });
      const ends = await Promise.all(grants.map(({ job }) => s.ending(job, end("success"), { gaps: gaps(500) })));
      await Promise.all(ends.map((request, index) => (index % 2 ? s.store : other).settle([request])));
      expect((await learnedOf(s, { key: null, queue: "a" }))?.runs).toBe(10);
    });

    test("outlives the jobs, and the handle", async (s) => {
      await run(s, { queue: "a" }, 100);
      await s.store.prune({ older_than_ms: 0, states: ["completed"], limit: 9 });
      await s.store.close();
      const again = await s.reopen();
      expect(only(await again.learned([subjectOf({ key: null, queue: "a" })]))?.runs).toBe(1);
    });
  });

  describe("a job with a learned lease", () => {
    test("gets five minutes until twenty runs have shown their gaps", async (s) => {
      expect(await leaseOf(s)).toBe(UNLEARNED_MS);
      await runs(s, 19, {}, 60_000);
      expect(await leaseOf(s)).toBe(UNLEARNED_MS);
      await run(s, {}, 60_000);
      const { lease_ms, gap_ms } = (await learnedOf(s, { key: null, queue: "default" })) as Learned;
      expect(gap_ms).toBeGreaterThanOrEqual(60_000);
      expect(gap_ms).toBeLessThanOrEqual(66_000);
      expect(await leaseOf(s)).toBe(lease_ms as number);
      expect(lease_ms).toBeGreaterThanOrEqual(3 * 60_000);
    });

    test("gets no less than half a minute", async (s) => {
      await runs(s, 20, {}, 5);
      expect(await leaseOf(s)).toBe(30_000);
    });

    test("goes by its own queue", async (s) => {
      await runs(s, 20, { queue: "a" }, 5);
      expect(await leaseOf(s, { queue: "a" })).toBe(30_000);
      expect(await leaseOf(s, { queue: "b" })).toBe(UNLEARNED_MS);
    });

    test("goes by its key where it has one, in whatever queue, and not by the queue", async (s) => {
      await runs(s, 20, { queue: "a", key: "k" }, 5);
      expect(await leaseOf(s, { queue: "b", key: "k" })).toBe(30_000);
      expect(await leaseOf(s, { queue: "a" })).toBe(UNLEARNED_MS);
      await runs(s, 20, { queue: "b" }, 5);
      expect(await leaseOf(s, { queue: "b", key: "other" })).toBe(UNLEARNED_MS);
    });

    test("gets it however it is acquired, and its attempt and expiry say so", async (s) => {
      await runs(s, 20, { queue: "a" }, 5);
      const jobs = { ...AUTO, queue: "a", task: "t" };
      for (const request of [{}, { queues: ["a"] }, { task: "t" }, { queues: ["a"], task: "t" }, { job: 0 }]) {
        const id = await s.enqueueOne(jobs);
        const now_ms = await s.store.now();
        const grant = only(await s.acquire("job" in request ? { job: id } : request));
        expect(grant.lease_ms).toBe(30_000);
        s.sameTime(grant.expires_at_ms, now_ms + 30_000);
        expect(only(await s.store.attempts(id)).lease_ms).toBe(30_000);
        await s.settle(grant);
      }
    });

    test("leaves the leases of other jobs alone", async (s) => {
      await runs(s, 20, {}, 5);
      expect(await leaseOf(s, { settings: { lease_ms: null } })).toBe(LEASE_MS);
      expect(await leaseOf(s, { settings: { lease_ms: 7_000 } })).toBe(7_000);
    });

    test("may be one that sets none, where its worker asks for learned ones", async (s) => {
      const lease = async (job: JobOverrides): Promise<number> => {
        const grant = await s.granted(job, { lease_ms: 0 });
        await s.settle(grant);
        return grant.lease_ms;
      };
      expect(await lease({ queue: "a" })).toBe(UNLEARNED_MS);
      await runs(s, 20, { queue: "a", settings: { lease_ms: null } }, 5);
      expect(await lease({ queue: "a" })).toBe(30_000);
      expect(await lease({ queue: "a", settings: { lease_ms: 7_000 } })).toBe(7_000);
    });

    test("follows what later runs show", async (s) => {
      await runs(s, 20, {}, 5);
      await runs(s, 3, {}, 100_000);
      expect(await leaseOf(s)).toBeGreaterThanOrEqual(300_000);
    });
  });
}

function times(counts: Record<string, number>, factor: number): Record<string, number> {
  return Object.fromEntries(Object.entries(counts).map(([size, count]) => [size, count * factor]));
}
