/**
 * Jobs that wait for others: blocked until the last of them is satisfied, cancelled with the reason when one can't be.
 */

import { describe, expect } from "bun:test";
import { LeaseError } from "../../src/core/errors.ts";
import { end, newJob } from "../support/jobs.ts";
import { LEASE_MS, only, type StoreTest, type Subject } from "./subject.ts";

/** Runs the one job that is ready to its end. */
async function runNext(s: Subject, id: number, cause: "success" | "exit" | "cancelled"): Promise<void> {
  const grant = only(await s.acquire());
  expect(grant.job.id).toBe(id);
  await s.settle(grant, end(cause));
}

const ONCE = { settings: { retries: 0 } };

export function dependenciesContract(test: StoreTest): void {
  describe("a job that waits for others", () => {
    test("is blocked, and is not granted while they have not run", async (s) => {
      const parent = await s.enqueueOne({ priority: -9 });
      const child = await s.enqueueOne({ after: [parent], priority: 9 });
      expect((await s.job(child)).state).toEqual({ name: "blocked" });
      expect(await s.acquireIds({ count: 9 })).toEqual([parent]);
      expect(await s.acquireIds({ count: 9 })).toEqual([]);
      expect(await s.store.promote()).toBe(0);
    });

    test("is pending once all of them have completed, and not before", async (s) => {
      const [first, second] = (await s.enqueue({}, {})) as [number, number];
      const child = await s.enqueueOne({ after: [first, second] });
      await runNext(s, first, "success");
      expect(await s.stateOf(child)).toBe("blocked");
      await runNext(s, second, "success");
      expect(await s.stateOf(child)).toBe("pending");
      await runNext(s, child, "success");
    });

    test("is pending at once when they have completed before it was enqueued", async (s) => {
      const parent = await s.finished("completed");
      expect(await s.stateOf(await s.enqueueOne({ after: [parent] }))).toBe("pending");
    });

    test("waits on through the retries of the other", async (s) => {
      const parent = await s.enqueueOne();
      const child = await s.enqueueOne({ after: [parent] });
      await runNext(s, parent, "exit");
      expect(await s.stateOf(child)).toBe("blocked");
      await s.passTime(1_000);
      await runNext(s, parent, "success");
      expect(await s.stateOf(child)).toBe("pending");
    });

    test("is scheduled when it is freed before its own time has come", async (s) => {
      const parent = await s.enqueueOne();
      const child = await s.enqueueOne({ after: [parent], delay_ms: 10_000 });
      const { run_at_ms } = await s.job(child);
      await runNext(s, parent, "success");
      expect((await s.job(child)).state).toEqual({ name: "scheduled", run_at_ms });
      await s.passTime(10_000);
      expect(await s.acquireIds()).toEqual([child]);
    });

    test("is cancelled, and says for which one, when one of them fails", async (s) => {
      const parent = await s.enqueueOne(ONCE);
      const other = await s.enqueueOne({ delay_ms: 60_000 });
      const child = await s.enqueueOne({ after: [parent, other] });
      await runNext(s, parent, "exit");
      const { state, reason } = await s.job(child);
      expect(state.name).toBe("cancelled");
      expect(reason).toContain(String(parent));
    });

    test("is cancelled when one of them is cancelled, waiting or running", async (s) => {
      const waiting = await s.enqueueOne({ delay_ms: 60_000 });
      const running = (await s.granted()).job;
      const children = await s.enqueue({ after: [waiting] }, { after: [running.id] });
      await s.store.cancel([waiting, running.id], null);
      expect(await s.stateOf(children[1] as number)).toBe("blocked");
      await s.store.settle([await s.ending(running, end("cancelled"))]);
      expect(await Promise.all(children.map((id) => s.stateOf(id)))).toEqual(["cancelled", "cancelled"]);
    });

    test("is cancelled at once when one of them had already failed", async (s) => {
      const parent = await s.finished("failed");
      expect(await s.stateOf(await s.enqueueOne({ after: [parent] }))).toBe("cancelled");
    });

    test("is cancelled when a sweep gives up the one it waits for", async (s) => {
      const { job } = await s.granted(ONCE);
      const child = await s.enqueueOne({ after: [job.id] });
      await s.passTime(LEASE_MS + 1_000);
      await s.store.recover([await s.recovery(job.id)]);
      expect(await s.stateOf(child)).toBe("cancelled");
    });

    test("is cancelled when the one it waits for is replaced", async (s) => {
      const parent = await s.enqueueOne({ key: "k" });
      const child = await s.enqueueOne({ after: [parent] });
      await s.store.enqueue([newJob({ key: "k", if_exists: "replace" })]);
      expect(await s.stateOf(child)).toBe("cancelled");
    });

    test("passes on to those behind it that it can't run", async (s) => {
      const parent = await s.enqueueOne(ONCE);
      const child = await s.enqueueOne({ after: [parent] });
      const [grandchild, anyway] = (await s.enqueue({ after: [child] }, { after_any: [child] })) as [number, number];
      await runNext(s, parent, "exit");
      expect(await s.stateOf(grandchild)).toBe("cancelled");
      expect((await s.job(grandchild)).reason).toContain(String(child));
      expect(await s.stateOf(anyway)).toBe("pending");
    });

    test("that can't run does so down a chain of any length", async (s) => {
      const first = await s.enqueueOne({ delay_ms: 60_000 });
      const { length } = await s.enqueue(...Array.from({ length: 20_000 }, (_, index) => ({ after: [first + index] })));
      await s.store.cancel([first], null);
      const cancelled = await s.store.list({ states: ["cancelled"], limit: 99_999, newest_first: false });
      expect(cancelled).toHaveLength(length + 1);
    });

    test("and accepts any end is freed by each of them", async (s) => {
      for (const cause of ["success", "exit", "cancelled"] as const) {
        const parent = await s.enqueueOne(ONCE);
        const child = await s.enqueueOne({ after_any: [parent] });
        await runNext(s, parent, cause);
        await runNext(s, child, "success");
      }
    });

    test("must have the success of one that it names in both ways", async (s) => {
      const parent = await s.enqueueOne(ONCE);
      const child = await s.enqueueOne({ after: [parent], after_any: [parent] });
      await runNext(s, parent, "exit");
      expect(await s.stateOf(child)).toBe("cancelled");
    });

    test("may name one twice", async (s) => {
      const parent = await s.enqueueOne();
      const child = await s.enqueueOne({ after: [parent, parent] });
      await runNext(s, parent, "success");
      expect(await s.stateOf(child)).toBe("pending");
    });

    test("of which there is none is refused, and then none of the batch is there", async (s) => {
      const error = await s.store.enqueue([newJob(), newJob({ after: [999] })]).catch((reason: unknown) => reason);
      if (!(error instanceof LeaseError)) throw new Error(`expected a LeaseError, got ${String(error)}`);
      expect(error.code).toBe("dependency");
      expect(error.message).toContain("999");
      expect(await s.store.counts()).toEqual([]);
    });

    test("can't be one that waits for itself", async (s) => {
      const before = await s.enqueueOne();
      const error = await s.enqueueOne({ after: [before + 1] }).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(LeaseError);
    });

    test("is live for its key, waits in the backlog, and is no job to retry", async (s) => {
      const parent = await s.enqueueOne();
      const child = await s.enqueueOne({ after: [parent], key: "k", queue: "q" });
      expect(await s.store.enqueue([newJob({ key: "k" })])).toEqual([{ id: child, created: false }]);
      expect(await s.store.backlog({ queues: ["q"], task: null })).toMatchObject({ pending: 0, waiting: 1 });
      expect(only(await s.store.retry([child])).status).toBe("not_finished");
    });

    test("is cancelled at once by a person", async (s) => {
      const parent = await s.enqueueOne();
      const child = await s.enqueueOne({ after: [parent] });
      expect(await s.store.cancel([child], "not needed")).toEqual([
        { id: child, status: "cancelled", state: "blocked" },
      ]);
      await runNext(s, parent, "success");
      expect(await s.job(child)).toMatchObject({ state: { name: "cancelled" }, reason: "not needed" });
    });

    test("waits for its parents again when it is retried, until they are satisfied", async (s) => {
      const parent = await s.enqueueOne(ONCE);
      const child = await s.enqueueOne({ after: [parent] });
      await runNext(s, parent, "exit");
      expect(await s.stateOf(child)).toBe("cancelled");
      expect(await s.store.retry([child])).toEqual([{ id: child, status: "blocked", state: "cancelled" }]);
      expect(await s.acquireIds({ count: 9 })).toEqual([]);
      expect(await s.store.parents([child])).toMatchObject([{ parent, state: "failed" }]);
      await s.store.retry([parent]);
      await runNext(s, parent, "success");
      await runNext(s, child, "success");
      expect(await s.store.retry([child])).toEqual([{ id: child, status: "pending", state: "completed" }]);
    });

    test("runs in order with its parents when all of them are retried at once, in whatever order", async (s) => {
      const build = await s.enqueueOne();
      const check = await s.enqueueOne({ after: [build] });
      const deploy = await s.enqueueOne({ after: [check], after_any: [build] });
      const all = [build, check, deploy];
      for (const id of all) await runNext(s, id, "success");
      const answers = await s.store.retry([deploy, check, build]);
      expect(answers.map(({ status }) => status)).toEqual(["blocked", "blocked", "pending"]);
      for (const id of all) await runNext(s, id, "success");
    });

    test("is cancelled again when it was retried and the other fails once more", async (s) => {
      const parent = await s.enqueueOne(ONCE);
      const child = await s.enqueueOne({ after: [parent] });
      await runNext(s, parent, "exit");
      await s.store.retry([parent, child]);
      await runNext(s, parent, "exit");
      expect(await s.stateOf(child)).toBe("cancelled");
    });

    test("and was retried goes on waiting when another job comes to wait for the same failed one", async (s) => {
      const parent = await s.finished("failed");
      const child = await s.enqueueOne({ after: [parent] });
      await s.store.retry([child]);
      const another = await s.enqueueOne({ after: [parent] });
      expect([await s.stateOf(child), await s.stateOf(another)]).toEqual(["blocked", "cancelled"]);
    });

    test("keeps the one that it waits for from being pruned", async (s) => {
      const parent = await s.finished("failed");
      const child = await s.enqueueOne({ after: [parent] });
      await s.store.retry([child]);
      const all = { older_than_ms: 0, states: ["failed"], limit: 9 } as const;
      expect((await s.store.prune(all)).count).toBe(0);
      await s.store.cancel([child], null);
      expect((await s.store.prune(all)).count).toBe(1);
    });

    test("for a failure runs when that comes, and is cancelled when it can't come any more", async (s) => {
      const failing = await s.enqueueOne(ONCE);
      const [rescue, useless] = (await s.enqueue({ after_failed: [failing] }, { after: [failing] })) as [
        number,
        number,
      ];
      await runNext(s, failing, "exit");
      expect([await s.stateOf(rescue), await s.stateOf(useless)]).toEqual(["pending", "cancelled"]);
      await runNext(s, rescue, "success");
      for (const [cause, how] of [
        ["success", "completed"],
        ["cancelled", "was cancelled"],
      ] as const) {
        const parent = await s.enqueueOne();
        const child = await s.enqueueOne({ after_failed: [parent] });
        await runNext(s, parent, cause);
        const { state, reason } = await s.job(child);
        expect([state.name, reason]).toEqual(["cancelled", `job ${parent}, which it waits for, ${how}`]);
      }
    });

    test("for a task waits for every job that this has now, and not for itself or later ones", async (s) => {
      const [one, two] = (await s.enqueue({ task: "t" }, { task: "t" })) as [number, number];
      const child = await s.enqueueOne({ after_task: ["t"], task: "t" });
      const later = await s.enqueueOne({ task: "t", delay_ms: 60_000 });
      await runNext(s, one, "success");
      expect(await s.stateOf(child)).toBe("blocked");
      await runNext(s, two, "success");
      expect([await s.stateOf(child), await s.stateOf(later)]).toEqual(["pending", "scheduled"]);
    });

    test("for a task that has no job is refused", async (s) => {
      const error = await s.enqueueOne({ after_task: ["nobody"] }).catch((reason: unknown) => reason);
      if (!(error instanceof LeaseError)) throw new Error(`expected a LeaseError, got ${String(error)}`);
      expect([error.code, error.message]).toEqual(["dependency", "there is no job of task nobody to wait for"]);
    });

    test("is freed with very many others in several commits, between which beats are written", async (s) => {
      const parent = await s.granted();
      const beating = only(await s.enqueue({}));
      const holder = only(await s.acquire());
      expect(holder.job.id).toBe(beating);
      const count = 20_000;
      await s.enqueue(...Array.from({ length: count }, () => ({ after: [parent.job.id] })));
      await s.settle(parent);
      const [{ pending }, beat] = await Promise.all([
        s.store.backlog({ queues: null, task: null }),
        s.store.extend([{ id: beating, token: 1, expires_in_ms: LEASE_MS, beat_age_ms: 0, beats: 1 }]),
      ]);
      expect(beat).toMatchObject([{ status: "extended" }]);
      expect(pending).toBeLessThan(count);
      // Whoever acquires goes on with it, and has enough to do meanwhile.
      expect(await s.acquireIds({ count: 3 })).toHaveLength(3);
      await s.store.promote();
      expect(await s.store.backlog({ queues: null, task: null })).toMatchObject({ pending: count - 3, waiting: 0 });
    });

    test("waits again for one that a person retried before the other was satisfied", async (s) => {
      const first = await s.finished("completed");
      const second = await s.enqueueOne({ delay_ms: 5_000 });
      const child = await s.enqueueOne({ after: [first, second] });
      await s.store.retry([first]);
      const again = only(await s.acquire());
      await s.passTime(5_000);
      await runNext(s, second, "success");
      expect(await s.stateOf(child)).toBe("blocked");
      await s.settle(again);
      expect(await s.stateOf(child)).toBe("pending");
    });
  });

  describe("links", () => {
    test("are all that jobs wait or have waited for, by job and parent", async (s) => {
      const [a, b] = (await s.enqueue({}, {})) as [number, number];
      const x = await s.enqueueOne({ after: [b], after_any: [a] });
      const y = await s.enqueueOne({ after_failed: [x] });
      await runNext(s, a, "success");
      expect(await s.store.links([y, x, a, 999])).toEqual([
        { job: x, parent: a, kind: "any" },
        { job: x, parent: b, kind: "success" },
        { job: y, parent: x, kind: "failure" },
      ]);
    });
  });

  describe("parents", () => {
    test("are those that a blocked job still waits for, and since when they are as they are", async (s) => {
      const started_ms = await s.store.now();
      const running = await s.granted();
      await s.passTime(5_000);
      const created_ms = await s.store.now();
      const [pending, scheduled] = (await s.enqueue({}, { delay_ms: 60_000 })) as [number, number];
      const child = await s.enqueueOne({ after: [pending, running.job.id], after_any: [scheduled] });
      const found = await s.store.parents([child]);
      expect(found.map(({ since_ms: _since_ms, ...rest }) => rest)).toEqual([
        { job: child, parent: running.job.id, kind: "success", state: "running" },
        { job: child, parent: pending, kind: "success", state: "pending" },
        { job: child, parent: scheduled, kind: "any", state: "scheduled" },
      ]);
      for (const [index, since_ms] of [started_ms, created_ms, created_ms].entries()) {
        s.sameTime(found[index]?.since_ms ?? null, since_ms);
      }
      await s.settle(running);
      expect((await s.store.parents([child])).map(({ parent }) => parent)).toEqual([pending, scheduled]);
      await s.store.cancel([scheduled], null);
      expect((await s.store.parents([child])).map(({ parent }) => parent)).toEqual([pending]);
    });

    test("come by job and parent, for all jobs that are asked for", async (s) => {
      const [a, b, c] = (await s.enqueue({}, {}, {})) as [number, number, number];
      const [x, y] = (await s.enqueue({ after: [c, a] }, { after: [b] })) as [number, number];
      const z = await s.enqueueOne({ after: [x] });
      const pairs = async (...ids: number[]) =>
        (await s.store.parents(ids)).map(({ job, parent, state }) => [job, parent, state]);
      expect(await pairs(z, y, x, 999)).toEqual([
        [x, a, "pending"],
        [x, c, "pending"],
        [y, b, "pending"],
        [z, x, "blocked"],
      ]);
      expect(await pairs(y, y)).toEqual([[y, b, "pending"]]);
      expect(await pairs(a)).toEqual([]);
      expect(await pairs()).toEqual([]);
    });

    test("are none of a job that waits no more: freed, cancelled, or doomed by one that failed", async (s) => {
      const parent = await s.granted({ settings: { retries: 0 } });
      const [doomed, cancelled] = (await s.enqueue({ after: [parent.job.id] }, { after: [parent.job.id] })) as [
        number,
        number,
      ];
      const freed = await s.enqueueOne({ after_any: [parent.job.id] });
      await s.store.cancel([cancelled], null);
      await s.settle(parent, end("exit"));
      expect(await s.stateOf(doomed)).toBe("cancelled");
      expect(await s.store.parents([doomed, cancelled, freed])).toEqual([]);
      // The one that was freed does not wait again because its parent runs again.
      await s.store.retry([parent.job.id]);
      expect(await s.store.parents([freed])).toEqual([]);
    });
  });
}
