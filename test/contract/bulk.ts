/**
 * enqueueAll: what enqueue does, for a stream of batches. All or none, seen by others at the end only, and whatever
 * else is asked of the same handle meanwhile is neither lost nor part of it.
 */

import { describe, expect } from "bun:test";
import type { NewJob } from "../../src/core/job.ts";
import type { Store } from "../../src/store/store.ts";
import type { BulkEnqueued } from "../../src/store/queries.ts";
import { newJob, type JobOverrides } from "../support/jobs.ts";
import { acquireRequest, codeOf, only, type StoreTest, type Subject } from "./subject.ts";

type Batches = AsyncGenerator<NewJob[]>;

async function* batchesOf(...batches: JobOverrides[][]): Batches {
  for (const batch of batches) yield batch.map(newJob);
}

/** One batch, then whatever the test does in between, then another. */
async function* around(meanwhile: () => void | Promise<void>): Batches {
  yield [newJob(), newJob()];
  await meanwhile();
  yield [newJob()];
}

function idsOf({ ranges }: BulkEnqueued): number[] {
  return ranges.flatMap(([from, to]) => Array.from({ length: to - from + 1 }, (_, index) => from + index));
}

async function total(store: Store): Promise<number> {
  return (await store.counts()).reduce((sum, { count }) => sum + count, 0);
}

const fail = (message: string) => () => {
  throw new Error(message);
};

async function messageOf(failing: Promise<unknown>): Promise<string> {
  return failing.then(
    () => "no error",
    (error: Error) => error.message,
  );
}

