/** enqueue for a job in the foreground: granted in the same write, answered by what is done; bulk errors name their job. */

import { describe, expect } from "bun:test";
import { LeaseError } from "../../src/core/errors.ts";
import type { NewJob } from "../../src/core/job.ts";
import { newJob } from "../support/jobs.ts";
import { LEASE_MS, only, type StoreTest } from "./subject.ts";

const acquire = { holder: "me", host: "here", lease_ms: LEASE_MS };

export function enqueueOptionsContract(test: StoreTest): void {
  describe("enqueue and acquire", () => {
    test("grants a new job at once, as acquire would", async (s) => {
      const { id, created, grant } = only(await s.store.enqueue([newJob({ argv: ["a"] })], { acquire }));
      expect(created).toBe(true);
      expect(grant).toMatchObject({ lease_ms: LEASE_MS, checkpoint: null, previous: null });
      expect(grant?.job).toEqual(await s.job(id));
      expect(grant?.job).toMatchObject({ token: 1, state: { name: "running", holder: "me" } });
      expect(await s.store.attempts(id)).toMatchObject([{ attempt: 1, worker: "me", host: "here" }]);
      expect(await s.acquire()).toEqual([]);
    });

    test("grants a live job of the key that is pending, and none that can't start", async (s) => {
      const pending = await s.enqueueOne({ key: "k" });
      const later = await s.enqueueOne({ key: "later", delay_ms: 60_000 });
      const asked = [newJob({ key: "k" }), newJob({ key: "later" }), newJob({ after: [pending] })];
      const answers = await s.store.enqueue(asked, { acquire });
      expect(answers.map(({ id, grant }) => [id, grant?.job.id ?? null])).toEqual([
        [pending, pending],
        [later, null],
        [later + 1, null],
      ]);
      const again = only(await s.store.enqueue([newJob({ key: "k" })], { acquire }));
      expect(again).toEqual({ id: pending, created: false, grant: null });
    });

    test("is one grant among any number that ask at the same time", async (s) => {
      const other = await s.reopen();
      const asked = Array.from({ length: 10 }, (_, index) =>
        (index % 2 ? s.store : other).enqueue([newJob({ key: "k" })], { acquire }),
      );
      const answers = (await Promise.all(asked)).flat();
      expect(answers.filter(({ grant }) => grant !== null)).toHaveLength(1);
    });
  });

  describe("enqueue with a key that is done", () => {
    const BOTH = ["completed", "failed"] as const;

    test("makes a new job after one that ended in another way than is wanted", async (s) => {
      await s.finished("failed", { key: "k" });
      const again = only(await s.store.enqueue([newJob({ key: "k" })], { done_answers: ["completed"] }));
      expect(again.created).toBe(true);
      await s.store.cancel([again.id], null);
      await s.finished("completed", { key: "l" });
      expect(only(await s.store.enqueue([newJob({ key: "l" })], { done_answers: ["completed"] })).created).toBe(false);
    });

    test("is answered by a job that has completed or failed, where that is wanted", async (s) => {
      for (const name of ["completed", "failed"] as const) {
        const done = await s.finished(name, { key: name });
        const answer = await s.store.enqueue([newJob({ key: name })], { done_answers: BOTH, acquire });
        expect(answer).toEqual([{ id: done, created: false, grant: null }]);
        const unasked = only(await s.store.enqueue([newJob({ key: name })]));
        expect(unasked.created).toBe(true);
        await s.store.cancel([unasked.id], null);
      }
    });

    test("makes a new job after one that was cancelled, and without a key", async (s) => {
      await s.finished("completed", { key: "k" });
      await s.store.cancel([only(await s.store.enqueue([newJob({ key: "k" })])).id], null);
      expect(only(await s.store.enqueue([newJob({ key: "k" })], { done_answers: BOTH })).created).toBe(true);
      expect(only(await s.store.enqueue([newJob()], { done_answers: BOTH })).created).toBe(true);
    });

    test("is answered by a live job before any that is done", async (s) => {
      await s.finished("completed", { key: "k" });
      const live = await s.enqueueOne({ key: "k" });
      expect(await s.store.enqueue([newJob({ key: "k" })], { done_answers: BOTH })).toEqual([
        { id: live, created: false },
      ]);
    });
  });

  describe("enqueueAll that is refused", () => {
    test("names the job by its place among all batches", async (s) => {
      await s.enqueueOne({ key: "taken" });
      const wrong: [string, NewJob][] = [
        ["dependency", newJob({ after: [99_999] })],
        ["key_exists", newJob({ key: "taken", if_exists: "fail" })],
        ["invalid_job", newJob({ argv: [] })],
      ];
      for (const [code, job] of wrong) {
        const many = Array.from({ length: 130 }, () => newJob());
        async function* batches() {
          yield many;
          yield [newJob(), newJob({ key: "free" }), job, newJob()];
        }
        const error = await s.store.enqueueAll(batches()).then(
          () => null,
          (reason: unknown) => reason,
        );
        expect(error).toBeInstanceOf(LeaseError);
        expect(error).toMatchObject({ code, index: 132 });
        expect((await s.store.list({ limit: 10, newest_first: false })).length).toBe(1);
      }
    });
  });
}
