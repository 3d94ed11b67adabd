/**
 * Housekeeping: finished jobs that are deleted with all that belongs to them, and a store that looks after itself.
 */

import { describe, expect } from "bun:test";
import type { PruneQuery } from "../../src/store/queries.ts";
import { end, newJob } from "../support/jobs.ts";
import { audit, codeOf, only, type StoreTest, type Subject } from "./subject.ts";

const FINISHED = ["completed", "failed", "cancelled"] as const;

function query(overrides: Partial<PruneQuery> = {}): PruneQuery {
  return { older_than_ms: 0, states: FINISHED, ...overrides };
}

/** Prunes what `prunable` has announced, and checks that it was right. */
async function prune(s: Subject, overrides: Partial<PruneQuery> & { limit?: number } = {}): Promise<number> {
  const { limit = 1_000, ...rest } = overrides;
  const announced = (await s.store.prunable(query(rest))).reduce((sum, { count }) => sum + count, 0);
  const { count: gone } = await s.store.prune({ ...query(rest), limit });
  expect(gone).toBe(Math.min(limit, announced));
  return gone;
}

async function left(s: Subject): Promise<number[]> {
  return (await s.store.list({ limit: 100, newest_first: false })).map(({ id }) => id);
}

/** Finished one after the other, a second apart. */
async function finishedInTurn(s: Subject, ...states: (typeof FINISHED)[number][]): Promise<number[]> {
  const ids: number[] = [];
  for (const state of states) {
    ids.push(await s.finished(state));
    await s.passTime(1_000);
  }
  return ids;
}

