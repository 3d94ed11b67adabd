/**
 * What is queued when a job fails for good: in the write in which it does, once, and never for a hook.
 */

import { describe, expect } from "bun:test";
import { hookOf } from "../../src/core/hook.ts";
import type { Job } from "../../src/core/job.ts";
import type { AttemptEnd } from "../../src/core/transition.ts";
import type { SettleRequest } from "../../src/store/store.ts";
import { end } from "../support/jobs.ts";
import { LEASE_MS, only, type StoreTest, type Subject } from "./subject.ts";

const HOOKED = { settings: { retries: 0, on_failed: "./notify.sh" }, env: { A: "1" }, cwd: "/srv", queue: "q" };

async function ending(s: Subject, job: Job, attempt: AttemptEnd): Promise<SettleRequest> {
  const request = await s.ending(job, attempt);
  return { ...request, hook: hookOf(job, request.change, ["one", "two"]) };
}

/** All that there are, but for the first. */
async function hooks(s: Subject): Promise<Job[]> {
  const all = await s.store.list({ limit: 99, newest_first: false });
  return all.slice(1);
}

export function hooksContract(test: StoreTest): void {
  describe("a hook", () => {
    test("is queued when its job fails for good, with what is known of that", async (s) => {
      const { job } = await s.granted(HOOKED);
      expect(await s.store.settle([await ending(s, job, end("exit"))])).toEqual([{ status: "applied" }]);
      const hook = only(await hooks(s));
      expect(hook).toMatchObject({
        argv: ["sh", "-c", "./notify.sh"],
        state: { name: "pending" },
        queue: "q",
        cwd: "/srv",
        settings: { on_failed: null, hook: { job: job.id, attempt: 1 } },
      });
      expect(hook.env).toEqual({
        A: "1",
        LEASE_FAILED_JOB: String(job.id),
        LEASE_FAILED_ATTEMPT: "1",
        LEASE_FAILED_CAUSE: "exit",
        LEASE_FAILED_ERROR: "ended by exit",
        LEASE_FAILED_LAST_LINES: "one\ntwo",
      });
    });

    test("is queued once, however often the end is written", async (s) => {
      const { job } = await s.granted(HOOKED);
      const request = await ending(s, job, end("exit"));
      expect(await s.store.settle([request])).toEqual([{ status: "applied" }]);
      expect(await s.store.settle([request])).toEqual([{ status: "stale", reason: "expired" }]);
      expect(await hooks(s)).toHaveLength(1);
    });

    test("is queued again when a person retries the job and it fails again", async (s) => {
      const { job } = await s.granted(HOOKED);
      await s.store.settle([await ending(s, job, end("exit"))]);
      await s.store.retry([job.id]);
      const [again] = await s.store.acquire({ ...ANY, job: job.id });
      await s.store.settle([await ending(s, again!.job, end("exit"))]);
      expect((await hooks(s)).map(({ settings }) => settings.hook?.attempt)).toEqual([1, 2]);
    });

    test("is queued by the sweep that gives a job up", async (s) => {
      const { job } = await s.granted(HOOKED);
      await s.passTime(LEASE_MS + 1_000);
      const request = await s.recovery(job.id);
      const hook = hookOf(job, request.change, []);
      expect(await s.store.recover([{ ...request, hook }])).toEqual(["recovered"]);
      expect(await s.store.recover([{ ...request, hook }])).toEqual(["changed"]);
      expect(only(await hooks(s)).env).toMatchObject({ LEASE_FAILED_CAUSE: "expired" });
    });

    test("is not queued while the job goes on, when it ends otherwise, or for another hook", async (s) => {
      const { job } = await s.granted({ settings: { retries: 1, on_failed: "x" } });
      for (const cause of ["exit", "success", "returned", "cancelled"] as const) {
        expect((await ending(s, job, end(cause))).hook).toBeNull();
      }
      const hook = { ...job, settings: { ...job.settings, retries: 0, hook: { job: 1, attempt: 1 } } };
      expect((await ending(s, hook, end("exit"))).hook).toBeNull();
    });
  });
}

const ANY = { holder: "w1", host: "h1", count: 1, queues: null, task: null, lease_ms: LEASE_MS };
