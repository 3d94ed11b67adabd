/**
 * acquire: what is granted, in which order, with which lease, and to one holder only.
 */

import { describe, expect } from "bun:test";
import { DEFAULT_SETTINGS } from "../../src/core/job.ts";
import { end } from "../support/jobs.ts";
import { acquireRequest, LEASE_MS, only, type StoreTest } from "./subject.ts";

export function acquireContract(test: StoreTest): void {
  describe("acquire", () => {
    test("of an empty store grants nothing", async (s) => {
      expect(await s.acquire({ count: 5 })).toEqual([]);
    });

    test("makes the job run under the next token, with a holder and an expiry", async (s) => {
      const id = await s.enqueueOne({ queue: "mail" });
      const now_ms = await s.store.now();
      const grant = only(await s.acquire({ holder: "worker-9", lease_ms: 30_000 }));
      expect(grant).toMatchObject({ lease_ms: 30_000, checkpoint: null, previous: null });
      s.sameTime(grant.expires_at_ms, now_ms + 30_000);
      expect(grant.job.token).toBe(1);
      expect(grant.job.state).toEqual({
        name: "running",
        holder: "worker-9",
        expires_at_ms: grant.expires_at_ms,
        cancel_requested_at_ms: null,
      });
      s.sameTime(grant.job.started_at_ms, now_ms);
      expect(await s.job(id)).toEqual(grant.job);
    });

    test("hands over all that the job needs to run", async (s) => {
      const input = new Uint8Array([1, 255, 10]);
      const { job } = await s.granted({ argv: ["a", "b"], input, env: { A: "1" }, cwd: "/tmp" });
      expect(job).toMatchObject({ argv: ["a", "b"], env: { A: "1" }, cwd: "/tmp" });
      expect([...(job.input ?? [])]).toEqual([...input]);
    });

    test("hands over to each of many in one call its own input, or none", async (s) => {
      const bytes = (n: number) => (n % 3 === 0 ? null : new Uint8Array([n]));
      for (let n = 0; n < 20; n++) await s.enqueue({ input: bytes(n) });
      const grants = await s.acquire({ queues: ["default"], count: 20 });
      expect(grants.map(({ job }) => job.input)).toEqual(Array.from({ length: 20 }, (_, n) => bytes(n)));
    });

    test("opens an attempt by this worker on this host", async (s) => {
      const { job } = await s.granted({}, { holder: "w7", host: "ci-3", lease_ms: 30_000 });
      const { started_at_ms, ...attempt } = only(await s.store.attempts(job.id));
      expect(attempt).toEqual({
        attempt: 1,
        token: 1,
        worker: "w7",
        host: "ci-3",
        process: null,
        fence: null,
        cpu_ms: null,
        memory_bytes: null,
        lease_ms: 30_000,
        ended_at_ms: null,
        end: null,
        extensions: { attempts: 0, failures: 0, refusals: 0 },
        beats: 0,
      });
      expect(started_at_ms).toBe(job.started_at_ms as number);
    });

    test("prefers the higher priority, then the earlier due time, then the lower id", async (s) => {
      const [late, early, first, second, low, high] = await s.enqueue(
        { delay_ms: 2_000 },
        { delay_ms: 1_000 },
        {},
        {},
        { priority: -1 },
        { priority: 10, delay_ms: 3_000 },
      );
      await s.passTime(5_000);
      expect(await s.acquireIds({ count: 10 })).toEqual([high, first, second, early, late, low] as number[]);
    });

    test("keeps that order from one call to the next", async (s) => {
      const [low, high, middle] = await s.enqueue({ priority: 1 }, { priority: 3 }, { priority: 2 });
      expect([await s.acquireIds(), await s.acquireIds(), await s.acquireIds(), await s.acquireIds()]).toEqual([
        [high as number],
        [middle as number],
        [low as number],
        [],
      ]);
    });

    test("takes all queues as one when none is named", async (s) => {
      const [third, first, second] = await s.enqueue(
        { queue: "a", priority: 1 },
        { queue: "c", priority: 3 },
        { queue: "b", priority: 2 },
      );
      expect(await s.acquireIds({ count: 3 })).toEqual([first, second, third] as number[]);
    });

    test("follows the order of due times and ids across queues too, when none is named", async (s) => {
      const ids = await s.enqueue({ queue: "b" }, { queue: "a" }, { queue: "b" }, { queue: "a" });
      expect(await s.acquireIds({ count: 4 })).toEqual(ids);
    });

    test("empties the queues in the order in which they are named, whatever the priorities", async (s) => {
      const [b1, a1, a2, other, b2] = await s.enqueue(
        { queue: "b", priority: 100 },
        { queue: "a" },
        { queue: "a", priority: 1 },
        { queue: "c", priority: 1_000 },
        { queue: "b", priority: 200 },
      );
      expect(await s.acquireIds({ queues: ["a", "b"], count: 10 })).toEqual([a2, a1, b2, b1] as number[]);
      expect(await s.stateOf(other as number)).toBe("pending");
    });

    test("grants from the next queue only what the first has not filled", async (s) => {
      const [b1, a1, b2] = await s.enqueue({ queue: "b" }, { queue: "a" }, { queue: "b" });
      expect(await s.acquireIds({ queues: ["a", "b"], count: 2 })).toEqual([a1, b1] as number[]);
      expect(await s.stateOf(b2 as number)).toBe("pending");
    });

    test("grants no more than asked for", async (s) => {
      await s.enqueue({}, {}, {});
      expect(await s.acquireIds({ count: 2 })).toHaveLength(2);
      expect(await s.acquireIds({ count: 2 })).toHaveLength(1);
    });

    test("grants only jobs of the task that is named, in any queue or in those named", async (s) => {
      const [inA, inB] = await s.enqueue(
        { task: "t", queue: "a" },
        { task: "t", queue: "b" },
        { task: "u", queue: "b" },
        {},
      );
      expect(await s.acquireIds({ task: "t", queues: ["b"], count: 9 })).toEqual([inB as number]);
      expect(await s.acquireIds({ task: "t", count: 9 })).toEqual([inA as number]);
    });

    test("orders the jobs of a task like any others", async (s) => {
      const [low, high] = await s.enqueue({ task: "t" }, { task: "t", priority: 5 }, { priority: 9 });
      expect(await s.acquireIds({ task: "t", count: 9 })).toEqual([high, low] as number[]);
    });

    test("grants a scheduled job as soon as it is due, and not before", async (s) => {
      const id = await s.enqueueOne({ delay_ms: 10_000 });
      await s.passTime(9_000);
      expect(await s.acquireIds()).toEqual([]);
      expect(await s.stateOf(id)).toBe("scheduled");
      await s.passTime(1_000);
      expect(await s.acquireIds()).toEqual([id]);
    });

    test("prefers the higher priority among all that is due, however much that is", async (s) => {
      const flood = Array.from({ length: 3_000 }, () => ({ delay_ms: 1_000 }));
      const urgent = (await s.enqueue(...flood, { delay_ms: 2_000, priority: 9 })).at(-1);
      await s.passTime(5_000);
      expect(await s.acquireIds()).toEqual([urgent as number]);
    });

    test("gives the job the lease it asked for rather than the worker's", async (s) => {
      const now_ms = await s.store.now();
      const grant = await s.granted({ settings: { lease_ms: 5_000 } }, { lease_ms: 90_000 });
      expect(grant.lease_ms).toBe(5_000);
      s.sameTime(grant.expires_at_ms, now_ms + 5_000);
    });

    test("gives each job of one call its own lease", async (s) => {
      await s.enqueue({ settings: { lease_ms: 5_000 } }, {}, { settings: { lease_ms: 7_000 } });
      const grants = await s.acquire({ count: 3 });
      expect(grants.map(({ lease_ms }) => lease_ms)).toEqual([5_000, LEASE_MS, 7_000]);
    });

    test("gives a job that wants a learned lease five minutes until one is learned", async (s) => {
      expect((await s.granted({ settings: { lease_ms: "auto" } })).lease_ms).toBe(5 * 60_000);
    });

    test("raises token and attempt by one with every grant of a job", async (s) => {
      const first = await s.granted();
      await s.settle(first, end("returned"));
      const second = only(await s.acquire({ holder: "w2" }));
      await s.settle(second, end("exit"));
      await s.passTime(1_000);
      const third = only(await s.acquire({ holder: "w3" }));
      expect([first, second, third].map(({ job }) => [job.id, job.token])).toEqual(
        [1, 2, 3].map((n) => [first.job.id, n]),
      );
      const attempts = await s.store.attempts(first.job.id);
      expect(attempts.map(({ attempt, token, worker }) => [attempt, token, worker])).toEqual([
        [1, 1, "w1"],
        [2, 2, "w2"],
        [3, 3, "w3"],
      ]);
    });

    test("names what is left of the attempt before, on the same host only", async (s) => {
      const process = { boot_id: "boot", pid: 4_711, pid_started: 99 };
      const first = await s.granted({}, { host: "h1" });
      await s.store.noteProcess([{ id: first.job.id, token: 1, ...process }]);
      await s.settle(first, end("returned"));
      const elsewhere = only(await s.acquire({ host: "h2" }));
      expect(elsewhere.previous).toBeNull();
      await s.settle(elsewhere, end("returned"));

      const other = await s.enqueueOne({ queue: "other" });
      const again = only(await s.acquire({ host: "h1", queues: ["other"] }));
      await s.store.noteProcess([{ id: other, token: 1, ...process }]);
      await s.settle(again, end("returned"));
      expect(only(await s.acquire({ host: "h1", queues: ["other"] })).previous).toEqual(process);
    });

    test("never grants a job that runs, has finished, or was cancelled", async (s) => {
      await s.finished("completed");
      await s.finished("failed");
      await s.store.cancel([await s.enqueueOne()], null);
      await s.granted();
      expect(await s.acquireIds({ count: 9 })).toEqual([]);
    });

    test("never grants a job twice, whatever calls on whatever handles race for it", async (s) => {
      const ids = await s.enqueue(...Array.from({ length: 300 }, (_, index) => ({ queue: index % 2 ? "a" : "b" })));
      const handles = [s.store, await s.reopen(), await s.reopen()];
      const drain = async (index: number): Promise<number[]> => {
        const taken: number[] = [];
        const request = acquireRequest({
          holder: `w${index}`,
          count: 1 + index,
          queues: index % 2 ? ["a", "b"] : null,
        });
        for (;;) {
          const grants = await handles[index % handles.length]?.acquire(request);
          if (!grants || grants.length === 0) return taken;
          expect(grants.every(({ job }) => job.token === 1)).toBe(true);
          taken.push(...grants.map(({ job }) => job.id));
        }
      };
      const taken = (await Promise.all(Array.from({ length: 6 }, (_, index) => drain(index)))).flat();
      expect(taken.toSorted((a, b) => a - b)).toEqual(ids);
    });
  });

  describe("acquire of one job", () => {
    test("grants that job and no other, whatever comes before it and whatever was filtered for", async (s) => {
      const [, id] = (await s.enqueue({ priority: 9 }, { queue: "low", priority: -9 }, {})) as [number, number];
      const grant = only(await s.acquire({ job: id, count: 5, queues: ["default"], task: "t", holder: "w7" }));
      expect(grant).toMatchObject({ lease_ms: LEASE_MS, job: { id, token: 1, state: { holder: "w7" } } });
      expect((await s.store.attempts(id)).map(({ worker }) => worker)).toEqual(["w7"]);
      expect(await s.acquire({ job: id })).toEqual([]);
    });

    test("takes it out of a paused queue too, and leaves the rest of that", async (s) => {
      const [first, second] = (await s.enqueue({ queue: "a" }, { queue: "a" })) as [number, number];
      await s.store.setPaused(["a"], true);
      expect(await s.acquireIds({ job: second })).toEqual([second]);
      expect(await s.acquireIds({ count: 9 })).toEqual([]);
      expect(await s.stateOf(first)).toBe("pending");
    });

    test("grants nothing unless it is pending", async (s) => {
      const running = (await s.granted()).job.id;
      const scheduled = await s.enqueueOne({ delay_ms: 9_000 });
      const blocked = await s.enqueueOne({ after: [running] });
      const finished = await s.finished("completed");
      await s.enqueueOne();
      for (const job of [running, scheduled, blocked, finished, 999]) expect(await s.acquire({ job })).toEqual([]);
      expect((await s.job(running)).token).toBe(1);
    });

    test("grants one whose time has just come, with its checkpoint and the process of before", async (s) => {
      const first = await s.granted();
      const { id } = first.job;
      const process = { boot_id: "b", pid: 7, pid_started: 70 };
      await s.store.noteProcess([{ id, token: 1, ...process }]);
      await s.store.checkpoint([{ id, token: 1, text: "half way" }]);
      await s.settle(first, end("exit"));
      await s.passTime(1_000);
      const again = only(await s.acquire({ job: id }));
      expect(again).toMatchObject({ checkpoint: "half way", previous: process, job: { id, token: 2 } });
    });

    test("grants it once to any number of handles at the same time", async (s) => {
      const other = await s.reopen();
      const job = await s.enqueueOne();
      const asked = Array.from({ length: 10 }, (_, index) =>
        (index % 2 ? s.store : other).acquire(acquireRequest({ job, holder: `w${index}` })),
      );
      expect((await Promise.all(asked)).flat()).toHaveLength(1);
    });
  });

  describe("acquire of commands alone", () => {
    const input = new TextEncoder().encode("{}");
    const bare = { argv: [], input };

    test("leaves jobs without a command pending, wherever they stand in line", async (s) => {
      const [urgent, first, between, second] = await s.enqueue({ ...bare, priority: 9 }, {}, bare, {});
      expect(await s.acquireIds({ count: 5, commands_only: true })).toEqual([first, second] as number[]);
      expect(await s.acquireIds({ count: 5, commands_only: true, queues: ["default"] })).toEqual([]);
      expect([await s.stateOf(urgent as number), await s.stateOf(between as number)]).toEqual(["pending", "pending"]);
      expect(await s.acquireIds({ count: 5 })).toEqual([urgent, between] as number[]);
    });

    test("keeps the order of the queues, of the task and of more than a few", async (s) => {
      await s.enqueue({ ...bare, queue: "a", task: "t" }, { ...bare, queue: "b", task: "t" });
      const [b1, a1, other] = await s.enqueue({ queue: "b", task: "t" }, { queue: "a", task: "t" }, { queue: "a" });
      const wanted = { count: 20, commands_only: true } as const;
      expect(await s.acquireIds({ ...wanted, task: "t", queues: ["a", "b"] })).toEqual([a1, b1] as number[]);
      expect(await s.acquireIds({ ...wanted, task: "t" })).toEqual([]);
      expect(await s.acquireIds(wanted)).toEqual([other as number]);
    });

    test("takes turns between both kinds when all are asked for", async (s) => {
      const [low, middle, high, last] = await s.enqueue(
        { ...bare, priority: 1 },
        { priority: 2 },
        { ...bare, priority: 3 },
        {},
      );
      expect(await s.acquireIds({ count: 3, queues: ["default"] })).toEqual([high, middle, low] as number[]);
      expect(await s.acquireIds({ count: 20, queues: ["default"] })).toEqual([last as number]);
    });

    test("has its own backlog and its own most urgent job", async (s) => {
      await s.enqueue({ ...bare, priority: 5 }, { priority: 2 }, { ...bare, delay_ms: 60_000 });
      const all = { queues: ["default"], task: null };
      const own = { ...all, commands_only: true };
      expect(await s.store.backlog(all)).toMatchObject({ pending: 2, waiting: 1 });
      expect(await s.store.backlog(own)).toMatchObject({ pending: 1, waiting: 0, next_due_ms: null });
      expect([await s.store.topPriority(all), await s.store.topPriority(own)]).toEqual([5, 2]);
      expect(await s.store.topPriority({ ...own, queues: null })).toBe(2);
    });
  });

  describe("age", () => {
    test("raises by one for each such time that a job has been due, once, whoever looks and how often", async (s) => {
      const old = await s.enqueueOne({ settings: { on_failed: 'echo "aged":7' } });
      const plain = await s.enqueueOne({ settings: DEFAULT_SETTINGS });
      const late = await s.enqueueOne({ delay_ms: 60_000 });
      await s.passTime(25_000);
      const urgent = await s.enqueueOne({ priority: 1 });
      expect(await s.store.age(10_000)).toBe(2);
      expect(await s.store.age(10_000)).toBe(0);
      const shown = async (id: number) => {
        const { priority, settings, damaged } = await s.job(id);
        return [priority, settings.aged, damaged];
      };
      expect(await Promise.all([old, plain, late, urgent].map(shown))).toEqual([
        [2, 2, undefined],
        [2, 2, undefined],
        [0, 0, undefined],
        [1, 0, undefined],
      ]);
      await s.passTime(10_000);
      expect(await s.store.age(10_000)).toBe(3);
      expect([await shown(old), await shown(urgent)]).toEqual([
        [3, 3, undefined],
        [2, 1, undefined],
      ]);
      expect((await s.job(old)).settings.on_failed).toBe('echo "aged":7');
      expect(await s.acquireIds({ count: 3 })).toEqual([old, plain, urgent]);
    });
  });
}
