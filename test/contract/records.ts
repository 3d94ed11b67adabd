/**
 * What a store keeps beside the jobs: checkpoints and how many of them, and the workers.
 */

import { describe, expect } from "bun:test";
import type { WorkerRecord } from "../../src/core/records.ts";
import type { CheckpointQuery } from "../../src/store/queries.ts";
import { end } from "../support/jobs.ts";
import { audit, only, type StoreTest, type Subject } from "./subject.ts";
import { workerRecord } from "../support/workers.ts";

async function note(s: Subject, id: number, ...lines: string[]): Promise<void> {
  const { token } = await s.job(id);
  const answers = await s.store.checkpoint(lines.map((text) => ({ id, token, text })));
  expect(new Set(answers)).toEqual(new Set(["accepted"]));
}

async function texts(s: Subject, query: Omit<CheckpointQuery, "limit"> = {}): Promise<string[]> {
  return (await s.store.checkpoints({ limit: 999, ...query })).map(({ text }) => text);
}

export function recordsContract(test: StoreTest): void {
  describe("checkpoints", () => {
    test("can be narrowed to those of one kind", async (s) => {
      const grant = await s.granted({ task: "t" });
      await note(s, grant.job.id, "half way");
      await s.settle(grant, end("exit"), audit());
      const kinds = async (query: { kind?: "error" | "progress"; job?: number; task?: string }): Promise<string[]> =>
        (await s.store.checkpoints({ limit: 9, ...query })).map(({ kind }) => kind);
      expect(await kinds({})).toEqual(["error", "progress"]);
      expect(await kinds({ kind: "error" })).toEqual(["error"]);
      expect(await kinds({ kind: "progress", job: grant.job.id })).toEqual(["progress"]);
      expect(await kinds({ kind: "error", task: "u" })).toEqual([]);
    });

    test("come newest first, up to the limit, of one job, of one task, or of all", async (s) => {
      const a = (await s.granted({ task: "t" })).job.id;
      const b = (await s.granted({ task: "t" })).job.id;
      const c = (await s.granted()).job.id;
      await note(s, a, "a1");
      await note(s, b, "b1");
      await note(s, c, "c1");
      await note(s, a, "a2");
      expect(await texts(s)).toEqual(["a2", "c1", "b1", "a1"]);
      expect(await texts(s, { job: a })).toEqual(["a2", "a1"]);
      expect(await texts(s, { task: "t" })).toEqual(["a2", "b1", "a1"]);
      expect((await s.store.checkpoints({ limit: 2 })).map(({ text }) => text)).toEqual(["a2", "c1"]);
      expect(await texts(s, { job: 999 })).toEqual([]);
    });

    test("can be the newest alone of each of some jobs", async (s) => {
      const [a, b, c] = [await s.granted({ task: "t" }), await s.granted({ task: "t" }), await s.granted()];
      await note(s, a.job.id, "a1");
      await note(s, b.job.id, "b1");
      await note(s, b.job.id, "b2");
      await s.settle(a, end("exit"), audit());
      await note(s, c.job.id, "c1");
      const newest = async (query: Omit<CheckpointQuery, "limit">) =>
        (await s.store.checkpoints({ limit: 9, ...query })).map(({ job, kind }) => `${job} ${kind}`);
      const [both, none] = [[a.job.id, b.job.id, 999], [999]];
      expect(await newest({ newest_of: both })).toEqual([`${a.job.id} error`, `${b.job.id} progress`]);
      expect(await texts(s, { newest_of: [b.job.id] })).toEqual(["b2"]);
      expect(await newest({ newest_of: both, kind: "progress" })).toEqual([
        `${b.job.id} progress`,
        `${a.job.id} progress`,
      ]);
      expect(await newest({ newest_of: both, kind: "error" })).toEqual([`${a.job.id} error`]);
      expect(await newest({ newest_of: none })).toEqual([]);
    });
  });

  describe("trimCheckpoints", () => {
    test("keeps the newest of each task, however many jobs it has", async (s) => {
      const a = (await s.granted({ task: "t" })).job.id;
      const b = (await s.granted({ task: "t" })).job.id;
      const other = (await s.granted({ task: "u" })).job.id;
      await note(s, other, "u1", "u2");
      await note(s, a, "t1", "t2");
      await note(s, b, "t3", "t4", "t5");
      await note(s, a, "t6");
      expect(await s.store.trimCheckpoints(3)).toBe(3);
      expect(await texts(s, { task: "t" })).toEqual(["t6", "t5", "t4"]);
      expect(await texts(s, { task: "u" })).toEqual(["u2", "u1"]);
    });

    test("keeps the newest of each job that has no task", async (s) => {
      const a = (await s.granted()).job.id;
      const b = (await s.granted()).job.id;
      await note(s, a, "a1", "a2", "a3");
      await note(s, b, "b1");
      expect(await s.store.trimCheckpoints(2)).toBe(1);
      expect(await texts(s)).toEqual(["b1", "a3", "a2"]);
    });

    test("goes on where it left off: more come, fewer are to be kept, more again", async (s) => {
      const id = (await s.granted()).job.id;
      await note(s, id, "1", "2", "3", "4");
      expect(await s.store.trimCheckpoints(9)).toBe(0);
      expect(await s.store.trimCheckpoints(3)).toBe(1);
      expect(await s.store.trimCheckpoints(3)).toBe(0);
      await note(s, id, "5", "6");
      expect(await s.store.trimCheckpoints(3)).toBe(2);
      expect(await s.store.trimCheckpoints(9)).toBe(0);
      await note(s, id, "7");
      expect(await s.store.trimCheckpoints(9)).toBe(0);
      expect(await s.store.trimCheckpoints(2)).toBe(2);
      expect(await texts(s)).toEqual(["7", "6"]);
    });

    test("never takes the progress from which the next attempt starts", async (s) => {
      const quiet = await s.granted({ task: "t" });
      await note(s, quiet.job.id, "half way");
      const loud = (await s.granted({ task: "t" })).job.id;
      await note(s, loud, "1", "2", "3");
      await s.store.trimCheckpoints(2);
      await s.settle(quiet, end("returned"));
      expect(only(await s.acquire()).checkpoint).toBe("half way");
    });

    test("lets errors not push out that progress either", async (s) => {
      const id = await s.enqueueOne({ settings: { retries: 9 } });
      const first = only(await s.acquire());
      await note(s, id, "half way");
      await s.settle(first, end("exit"), audit());
      for (let attempt = 0; attempt < 3; attempt++) {
        await s.passTime(60_000);
        await s.settle(only(await s.acquire()), end("exit"), audit());
      }
      await s.store.trimCheckpoints(2);
      await s.passTime(60_000);
      expect(only(await s.acquire()).checkpoint).toBe("half way");
    });

    test("of an empty store takes nothing", async (s) => {
      expect(await s.store.trimCheckpoints(1)).toBe(0);
    });
  });

  describe("buryWorker", () => {
    test("notes once that a worker was found dead", async (s) => {
      await s.store.saveWorker(workerRecord());
      const now_ms = await s.store.now();
      const answers = await Promise.all([s.store.buryWorker("w1"), s.store.buryWorker("w1")]);
      expect(answers.toSorted()).toEqual([false, true]);
      const { stopped_at_ms, ended } = only(await s.store.workers());
      s.sameTime(stopped_at_ms, now_ms);
      expect(ended).toBe("dead");
    });

    test("leaves one that ended by itself, and one that is not there", async (s) => {
      const ended = workerRecord({ stopped_at_ms: 3_000, ended: "clean" });
      await s.store.saveWorker(ended);
      expect([await s.store.buryWorker("w1"), await s.store.buryWorker("nobody")]).toEqual([false, false]);
      expect(await s.store.workers()).toEqual([ended]);
    });
  });

  describe("saveWorker", () => {
    test("remembers a thousand that have ended, and those besides that still hold a job", async (s) => {
      await s.granted({}, { holder: "old-7" });
      await s.tamper(`INSERT INTO lease.workers (id, host, boot_id, pid, pid_started, version, slots, started_at_ms,
          seen_at_ms, stopped_at_ms, ended)
        WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1010)
        SELECT 'old-' || n, 'h', 'b', n, n, '1', 1, n, n, n, 'clean' FROM n`);
      await s.store.saveWorker(workerRecord({ id: "new", started_at_ms: 5_000, seen_at_ms: 5_000 }));
      const ids = (await s.store.workers()).map(({ id }) => id);
      expect(ids).toHaveLength(1_002);
      expect(ids).toContain("new");
      expect(ids).toContain("old-7");
      expect(ids).not.toContain("old-10");
      expect(ids).toContain("old-11");
    });

    test("registers a worker and everything about it", async (s) => {
      const plain = workerRecord();
      const full = workerRecord({
        id: "w2",
        name: "späße",
        queues: ["mail", "b"],
        draining: true,
        completed: 4_000_000_000,
        failed: 7,
        stopped_at_ms: 3_000,
        ended: "clean",
      });
      await s.store.saveWorker(plain);
      await s.store.saveWorker(full);
      const saved = (await s.store.workers()).toSorted((a, b) => a.id.localeCompare(b.id));
      expect(saved).toEqual([plain, full]);
    });

    test("of a known worker brings its record up to date", async (s) => {
      await s.store.saveWorker(workerRecord());
      const later = workerRecord({ slots: 5, seen_at_ms: 9_000, stopped_at_ms: 9_500, ended: "dead" });
      await s.store.saveWorker(later);
      expect(await s.store.workers()).toEqual([later]);
    });

    test("follows a worker as it works, drains and ends", async (s) => {
      await s.store.saveWorker(workerRecord());
      const steps: Partial<WorkerRecord>[] = [
        { seen_at_ms: 3_000, completed: 1 },
        { seen_at_ms: 4_000, completed: 1, failed: 1, draining: true },
        { seen_at_ms: 5_000, completed: 2, failed: 1, draining: true, stopped_at_ms: 5_000, ended: "clean" },
      ];
      for (const step of steps) {
        await s.store.saveWorker(workerRecord(step));
        expect(await s.store.workers()).toEqual([workerRecord(step)]);
      }
      await s.store.saveWorker(workerRecord({ id: "w2", host: "ci-4", draining: true, failed: 3 }));
      expect(only(await s.store.workers({ live_on: "ci-4" }))).toMatchObject({
        draining: true,
        completed: 0,
        failed: 3,
      });
    });

    test("lists live workers before those that ended, and on request only the live ones of a host", async (s) => {
      const ended = workerRecord({ id: "a", started_at_ms: 1, stopped_at_ms: 3_000, ended: "clean" });
      const live = workerRecord({ id: "b", started_at_ms: 2 });
      const elsewhere = workerRecord({ id: "c", started_at_ms: 3, host: "ci-4" });
      for (const record of [ended, live, elsewhere]) await s.store.saveWorker(record);
      expect((await s.store.workers()).map(({ id }) => id)).toEqual(["b", "c", "a"]);
      expect(await s.store.workers({ live_on: "ci-3" })).toEqual([live]);
      expect(await s.store.workers({ live_on: "nowhere" })).toEqual([]);
    });

    test("of a worker that was given up and is back makes it a live one again", async (s) => {
      await s.store.saveWorker(workerRecord({ stopped_at_ms: 3_000, ended: "dead" }));
      await s.store.saveWorker(workerRecord({ seen_at_ms: 4_000 }));
      expect(await s.store.workers()).toEqual([workerRecord({ seen_at_ms: 4_000 })]);
    });
  });
}