export function bulkContract(test: StoreTest): void {
  describe("enqueueAll", () => {
    test("counts as many as it makes, of whatever kind, and what comes after it", async (s) => {
      const parent = await s.enqueueOne();
      const plain = (queue: string, count: number): JobOverrides[] => Array.from({ length: count }, () => ({ queue }));
      const delayed = { queue: "b", delay_ms: 60_000, key: "k" };
      const done = await s.store.enqueueAll(
        batchesOf(
          [...plain("a", 250), delayed, ...plain("b", 30)],
          [{ ...delayed, if_exists: "replace" }, { queue: "c", after: [parent] }, ...plain("a", 130), ...plain("b", 1)],
        ),
      );
      expect(done.created).toBe(414);
      await s.enqueueOne({ queue: "a" });
      const counts = (await s.store.counts()).filter(({ queue }) => queue !== "default");
      const of = (queue: string, state: string) =>
        counts.find((one) => one.queue === queue && one.state === state)?.count;
      expect([
        of("a", "pending"),
        of("b", "pending"),
        of("b", "scheduled"),
        of("b", "cancelled"),
        of("c", "blocked"),
      ]).toEqual([381, 31, 1, 1, 1]);
      const findings = (await s.store.diagnose()).filter(({ name }) => name === "counts");
      expect(findings.map(({ level }) => level)).toEqual(["ok"]);
    });

    test("makes every job of every batch, in order, and answers their ids as ranges", async (s) => {
      const first = await s.enqueueOne();
      const done = await s.store.enqueueAll(
        batchesOf([{ argv: ["a"] }, { argv: ["b"] }], [], [{ argv: ["c"], delay_ms: 5_000 }]),
      );
      expect(done.created).toBe(3);
      const ids = idsOf(done);
      expect(Math.min(...ids)).toBeGreaterThan(first);
      const jobs = await s.store.jobs(ids);
      expect(jobs.map((job) => [job?.argv[0], job?.state.name])).toEqual([
        ["a", "pending"],
        ["b", "pending"],
        ["c", "scheduled"],
      ]);
      expect(await total(s.store)).toBe(4);
    });

    test("of nothing does nothing", async (s) => {
      expect(await s.store.enqueueAll(batchesOf())).toEqual({ ranges: [], created: 0 });
      expect(await s.store.enqueueAll(batchesOf([], []))).toEqual({ ranges: [], created: 0 });
      expect(await s.store.counts()).toEqual([]);
    });

    test("keeps all that a job was given", async (s) => {
      const job = {
        queue: "mail",
        task: "t",
        key: "k",
        priority: -3,
        input: new Uint8Array([1, 255]),
        cwd: "/tmp",
        env: { ÜBER: "日本\n語" },
        settings: { retries: 0, lease_ms: "auto", pty: true, fatal_exit: [[2, 5]] },
      } as const;
      const [bulk] = idsOf(await s.store.enqueueAll(batchesOf([job])));
      const single = await s.enqueueOne({ ...job, key: "other" });
      const { id: _, created_at_ms: __, run_at_ms: ___, state: ____, ...rest } = await s.job(bulk as number);
      expect(await s.job(single)).toMatchObject({ ...rest, key: "other" });
      expect(rest.key).toBe("k");
    });

    test("takes thousands of jobs, and they are acquired in their order", async (s) => {
      const batch = Array.from({ length: 1_000 }, () => ({}));
      const done = await s.store.enqueueAll(batchesOf(batch, batch, batch));
      expect(done.created).toBe(3_000);
      expect(done.ranges.length).toBeLessThan(10);
      const ids = idsOf(done);
      expect(new Set(ids).size).toBe(3_000);
      expect(await s.acquireIds({ count: 5 })).toEqual(ids.slice(0, 5));
    });

    test("shows nothing to another handle before its end, and then all", async (s) => {
      const other = await s.reopen();
      const seen: unknown[] = [];
      const done = await s.store.enqueueAll(
        around(async () => {
          seen.push(await total(other), await other.acquire(acquireRequest()), await other.nextDue());
        }),
      );
      expect(seen).toEqual([0, [], null]);
      expect(await total(other)).toBe(3);
      expect(only(await other.acquire(acquireRequest())).job.id).toBe(idsOf(done)[0] as number);
    });

    test("wakes those who watch", async (s) => {
      const other = await s.reopen();
      const { promise, resolve } = Promise.withResolvers<void>();
      const stop = other.watch(resolve);
      await s.store.enqueueAll(batchesOf([{}]));
      await promise;
      stop();
    });
  });

  describe("enqueueAll that fails", () => {
    test("where its batches come from leaves nothing, and gives that very error", async (s) => {
      for (const message of ["line 7 is not JSON", "database is locked", "malformed"]) {
        expect(await messageOf(s.store.enqueueAll(around(fail(message))))).toBe(message);
        expect(await s.store.counts()).toEqual([]);
      }
      expect(await total(s.store)).toBe(0);
      expect(await s.enqueueOne()).toBeGreaterThan(0);
    });

    test("by a job that can't be one leaves nothing, and lets go of its source", async (s) => {
      let ended = false;
      const source = async function* (): Batches {
        try {
          yield [newJob()];
          yield [newJob(), newJob({ argv: [] })];
          yield [newJob()];
        } finally {
          ended = true;
        }
      };
      expect(await codeOf(s.store.enqueueAll(source()))).toBe("invalid_job");
      expect(ended).toBe(true);
      expect(await s.store.counts()).toEqual([]);
    });

    test("by a dependency on an unknown job leaves nothing", async (s) => {
      expect(await codeOf(s.store.enqueueAll(batchesOf([{}], [{ after: [999] }])))).toBe("dependency");
      expect(await s.store.counts()).toEqual([]);
    });

    test("leaves the jobs that it would have replaced as they were, and what waits for them", async (s) => {
      const old = await s.enqueueOne({ key: "k" });
      const child = await s.enqueueOne({ after: [old] });
      const before = await s.store.jobs([old, child]);
      const jobs = batchesOf([{ key: "k", if_exists: "replace" }], [{ argv: [] }]);
      expect(await codeOf(s.store.enqueueAll(jobs))).toBe("invalid_job");
      expect(await s.store.jobs([old, child])).toEqual(before);
    });

    test("leaves the store open for the next", async (s) => {
      const other = await s.reopen();
      await messageOf(s.store.enqueueAll(around(fail("no more"))));
      expect(only(await other.enqueue([newJob()])).created).toBe(true);
      expect((await s.store.enqueueAll(batchesOf([{}]))).created).toBe(1);
      expect(await total(other)).toBe(2);
    });
  });

  describe("enqueueAll with keys", () => {
    test("answers a live job's id in its place, also one of the same stream", async (s) => {
      const live = await s.enqueueOne({ key: "k" });
      const done = await s.store.enqueueAll(batchesOf([{}, { key: "k" }, { key: "new" }], [{ key: "new" }, {}]));
      expect(done.created).toBe(3);
      const [first, skipped, fresh, again, last] = idsOf(done);
      expect([skipped, again]).toEqual([live, fresh]);
      expect(new Set([first, live, fresh, last]).size).toBe(4);
      expect(await total(s.store)).toBe(4);
    });

    test("that is taken where that must not be is refused, and nothing is there", async (s) => {
      await s.enqueueOne({ key: "k" });
      const jobs = batchesOf([{}, {}], [{ key: "k", if_exists: "fail" }]);
      expect(await codeOf(s.store.enqueueAll(jobs))).toBe("key_exists");
      expect(await total(s.store)).toBe(1);
    });

    test("takes the place of a job that waits", async (s) => {
      const old = await s.enqueueOne({ key: "k" });
      const [id] = idsOf(await s.store.enqueueAll(batchesOf([{ key: "k", if_exists: "replace" }])));
      expect([await s.stateOf(old), await s.stateOf(id as number)]).toEqual(["cancelled", "pending"]);
    });
  });

  describe("enqueueAll with dependencies", () => {
    test("frees, blocks or cancels each by what it waits for", async (s) => {
      const completed = await s.finished("completed");
      const failed = await s.finished("failed");
      const waiting = await s.enqueueOne();
      const done = await s.store.enqueueAll(
        batchesOf([{ after: [completed] }, { after: [failed] }], [{ after_any: [failed] }, { after: [waiting] }]),
      );
      expect(await statesOf(s, idsOf(done))).toEqual(["pending", "cancelled", "pending", "blocked"]);
    });
  });

  describe("what is asked of a handle during enqueueAll", () => {
    test("happens, whichever verb it is", async (s) => {
      const grant = await s.granted({ queue: "other" });
      const doomed = await s.enqueueOne({ queue: "other" });
      const asked: Promise<unknown>[] = [];
      await s.store.enqueueAll(
        around(() => {
          asked.push(s.settle(grant), s.store.cancel([doomed], null), s.enqueue({}, {}));
          asked.push(s.store.setPaused(["q"], true), s.store.tidy());
        }),
      );
      await Promise.all(asked);
      expect(await statesOf(s, [grant.job.id, doomed])).toEqual(["completed", "cancelled"]);
      expect(await s.store.pausedQueues()).toEqual(["q"]);
      expect(await total(s.store)).toBe(7);
    });

    test("is not undone when it fails", async (s) => {
      const asked: Promise<number>[] = [];
      const failing = s.store.enqueueAll(
        around(() => {
          asked.push(s.enqueueOne());
          throw new Error("no more");
        }),
      );
      expect(await messageOf(failing)).toBe("no more");
      const id = await (asked[0] as Promise<number>);
      expect((await s.store.list({ limit: 9, newest_first: false })).map((job) => job.id)).toEqual([id]);
    });

    test("may be another one, on this handle and on others", async (s) => {
      const other = await s.reopen();
      const all = await Promise.all([
        s.store.enqueueAll(batchesOf([{}, {}], [{}])),
        s.store.enqueueAll(batchesOf([{}], [{}])),
        other.enqueueAll(batchesOf([{}], [{}, {}])),
        messageOf(s.store.enqueueAll(around(fail("no more")))),
        s.store.enqueueAll(batchesOf([{}])),
      ]);
      expect(all.map((done) => (typeof done === "string" ? done : done.created))).toEqual([3, 2, 3, "no more", 1]);
      const ids = all.flatMap((done) => (typeof done === "string" ? [] : idsOf(done)));
      expect(new Set(ids).size).toBe(9);
      expect(await total(other)).toBe(9);
    });

    test("may be to close it, which waits for the end", async (s) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const begun = Promise.withResolvers<void>();
      const bulk = s.store.enqueueAll(
        around(async () => {
          begun.resolve();
          await promise;
        }),
      );
      await begun.promise;
      const closing = s.store.close();
      resolve();
      expect((await bulk).created).toBe(3);
      await closing;
      expect(await total(await s.reopen())).toBe(3);
    });
  });
}

async function statesOf(s: Subject, ids: readonly number[]): Promise<(string | undefined)[]> {
  return (await s.store.jobs(ids)).map((job) => job?.state.name);
}