export function pruneContract(test: StoreTest): void {
  describe("retention", () => {
    test("is a hundred checkpoints and a note of each recovery, until somebody says otherwise", async (s) => {
      expect(await s.store.retention()).toEqual({ keep_checkpoints: 100, checkpoints: true });
      await s.store.setRetention({ keep_checkpoints: null });
      expect(await s.store.retention()).toEqual({ keep_checkpoints: null, checkpoints: true });
      await s.store.setRetention({ checkpoints: false });
      await s.store.setRetention({ keep_checkpoints: 3 });
      expect(await s.store.retention()).toEqual({ keep_checkpoints: 3, checkpoints: false });
    });
  });

  describe("prunable", () => {
    test("tells how many of each state a prune would delete, and deletes none", async (s) => {
      const ids = await finishedInTurn(s, "completed", "failed", "completed");
      await s.enqueueOne();
      const found = async (overrides: Partial<PruneQuery> = {}) =>
        (await s.store.prunable(query(overrides)))
          .filter(({ count }) => count > 0)
          .map(({ state, count }) => `${state} ${count}`)
          .toSorted();
      expect(await found()).toEqual(["completed 2", "failed 1"]);
      expect(await found({ states: ["failed", "cancelled"] })).toEqual(["failed 1"]);
      expect(await found({ states: [] })).toEqual([]);
      expect(await found({ older_than_ms: 60_000 })).toEqual([]);
      expect(await left(s)).toHaveLength(ids.length + 1);
    });
  });

  describe("prune", () => {
    test("of an empty store deletes nothing", async (s) => {
      expect(await prune(s)).toBe(0);
    });

    test("deletes only what has been finished for long enough", async (s) => {
      const [, , young] = await finishedInTurn(s, "completed", "failed", "cancelled");
      expect(await prune(s, { older_than_ms: 10_000 })).toBe(0);
      expect(await prune(s, { older_than_ms: 1_500 })).toBe(2);
      expect(await left(s)).toEqual([young as number]);
    });

    test("deletes many in a row with their inputs, and leaves what has not finished between them", async (s) => {
      const jobs = Array.from({ length: 350 }, () => ({ input: new Uint8Array([1]) }));
      const ids = await s.enqueue(...jobs);
      const alive = [ids[120] as number, ids[140] as number];
      await s.store.cancel(
        ids.filter((id) => !alive.includes(id)),
        null,
      );
      expect(await prune(s)).toBe(348);
      expect(await left(s)).toEqual(alive);
      expect((await s.store.counts()).map(({ state, count }) => [state, count])).toEqual([["pending", 2]]);
    });

    test("goes by when a job finished, not by when it was made or started", async (s) => {
      const early = await s.granted();
      const late = await s.finished("completed");
      await s.passTime(60_000);
      await s.settle(early);
      expect(await prune(s, { older_than_ms: 30_000 })).toBe(1);
      expect(await left(s)).toEqual([early.job.id]);
      expect(await s.store.jobs([late])).toEqual([null]);
    });

    test("deletes the oldest first, whatever their states, up to the limit", async (s) => {
      const [a, b, c, d, e] = (await finishedInTurn(s, "failed", "completed", "cancelled", "failed", "completed")) as [
        number,
        number,
        number,
        number,
        number,
      ];
      expect(await prune(s, { limit: 2 })).toBe(2);
      expect(await left(s)).toEqual([c, d, e]);
      expect(await prune(s, { limit: 2, states: ["completed", "failed"] })).toBe(2);
      expect(await left(s)).toEqual([c]);
      expect(await prune(s, { limit: 2 })).toBe(1);
      expect(await s.store.jobs([a, b, c, d, e])).toEqual([null, null, null, null, null]);
    });

    test("deletes nothing where the limit is none", async (s) => {
      await s.finished("completed");
      expect(await prune(s, { limit: 0 })).toBe(0);
    });

    test("keeps to the states, the queues and the task given, all at once", async (s) => {
      const wanted = await s.finished("completed", { queue: "a", task: "t" });
      const others = [
        await s.finished("failed", { queue: "a", task: "t" }),
        await s.finished("completed", { queue: "b", task: "t" }),
        await s.finished("completed", { queue: "a", task: "u" }),
        await s.finished("completed", { queue: "a" }),
      ];
      expect(await prune(s, { states: ["completed"], queues: ["a", "c"], task: "t" })).toBe(1);
      expect(await s.store.jobs([wanted])).toEqual([null]);
      expect(await left(s)).toEqual(others);
      expect(await prune(s, { queues: [] })).toBe(0);
      expect(await prune(s, { states: [] })).toBe(0);
      expect(await prune(s, { queues: ["b"] })).toBe(1);
      expect(await prune(s, { task: "u" })).toBe(1);
      expect(await left(s)).toEqual([others[0], others[3]] as number[]);
    });

    test("never deletes a job that has not finished, however old", async (s) => {
      const running = (await s.granted()).job.id;
      const asked = (await s.granted()).job.id;
      await s.store.cancel([asked], null);
      const retrying = await s.granted({ settings: { backoff: { first_ms: 1e9, factor: 1, max_ms: 1e9, jitter: 0 } } });
      await s.settle(retrying, end("exit"));
      await s.enqueue({ delay_ms: 1e9 }, { after: [running] }, {});
      const retried = await s.finished("completed", { priority: 9 });
      await s.store.retry([retried]);
      const before = await left(s);
      await s.passTime(1e8);
      expect(await prune(s)).toBe(0);
      expect(await left(s)).toEqual(before);
    });

    test("takes along all that belongs to a job, and nothing that belongs to others", async (s) => {
      const make = async (): Promise<number> => {
        const grant = await s.granted({ task: "t", input: new Uint8Array([1]), settings: { retries: 0 } });
        const { id, token } = grant.job;
        await s.store.checkpoint([{ id, token, text: "half way" }]);
        const chunks = [{ start: 0, bytes: 3, data: new Uint8Array([1, 2, 3]) }];
        await s.store.appendLogs([{ id, token, chunks, head_bytes: 0, keep_from: 0 }]);
        await s.settle(grant, end("exit"), audit());
        return id;
      };
      const old = await make();
      await s.passTime(10_000);
      const young = await make();
      const belongings = async (job: number) => [
        (await s.store.attempts(job)).length,
        (await s.store.checkpoints({ job, limit: 9 })).length,
        (await s.store.logs({ job, attempt: 1, from: 0, limit: 9 })).length,
      ];
      expect(await belongings(old)).toEqual([1, 2, 1]);
      expect(await prune(s, { older_than_ms: 5_000 })).toBe(1);
      expect(await belongings(old)).toEqual([0, 0, 0]);
      expect(await belongings(young)).toEqual([1, 2, 1]);
      expect((await s.job(young)).input).toEqual(new Uint8Array([1]));
      expect(await s.store.checkpoints({ task: "t", limit: 9 })).toHaveLength(2);
    });

    test("counts jobs, not what goes along with them", async (s) => {
      const grant = await s.granted({ settings: { retries: 9 } });
      await s.settle(grant, end("returned"), audit());
      for (let n = 0; n < 3; n++) await s.settle(only(await s.acquire()), end("returned"), audit());
      await s.settle(only(await s.acquire()), end("success"), audit());
      expect(await prune(s)).toBe(1);
    });

    test("never gives an id of before to a new job", async (s) => {
      const id = await s.finished("completed");
      expect(await prune(s)).toBe(1);
      expect(await s.enqueueOne()).toBeGreaterThan(id);
    });

    test("makes the job unknown to every verb", async (s) => {
      const grant = await s.granted({ key: "k" });
      const { id, token } = grant.job;
      await s.settle(grant);
      await prune(s);
      expect(await s.store.retry([id])).toEqual([{ id, status: "unknown", state: null }]);
      expect(await s.store.cancel([id], null)).toEqual([{ id, status: "unknown", state: null }]);
      expect(await s.acquire({ job: id })).toEqual([]);
      expect(await s.settle(grant)).toEqual({ status: "stale", reason: "expired" });
      expect(await s.store.checkpoint([{ id, token, text: "late" }])).toEqual(["expired"]);
      expect(await codeOf(s.store.enqueue([newJob({ after: [id] })]))).toBe("dependency");
      expect(only(await s.store.enqueue([newJob({ key: "k", if_exists: "fail" })])).created).toBe(true);
    });

    test("lets jobs that wait for others go on waiting when one that is satisfied goes", async (s) => {
      const other = await s.granted();
      const parent = await s.finished("completed");
      const failed = await s.finished("failed");
      const child = await s.enqueueOne({ after: [parent, other.job.id], after_any: [failed] });
      await s.passTime(1_000);
      expect(await prune(s)).toBe(2);
      expect(await s.stateOf(child)).toBe("blocked");
      expect((await s.store.parents([child])).map((unmet) => unmet.parent)).toEqual([other.job.id]);
      await s.settle(other);
      expect(await s.stateOf(child)).toBe("pending");
    });

    test("lets children that have finished go, and their parents stay", async (s) => {
      const parent = await s.granted();
      const child = await s.enqueueOne({ after: [parent.job.id] });
      await s.store.cancel([child], null);
      expect(await prune(s)).toBe(1);
      expect(await left(s)).toEqual([parent.job.id]);
      expect(await s.settle(parent)).toEqual({ status: "applied" });
    });

    test("goes on where the step before came to, past what is not meant, and says when there is no more", async (s) => {
      const others = await finishedInTurn(s, "completed", "failed");
      const ids: number[] = [];
      for (let n = 0; n < 5; n++) {
        ids.push(await s.finished("completed", { queue: "mine" }));
        await s.passTime(1_000);
      }
      const mine = { ...query({ queues: ["mine"] }), limit: 2 };
      const first = await s.store.prune(mine);
      expect([first.count, first.next?.id]).toEqual([2, ids[1]]);
      const second = await s.store.prune({ ...mine, behind: first.next });
      expect([second.count, second.next?.id]).toEqual([2, ids[3]]);
      expect(await s.store.prune({ ...mine, behind: second.next })).toEqual({ count: 1, next: null });
      // What is before that place is not looked at again.
      const all = { ...query(), limit: 9, behind: second.next };
      expect(await s.store.prune(all)).toEqual({ count: 0, next: null });
      expect(await left(s)).toEqual(others);
    });

    test("by two handles at once deletes each job once", async (s) => {
      const other = await s.reopen();
      await finishedInTurn(s, ...Array<"completed">(10).fill("completed"));
      const asked = [0, 1, 2, 3].map((n) => (n % 2 ? s.store : other).prune({ ...query(), limit: 3 }));
      const gone = (await Promise.all(asked)).reduce((sum, { count }) => sum + count, 0);
      expect(gone + (await left(s)).length).toBe(10);
    });
  });

  describe("tidy", () => {
    test("changes nothing that anybody can see", async (s) => {
      await s.finished("completed");
      await s.granted();
      const before = [await s.store.list({ limit: 9, newest_first: false }), await s.store.counts()];
      await s.store.tidy();
      await s.store.tidy();
      expect([await s.store.list({ limit: 9, newest_first: false }), await s.store.counts()]).toEqual(before);
    });

    test("goes together with whatever else is being done", async (s) => {
      const other = await s.reopen();
      const work = [s.store.tidy(), s.enqueueOne(), other.tidy(), other.enqueue([newJob()]), s.store.tidy()];
      await Promise.all(work);
      expect(await left(s)).toHaveLength(2);
    });
  });

  describe("diagnose", () => {
    const ORDER = ["error", "warn", "ok"];

    test("of a store in use finds nothing wrong, and says what it looked at", async (s) => {
      await s.finished("completed", { queue: "a" });
      await s.finished("cancelled");
      await s.store.retry([await s.finished("failed")]);
      await prune(s, { states: ["cancelled"] });
      const findings = await s.store.diagnose();
      const names = findings.map(({ name }) => name);
      expect(names).toContain("schema");
      expect(new Set(names).size).toBe(names.length);
      for (const { name, level, value, advice } of findings) {
        expect(value, name).not.toBe("");
        expect(`${value}${advice}`, name).not.toContain("\n");
        expect(level === "ok", name).toBe(advice === null);
        expect(level, `${name}: ${value}`).not.toBe("error");
      }
      const levels = findings.map(({ level }) => ORDER.indexOf(level));
      expect(levels).toEqual(levels.toSorted((a, b) => a - b));
    });

    test("changes nothing and can be asked while others work", async (s) => {
      const other = await s.reopen();
      const [findings, id] = await Promise.all([other.diagnose(), s.enqueueOne()]);
      expect(findings.length).toBeGreaterThan(0);
      expect(await left(s)).toEqual([id]);
    });
  });
}
