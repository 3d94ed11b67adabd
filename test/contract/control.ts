/**
 * What a person says about jobs: cancel and retry, and how a worker hears of the first.
 */

import { describe, expect } from "bun:test";
import { end, newJob, type JobOverrides } from "../support/jobs.ts";
import { only, type StoreTest, type Subject } from "./subject.ts";

const reasonOf = async (s: Subject, id: number) => (await s.job(id)).reason;

/** More than are done one by one, in a row. */
const MANY = 150;

const countsOf = async (s: Subject, queue: string) =>
  Object.fromEntries((await s.store.counts({ queues: [queue] })).map(({ state, count }) => [state, count]));

const enqueueMany = (s: Subject, overrides: JobOverrides = {}) =>
  s.enqueue(...Array.from({ length: MANY }, () => ({ queue: "many", ...overrides })));

export function controlContract(test: StoreTest): void {
  describe("cancel", () => {
    test("ends a pending and a scheduled job at once, with the reason, and they never run", async (s) => {
      const ids = await s.enqueue({}, { delay_ms: 1_000 });
      await s.passTime(500);
      const now_ms = await s.store.now();
      expect(await s.store.cancel(ids, "not needed")).toEqual([
        { id: ids[0] as number, status: "cancelled", state: "pending" },
        { id: ids[1] as number, status: "cancelled", state: "scheduled" },
      ]);
      for (const id of ids) {
        const { state, reason, token } = await s.job(id);
        if (state.name !== "cancelled") throw new Error(state.name);
        s.sameTime(state.finished_at_ms, now_ms);
        expect([reason, token]).toEqual(["not needed", 0]);
      }
      await s.passTime(1_000);
      expect(await s.acquireIds({ count: 9 })).toEqual([]);
    });

    test("ends a job between two attempts at once", async (s) => {
      const grant = await s.granted();
      await s.settle(grant, end("exit"));
      expect(only(await s.store.cancel([grant.job.id], null))).toMatchObject({
        status: "cancelled",
        state: "scheduled",
      });
      expect(await s.job(grant.job.id)).toMatchObject({ state: { name: "cancelled" }, token: 1, failures: 1 });
    });

    test("ends many in a row, counts them, and takes along what waits for one of them", async (s) => {
      const ids = await enqueueMany(s);
      const child = await s.enqueueOne({ queue: "other", after: [ids[7] as number] });
      expect(await s.store.cancel(ids, "not needed")).toEqual(
        ids.map((id) => ({ id, status: "cancelled", state: "pending" })),
      );
      expect(await countsOf(s, "many")).toEqual({ cancelled: MANY });
      expect(await reasonOf(s, ids[9] as number)).toBe("not needed");
      expect(await s.stateOf(child)).toBe("cancelled");
      const [point] = await s.store.history({ since_ms: 0, span_ms: 60_000, queues: ["many"] });
      expect(point?.cancelled).toBe(MANY);
    });

    test("tells those of many in a row apart that are not as the others", async (s) => {
      const ids = await enqueueMany(s);
      const running = only(await s.acquireIds({ queues: ["many"] }));
      const later = await enqueueMany(s, { delay_ms: 1_000 });
      const answers = await s.store.cancel([...ids, ...later], null);
      expect(answers.filter(({ status }) => status === "cancelled")).toHaveLength(2 * MANY - 1);
      expect(answers.find(({ id }) => id === running)).toEqual({ id: running, status: "cancelling", state: "running" });
      expect(answers.at(-1)?.state).toBe("scheduled");
      expect(await countsOf(s, "many")).toEqual({ cancelled: 2 * MANY - 1, running: 1 });
    });

    test("asks a running job to stop, and leaves it its lease", async (s) => {
      const { job, expires_at_ms } = await s.granted();
      const now_ms = await s.store.now();
      expect(await s.store.cancel([job.id], "not needed")).toEqual([
        { id: job.id, status: "cancelling", state: "running" },
      ]);
      const { state, reason } = await s.job(job.id);
      if (state.name !== "running") throw new Error(state.name);
      expect(state).toMatchObject({ holder: "w1", expires_at_ms });
      s.sameTime(state.cancel_requested_at_ms, now_ms);
      expect(reason).toBe("not needed");
    });

    test("remembers the first of two requests", async (s) => {
      const { job } = await s.granted();
      await s.store.cancel([job.id], "first");
      const before = await s.job(job.id);
      await s.passTime(1_000);
      expect(only(await s.store.cancel([job.id], "second")).status).toBe("cancelling");
      expect(await s.job(job.id)).toEqual(before);
    });

    test("does nothing to a finished job, and says how it ended", async (s) => {
      for (const state of ["completed", "failed", "cancelled"] as const) {
        const id = await s.finished(state);
        const before = await s.job(id);
        expect(await s.store.cancel([id], "too late")).toEqual([{ id, status: "finished", state }]);
        expect(await s.job(id)).toEqual(before);
      }
    });

    test("with cascade takes along what waits in any way, all the way down, and nothing else", async (s) => {
      const running = await s.granted();
      const [first] = (await s.enqueue({ delay_ms: 60_000 })) as [number];
      const anyway = await s.enqueueOne({ after_any: [first] });
      const rescue = await s.enqueueOne({ after_failed: [anyway, running.job.id] });
      const other = await s.enqueueOne({ delay_ms: 60_000 });
      const answers = await s.store.cancel([first], "all of it", { cascade: true });
      expect(answers.map(({ id, status }) => [id, status])).toEqual([
        [first, "cancelled"],
        [anyway, "cancelled"],
        [rescue, "cancelled"],
      ]);
      expect([await s.stateOf(other), await s.stateOf(running.job.id)]).toEqual(["scheduled", "running"]);
      expect((await s.job(rescue)).state.name).toBe("cancelled");
    });

    test("gives its reason to all that it names, also where one of them waits for another", async (s) => {
      const first = await s.enqueueOne();
      const [second] = (await s.enqueue({ after: [first] })) as [number];
      await s.store.cancel([first, second], "wrong branch");
      expect([await reasonOf(s, first), await reasonOf(s, second)]).toEqual(["wrong branch", "wrong branch"]);
      const third = await s.enqueueOne();
      const [fourth] = (await s.enqueue({ after: [third] })) as [number];
      await s.store.cancel([third, fourth], null);
      expect([await reasonOf(s, third), await reasonOf(s, fourth)]).toEqual([null, null]);
    });

    test("with cascade and no reason says of those that it takes along whom they went with", async (s) => {
      const first = await s.enqueueOne();
      const child = await s.enqueueOne({ after: [first] });
      const grandchild = await s.enqueueOne({ after_any: [child] });
      await s.store.cancel([first], null, { cascade: true });
      expect(await reasonOf(s, first)).toBeNull();
      for (const id of [child, grandchild]) expect(await reasonOf(s, id)).toBe(`cancelled along with job ${first}`);
      const done = await s.finished("completed");
      const late = await s.enqueueOne({ after: [done] });
      await s.store.cancel([done, late], "both", { cascade: true });
      expect(await reasonOf(s, late)).toBe("both");
    });

    test("answers for each id in the order asked, an unknown one too", async (s) => {
      const [first, second] = await s.enqueue({}, {});
      const answers = await s.store.cancel([second as number, 999, first as number], null);
      expect(answers.map(({ id, status }) => [id, status])).toEqual([
        [second as number, "cancelled"],
        [999, "unknown"],
        [first as number, "cancelled"],
      ]);
      expect(answers[1]?.state).toBeNull();
    });
  });

  describe("cancelRequests", () => {
    test("names the jobs of this holder that were asked to stop, with their tokens", async (s) => {
      const mine = await s.granted({}, { holder: "w1" });
      const other = await s.granted({}, { holder: "w2" });
      await s.granted({}, { holder: "w1" });
      expect(await s.store.cancelRequests("w1")).toEqual([]);
      await s.store.cancel([mine.job.id, other.job.id], null);
      expect(await s.store.cancelRequests("w1")).toEqual([{ id: mine.job.id, token: 1, grace: null }]);
    });

    test("tells the grace of the latest cancel that says one", async (s) => {
      const { job } = await s.granted();
      const asked = async () => only(await s.store.cancelRequests("w1")).grace;
      await s.store.cancel([job.id], null);
      expect(await asked()).toBeNull();
      await s.store.cancel([job.id], null, { grace: "never" });
      expect(await asked()).toBe("never");
      await s.store.cancel([job.id], null);
      await s.store.cancel([job.id], null, { grace: 5_000 });
      expect(await asked()).toBe(5_000);
      const beat = { id: job.id, token: 1, expires_in_ms: 60_000, beat_age_ms: 0, beats: 1 };
      expect(await s.store.extend([beat])).toMatchObject([{ cancel_requested: true, grace: 5_000 }]);
    });

    test("names a job no longer once it has ended", async (s) => {
      const grant = await s.granted();
      await s.store.cancel([grant.job.id], null);
      await s.settle(grant, end("cancelled"));
      expect(await s.store.cancelRequests("w1")).toEqual([]);
    });

    test("does not name the next attempt of a job that a person retried", async (s) => {
      const grant = await s.granted();
      await s.store.cancel([grant.job.id], null);
      await s.settle(grant, end("cancelled"));
      await s.store.retry([grant.job.id]);
      await s.acquire();
      expect(await s.store.cancelRequests("w1")).toEqual([]);
    });
  });

  describe("retry", () => {
    test("makes a finished job pending now, with all its retries and nothing of its old result", async (s) => {
      for (const state of ["completed", "failed", "cancelled"] as const) {
        const id = await s.finished(state);
        await s.passTime(5_000);
        const now_ms = await s.store.now();
        expect(await s.store.retry([id])).toEqual([{ id, status: "pending", state }]);
        const job = await s.job(id);
        s.sameTime(job.run_at_ms, now_ms);
        expect(job).toMatchObject({
          state: { name: "pending", run_at_ms: job.run_at_ms },
          failures: 0,
          token: 1,
          reason: null,
          result: { cause: null, exit_code: null, error: null, output: null },
        });
        const again = only(await s.acquire());
        expect([again.job.id, again.job.token]).toEqual([id, 2]);
        await s.settle(again);
      }
    });

    test("keeps the attempts of before", async (s) => {
      const id = await s.finished("failed");
      await s.store.retry([id]);
      await s.settle(only(await s.acquire()));
      expect((await s.store.attempts(id)).map((attempt) => [attempt.attempt, attempt.end?.cause])).toEqual([
        [1, "exit"],
        [2, "success"],
      ]);
    });

    test("gives back every retry", async (s) => {
      const id = await s.finished("failed");
      await s.store.retry([id]);
      await s.settle(only(await s.acquire()), end("exit"));
      expect(await s.job(id)).toMatchObject({ state: { name: "failed" }, failures: 1 });
    });

    test("does nothing to a job that has not finished", async (s) => {
      const running = (await s.granted()).job.id;
      const [pending, scheduled] = await s.enqueue({}, { delay_ms: 1_000 });
      const ids = [running, pending, scheduled] as number[];
      const before = await s.store.jobs(ids);
      expect(await s.store.retry(ids)).toEqual([
        { id: running, status: "not_finished", state: "running" },
        { id: pending as number, status: "not_finished", state: "pending" },
        { id: scheduled as number, status: "not_finished", state: "scheduled" },
      ]);
      expect(await s.store.jobs(ids)).toEqual(before);
    });

    test("makes many in a row pending, and blocked where they wait for others", async (s) => {
      const ids = await enqueueMany(s);
      await s.store.cancel(ids, "not needed");
      expect(await s.store.retry(ids)).toEqual(ids.map((id) => ({ id, status: "pending", state: "cancelled" })));
      expect(await countsOf(s, "many")).toEqual({ pending: MANY });
      const children = await enqueueMany(s, { after: [ids[0] as number] });
      await s.store.cancel([...ids, ...children], "not needed");
      const answers = await s.store.retry([...ids, ...children]);
      expect(answers.filter(({ status }) => status === "pending").map(({ id }) => id)).toEqual(ids);
      expect(answers.filter(({ status }) => status === "blocked").map(({ id }) => id)).toEqual(children);
      expect(await reasonOf(s, ids[9] as number)).toBeNull();
      expect(await countsOf(s, "many")).toEqual({ pending: MANY, blocked: MANY });
    });

    test("does nothing to a job whose key a live job has taken", async (s) => {
      const id = await s.finished("failed", { key: "k" });
      await s.store.enqueue([newJob({ key: "k" })]);
      const before = await s.job(id);
      expect(await s.store.retry([id])).toEqual([{ id, status: "key_taken", state: "failed" }]);
      expect(await s.job(id)).toEqual(before);
    });

    test("gives a key to the first of two jobs that want it back", async (s) => {
      const first = await s.finished("failed", { key: "k" });
      const second = await s.finished("failed", { key: "k" });
      expect((await s.store.retry([second, first])).map(({ status }) => status)).toEqual(["pending", "key_taken"]);
    });

    test("answers for each id in the order asked, an unknown one too", async (s) => {
      const first = await s.finished("completed");
      const second = await s.finished("completed");
      expect((await s.store.retry([second, 999, first])).map(({ id, status }) => [id, status])).toEqual([
        [second, "pending"],
        [999, "unknown"],
        [first, "pending"],
      ]);
    });
  });

  describe("promote", () => {
    test("makes what is due pending, and says how many", async (s) => {
      const [soon, later, retrying] = await s.enqueue({ delay_ms: 1_000 }, { delay_ms: 50_000 }, { priority: 9 });
      await s.settle(only(await s.acquire()), end("exit"));
      expect(await s.store.promote()).toBe(0);
      await s.passTime(2_000);
      expect(await s.store.promote()).toBe(2);
      expect(await s.store.promote()).toBe(0);
      const states = await Promise.all([soon, later, retrying].map((id) => s.stateOf(id as number)));
      expect(states).toEqual(["pending", "scheduled", "pending"]);
    });

    test("keeps the due time, so that a job does not lose its place", async (s) => {
      const id = await s.enqueueOne({ delay_ms: 1_000 });
      const { run_at_ms } = await s.job(id);
      await s.passTime(9_000);
      await s.store.promote();
      expect((await s.job(id)).state).toEqual({ name: "pending", run_at_ms });
    });
  });
}
