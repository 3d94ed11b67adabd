/**
 * Several handles on one store, and handles that come and go.
 */

import { describe, expect } from "bun:test";
import { end, newJob } from "../support/jobs.ts";
import { acquireRequest, audit, only, type StoreTest } from "./subject.ts";

export function handlesContract(test: StoreTest): void {
  describe("a store", () => {
    test("has everything again after it was closed and opened", async (s) => {
      const grant = await s.granted({ task: "t", key: "k", input: new Uint8Array([1, 255]), env: { A: "1" } });
      const { id } = grant.job;
      await s.store.checkpoint([{ id, token: 1, text: "half way" }]);
      await s.settle(grant, end("exit", { last_line: "oh" }), audit());
      await s.enqueue({ delay_ms: 5_000 });
      await s.granted();
      const all = { limit: 99, newest_first: false };
      const before = [
        await s.store.list(all),
        await s.store.attempts(id),
        await s.store.checkpoints({ limit: 99 }),
        await s.store.counts(),
      ];
      await s.store.close();

      const again = await s.reopen();
      expect([
        await again.list(all),
        await again.attempts(id),
        await again.checkpoints({ limit: 99 }),
        await again.counts(),
      ]).toEqual(before);
    });

    test("goes on with rising ids, tokens and fences after it was opened again", async (s) => {
      const grant = await s.granted();
      await s.settle(grant, end("returned"));
      await s.store.close();
      const again = await s.reopen();
      const { job } = only(await again.acquire(acquireRequest({ holder: "w2" })));
      expect([job.id, job.token]).toEqual([grant.job.id, 2]);
      const request = { expires_in_ms: 5_000, beat_age_ms: 0, beats: 0, id: job.id };
      const answers = await again.extend([
        { ...request, token: 1 },
        { ...request, token: 2 },
      ]);
      expect(answers.map(({ status }) => status)).toEqual(["conflict", "extended"]);
      expect(only(await again.enqueue([newJob()])).id).toBeGreaterThan(job.id);
    });

    test("finishes what was asked of it before it closes, every time", async (s) => {
      let { store } = s;
      for (let round = 0; round < 3; round++) {
        const asked = store.enqueue([newJob(), newJob()]);
        await store.close();
        const ids = (await asked).map(({ id }) => id);
        store = await s.reopen();
        expect((await store.jobs(ids)).map((job) => job?.state.name)).toEqual(["pending", "pending"]);
      }
    });

    test("shows to every handle what any of them has written", async (s) => {
      const other = await s.reopen();
      const [id] = (await s.enqueue({})) as [number];
      expect((await other.jobs([id]))[0]?.state.name).toBe("pending");
      await other.acquire(acquireRequest());
      expect(await s.stateOf(id)).toBe("running");
    });

    test("shows no more of a batch to another handle than all or nothing", async (s) => {
      const other = await s.reopen();
      const asked = s.store.enqueue(Array.from({ length: 50 }, () => newJob()));
      const seen = (await other.counts()).reduce((sum, { count }) => sum + count, 0);
      await asked;
      expect([0, 50]).toContain(seen);
    });

    test("keeps its own time", async (s) => {
      const before_ms = await s.store.now();
      await s.passTime(3_000);
      s.sameTime(await s.store.now(), before_ms + 3_000);
    });

    test("says where it is", async (s) => {
      expect(s.store.location).not.toBe("");
    });
  });

  describe("onReplaced", () => {
    test("says nothing about a store that others use and close, and can be stopped", async (s) => {
      let told = 0;
      const stop = s.store.onReplaced(() => (told += 1));
      const other = await s.reopen();
      await other.enqueue([newJob()]);
      await other.close();
      expect(await s.acquireIds()).toHaveLength(1);
      stop();
      expect(told).toBe(0);
    });
  });

  describe("watch", () => {
    test("calls back when another handle commits", async (s) => {
      const other = await s.reopen();
      const { promise, resolve } = Promise.withResolvers<void>();
      const stop = s.store.watch(resolve);
      await other.enqueue([newJob()]);
      await promise;
      expect(await s.acquireIds()).toHaveLength(1);
      stop();
    });

    test("calls back every time, not just the first", async (s) => {
      const other = await s.reopen();
      let changed = Promise.withResolvers<void>();
      const stop = s.store.watch(() => changed.resolve());
      for (let round = 0; round < 5; round++) {
        await other.enqueue([newJob()]);
        await changed.promise;
        changed = Promise.withResolvers<void>();
      }
      stop();
    });

    test("can be stopped by what it calls, and then calls no more", async (s) => {
      const other = await s.reopen();
      let calls = 0;
      let changed = Promise.withResolvers<void>();
      const stop = s.store.watch(() => {
        calls++;
        stop();
      });
      const stopSecond = s.store.watch(() => changed.resolve());
      for (let round = 0; round < 20; round++) {
        await other.enqueue([newJob()]);
        await changed.promise;
        changed = Promise.withResolvers<void>();
      }
      stopSecond();
      expect(calls).toBe(1);
    });

    test("calls back no more once it is stopped", async (s) => {
      const other = await s.reopen();
      let calls = 0;
      const stop = s.store.watch(() => calls++);
      stop();
      stop();
      // A second watch, behind the first, tells when the news has come.
      const { promise, resolve } = Promise.withResolvers<void>();
      const stopSecond = s.store.watch(resolve);
      await other.enqueue([newJob()]);
      await promise;
      stopSecond();
      expect(calls).toBe(0);
    });
  });
}
