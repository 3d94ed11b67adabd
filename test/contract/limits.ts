/**
 * Limits: how many jobs run, or start per time, counted from what runs and from recent starts; whoever acquires, and
 * whatever becomes of those that were granted.
 */

import { describe, expect } from "bun:test";
import { end, newJob } from "../support/jobs.ts";
import { acquireRequest, codeOf, only, type StoreTest, type Subject } from "./subject.ts";

const github = { limits: ["github"] };
const atMost = (most: number) => ({ most, rate: null });
const useOf = async (s: Subject, name: string) => (await s.store.limits()).find((limit) => limit.name === name);

export function limitsContract(test: StoreTest): void {
  describe("a limit", () => {
    test("lets so many of the jobs run that have joined it, and the others as before", async (s) => {
      await s.store.setLimit("github", atMost(2));
      const limited = await s.enqueue(github, github, github);
      const other = await s.enqueueOne();
      expect(await s.acquireIds({ count: 9 })).toEqual([limited[0], limited[1], other] as number[]);
      expect(await s.acquireIds({ count: 9 })).toEqual([]);
      expect(await useOf(s, "github")).toMatchObject({ most: 2, running: 2, waiting: 1, rate: null });
    });

    test("has room again when a job ends, however it does", async (s) => {
      await s.store.setLimit("github", atMost(1));
      const ids = await s.enqueue(github, github, github, github);
      for (const cause of ["success", "exit", "returned"] as const) {
        const grant = only(await s.acquire());
        expect(await s.acquireIds()).toEqual([]);
        await s.settle(grant, end(cause));
        if (cause === "returned") expect(await s.acquireIds()).toEqual([grant.job.id]);
      }
      expect((await s.job(ids[3] as number)).state.name).toBe("pending");
    });

    test("counts a lease that is over until somebody has recovered it", async (s) => {
      await s.store.setLimit("github", atMost(1));
      await s.enqueue(github, github);
      const { job } = only(await s.acquire({ lease_ms: 5_000 }));
      await s.passTime(60_000);
      expect(await s.acquireIds()).toEqual([]);
      expect(await s.store.recover([await s.recovery(job.id)])).toEqual(["recovered"]);
      expect(await s.acquireIds({ count: 9 })).toHaveLength(1);
    });

    test("of the name of a queue bounds the queue, together with those who joined it elsewhere", async (s) => {
      await s.store.setLimit("mail", atMost(2));
      await s.enqueue({ queue: "mail" }, { queue: "mail" }, { queue: "other", limits: ["mail"] }, { queue: "other" });
      expect(await s.acquireIds({ count: 9, queues: ["other", "mail"] })).toHaveLength(3);
      expect(await useOf(s, "mail")).toMatchObject({ running: 2, waiting: 1 });
      expect(await s.acquireIds({ count: 9, queues: ["mail"] })).toEqual([]);
    });

    test("that is a queue's and joined by name counts a job once", async (s) => {
      await s.store.setLimit("mail", atMost(2));
      await s.enqueue({ queue: "mail", limits: ["mail"] }, { queue: "mail", limits: ["mail"] });
      expect(await s.acquireIds({ count: 9 })).toHaveLength(2);
      expect((await useOf(s, "mail"))?.running).toBe(2);
    });

    test("among several has to have room in each of them", async (s) => {
      await s.store.setLimit("a", atMost(1));
      await s.store.setLimit("b", atMost(2));
      const [both, one] = await s.enqueue({ limits: ["b", "a"] }, { limits: ["a", "b"] }, { limits: ["b"] });
      const grants = await s.acquire({ count: 9 });
      expect(grants.map(({ job }) => job.id)).toEqual([both, (one as number) + 1] as number[]);
      expect(grants[0]?.job.limits).toEqual(["a", "b"]);
    });

    test("that nobody has set bounds nothing", async (s) => {
      await s.enqueue(github, github);
      expect(await s.acquireIds({ count: 9 })).toHaveLength(2);
    });

    test("gives its places by priority, then by age, among the unbounded as well", async (s) => {
      await s.store.setLimit("github", atMost(1));
      const [old, plain, urgent, high] = await s.enqueue(github, {}, { ...github, priority: 5 }, { priority: 3 });
      const first = only(await s.acquire());
      expect(first.job.id).toBe(urgent as number);
      expect(await s.acquireIds({ count: 9 })).toEqual([high, plain] as number[]);
      await s.settle(first);
      expect(await s.acquireIds({ count: 9 })).toEqual([old] as number[]);
    });

    test("is one of hundreds, and whose turn it is goes by all of them", async (s) => {
      const names = Array.from({ length: 150 }, (_, n) => `user ${n}`);
      const waiting = names.flatMap((name, n) =>
        [0, 1].map((k) => ({ limits: [name], priority: (n * 37 + k * 11) % 50 })),
      );
      const ids = await s.enqueue(...waiting, { priority: 25 }, { priority: 3 });
      const bounded = names.filter((_, n) => n % 3 > 0);
      await Promise.all(bounded.map((name) => s.store.setLimit(name, { most: 1, rate: null })));
      const jobs = await s.store.jobs(ids);
      const left = jobs.flatMap((job) => job ?? []).toSorted((a, b) => b.priority - a.priority || a.id - b.id);
      const full = new Set<string>();
      for (let turn = 0; left.length > 50; turn++) {
        const expected: number[] = [];
        for (const job of left.slice()) {
          const [name = ""] = job.limits;
          if (expected.length > turn % 13 || full.has(name)) continue;
          if (Number(name.split(" ")[1]) % 3 > 0) full.add(name);
          expected.push(job.id);
          left.splice(left.indexOf(job), 1);
        }
        expect(await s.acquireIds({ count: (turn % 13) + 1 })).toEqual(expected);
        if (expected.length === 0) break;
      }
      expect(left.map(({ limits }) => limits[0])).toEqual(
        left.map(({ limits: [name = ""] }) => (full.has(name) ? name : "")),
      );
    });

    test("can be lowered below what runs, and takes effect as that ends", async (s) => {
      await s.store.setLimit("github", atMost(3));
      await s.enqueue(github, github, github, github);
      const grants = await s.acquire({ count: 3 });
      await s.store.setLimit("github", atMost(1));
      for (const grant of grants) {
        expect(await s.acquireIds()).toEqual([]);
        await s.settle(grant);
      }
      expect(await s.acquireIds()).toHaveLength(1);
    });

    test("can be taken away, and says whether it was there", async (s) => {
      await s.store.setLimit("github", atMost(1));
      await s.enqueue(github, github);
      expect(await s.acquireIds({ count: 9 })).toHaveLength(1);
      expect(await s.store.setLimit("github", null)).toBe(true);
      expect(await s.store.setLimit("github", null)).toBe(false);
      expect(await s.acquireIds({ count: 9 })).toHaveLength(1);
      expect(await s.store.limits()).toEqual([]);
    });

    test("holds for one job that is asked for by id, and for one that is queued to be run at once", async (s) => {
      await s.store.setLimit("github", atMost(1));
      const [, second] = await s.enqueue(github, github);
      const first = only(await s.acquire());
      expect(await s.acquireIds({ job: second as number })).toEqual([]);
      const [queued] = await s.store.enqueue([newJob(github)], { acquire: acquireRequest() });
      expect(queued?.grant).toBeNull();
      await s.settle(first);
      expect(await s.acquireIds({ job: second as number })).toEqual([second as number]);
    });

    test("holds for the jobs of a task", async (s) => {
      await s.store.setLimit("github", atMost(1));
      const ids = await s.enqueue(...["t", "u", "t"].map((task) => ({ task, ...github })));
      const first = only(await s.acquire({ task: "t", count: 9 }));
      expect(first.job.id).toBe(ids[0] as number);
      expect(await s.acquireIds({ task: "u", count: 9 })).toEqual([]);
      await s.settle(first);
      expect(await s.acquireIds({ task: "t", count: 9 })).toEqual([ids[2] as number]);
    });

    test("keeps a place for an old job that waits for a second limit", async (s) => {
      await s.store.setLimit("a", atMost(1));
      await s.store.setLimit("b", atMost(1));
      const [b] = await s.enqueue({ limits: ["b"] });
      const holder = only(await s.acquire());
      expect(holder.job.id).toBe(b as number);
      const [both] = await s.enqueue({ limits: ["a", "b"] });
      await s.enqueue({ limits: ["a"] });
      const young = only(await s.acquire({ count: 9 }));
      expect(young.job.limits).toEqual(["a"]);
      await s.settle(young);
      await s.passTime(60_000);
      await s.enqueue({ limits: ["a"] });
      expect(await s.acquireIds({ count: 9 })).toEqual([]);
      await s.settle(holder);
      expect(await s.acquireIds({ count: 9 })).toEqual([both as number]);
    });

    test("is kept by acquirers that ask at the same moment", async (s) => {
      await s.store.setLimit("github", atMost(3));
      await s.store.setLimit("mail", atMost(2));
      await s.enqueue(
        ...Array.from({ length: 20 }, (_, n) => ({ ...github, queue: n % 2 === 0 ? "mail" : "default" })),
      );
      const stores = [s.store, await s.reopen(), await s.reopen()];
      const asked = stores.flatMap((store, n) =>
        [1, 2, 3].map((count) => store.acquire(acquireRequest({ holder: `w${n}`, count }))),
      );
      const granted = (await Promise.all(asked)).flat();
      const more = await s.acquire({ count: 20 });
      const all = [...granted, ...more];
      expect(all).toHaveLength(3);
      expect(new Set(all.map(({ job }) => job.id)).size).toBe(3);
      expect(all.filter(({ job }) => job.queue === "mail").length).toBeLessThanOrEqual(2);
    });

    test("grants jobs only for slots that are free at once", async (s) => {
      await s.store.setLimit("github", atMost(9));
      await s.enqueue(github, github, github, {});
      expect(await s.acquireIds({ count: 4, at_once: 2 })).toHaveLength(3);
    });

    test("that can't be told from what is damaged does not keep the others from work", async (s) => {
      await s.store.setLimit("github", atMost(1));
      const [bad] = await s.enqueue(github, {});
      await s.tamper(`UPDATE lease.jobs SET gate = 'broken' WHERE id = ${bad}`);
      expect(await s.acquireIds({ count: 1 })).toEqual([(bad as number) + 1]);
      expect(await s.stateOf(bad as number)).toBe("failed");
    });

    test("is kept by the store itself against a lease of before, which grants without a word about it", async (s) => {
      const [bounded, plain] = await s.enqueue(github, {});
      const grant = (id: number | undefined) =>
        s.tamper(`UPDATE lease.jobs SET state = 'running', token = token + 1, holder = 'old', started_at_ms = 1,
          last_beat_at_ms = 1, expires_at_ms = 2 WHERE id = ${id} AND state = 'pending'`);
      // Passed over, or refused.
      await grant(bounded).catch(() => {});
      await grant(plain);
      expect(await s.stateOf(bounded as number)).toBe("pending");
      expect(await s.stateOf(plain as number)).toBe("running");
    });

    test("is not a name with a comma or quotes", async (s) => {
      for (const name of ["a,b", 'a"b', "a\\b", "", "a\nb"]) {
        expect(await codeOf(s.enqueueOne({ limits: [name] }))).toBe("invalid_job");
      }
    });
  });

  describe("a rate", () => {
    const perMinute = (count: number) => ({ most: null, rate: { count, per_ms: 60_000 } });

    test("lets so many start in any such time", async (s) => {
      await s.store.setLimit("github", perMinute(2));
      await s.enqueue(github, github, github, github, {});
      for (const grant of await s.acquire({ count: 9 })) await s.settle(grant);
      expect((await s.store.counts()).find(({ state }) => state === "pending")?.count).toBe(2);
      await s.passTime(30_000);
      expect(await s.acquireIds({ count: 9 })).toEqual([]);
      const use = await useOf(s, "github");
      expect(use).toMatchObject({ started: 2, running: 0, waiting: 2 });
      const due_ms = await s.store.nextDue();
      expect(due_ms).toBe(use?.next_start_at_ms as number);
      s.sameTime(due_ms, (await s.store.now()) + 30_000 - s.slack_ms);
      await s.passTime(31_000 + s.slack_ms);
      expect(await s.acquireIds({ count: 9 })).toHaveLength(2);
      expect(await s.acquireIds({ count: 9 })).toEqual([]);
    });

    test("gives back one place after another, as they were taken", async (s) => {
      await s.store.setLimit("github", perMinute(2));
      await s.enqueue(github, github, github, github);
      await s.acquire();
      await s.passTime(40_000);
      await s.acquire();
      expect(await s.acquireIds()).toEqual([]);
      await s.passTime(21_000);
      expect(await s.acquireIds({ count: 9 })).toHaveLength(1);
    });

    test("counts each start of a job that is retried, and beside it how many run", async (s) => {
      await s.store.setLimit("github", { most: 1, rate: { count: 2, per_ms: 60_000 } });
      const [id] = await s.enqueue({ ...github, settings: { retries: 5 } });
      for (let attempt = 1; attempt <= 2; attempt++) {
        const grant = only(await s.acquire());
        expect(grant.job.id).toBe(id as number);
        await s.settle(grant, end("exit"));
        await s.passTime(5_000);
      }
      expect(await s.acquireIds()).toEqual([]);
      await s.passTime(60_000);
      expect(await s.acquireIds()).toEqual([id as number]);
    });
  });
}
