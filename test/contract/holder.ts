/**
 * What a holder writes while its job runs: extensions, the process, progress checkpoints. Each carries the token, and
 * each that comes too late is answered with why.
 */

import { describe, expect } from "bun:test";
import type { Grant, ExtendRequest } from "../../src/store/store.ts";
import { end } from "../support/jobs.ts";
import { LEASE_MS, only, type StoreTest, type Subject } from "./subject.ts";

function extension({ job }: Grant, overrides: Partial<ExtendRequest> = {}): ExtendRequest {
  return { id: job.id, token: job.token, expires_in_ms: LEASE_MS, beat_age_ms: 0, beats: 1, ...overrides };
}

/** The grant of a first worker whose job has meanwhile been given to a second one. */
async function superseded(s: Subject): Promise<{ old: Grant; current: Grant }> {
  const old = await s.granted({}, { holder: "w1" });
  await s.passTime(LEASE_MS + 1_000);
  await s.store.recover([await s.recovery(old.job.id)]);
  return { old, current: only(await s.acquire({ holder: "w2" })) };
}

export function holderContract(test: StoreTest): void {
  describe("extend", () => {
    test("moves the expiry to the beat plus the lease", async (s) => {
      const grant = await s.granted();
      await s.passTime(10_000);
      const now_ms = await s.store.now();
      const answer = only(
        await s.store.extend([extension(grant, { expires_in_ms: 60_000, beat_age_ms: 4_000, beats: 7 })]),
      );
      if (answer.status !== "extended") throw new Error(answer.status);
      expect(answer.cancel_requested).toBe(false);
      s.sameTime(answer.expires_at_ms, now_ms - 4_000 + 60_000);
      const job = await s.job(grant.job.id);
      expect(job.state).toMatchObject({ name: "running", holder: "w1", expires_at_ms: answer.expires_at_ms });
      s.sameTime(job.last_beat_at_ms, now_ms - 4_000);
      expect(only(await s.store.attempts(job.id)).beats).toBe(7);
    });

    test("that is no beat moves the expiry but not the last beat", async (s) => {
      const grant = await s.granted();
      await s.store.extend([extension(grant, { beat_age_ms: 0 })]);
      const { last_beat_at_ms } = await s.job(grant.job.id);
      await s.passTime(10_000);
      const now_ms = await s.store.now();
      const answer = only(await s.store.extend([extension(grant, { expires_in_ms: 15_000, beat_age_ms: null })]));
      if (answer.status !== "extended") throw new Error(answer.status);
      s.sameTime(answer.expires_at_ms, now_ms + 15_000);
      expect((await s.job(grant.job.id)).last_beat_at_ms).toBe(last_beat_at_ms);
    });

    test("that is no beat keeps a later end when it asks for one at least, and the last beat", async (s) => {
      const grant = await s.granted();
      const beat = only(await s.store.extend([extension(grant, { expires_in_ms: 60_000 })]));
      const { last_beat_at_ms } = await s.job(grant.job.id);
      const stop = extension(grant, { beat_age_ms: null, expires_in_ms: 5_000, at_least: true });
      expect(only(await s.store.extend([stop]))).toEqual(beat);
      expect(await s.job(grant.job.id)).toMatchObject({ last_beat_at_ms });
      const now_ms = await s.store.now();
      const longer = only(await s.store.extend([{ ...stop, expires_in_ms: 90_000 }]));
      if (longer.status !== "extended") throw new Error(longer.status);
      s.sameTime(longer.expires_at_ms, now_ms + 90_000);
      expect(await s.job(grant.job.id)).toMatchObject({ last_beat_at_ms });
    });

    test("leaves its holder no less than it believes in when the clock was set back since the last beat", async (s) => {
      const grant = await s.granted();
      const { expires_at_ms: before_ms } = (await s.job(grant.job.id)).state as { expires_at_ms: number };
      const back_ms = 3_600_000;
      await s.tamper(
        `UPDATE lease.jobs SET expires_at_ms = expires_at_ms + ${back_ms}, last_beat_at_ms = last_beat_at_ms + ${back_ms}`,
      );
      const now_ms = await s.store.now();
      // What a beat adds may be less than the lease, and than what was asked for to stop the job.
      const answer = only(await s.store.extend([extension(grant, { expires_in_ms: 1_000, at_least: true })]));
      if (answer.status !== "extended") throw new Error(answer.status);
      expect(answer.expires_at_ms).toBeGreaterThanOrEqual(before_ms);
      expect(answer.expires_at_ms).toBeLessThanOrEqual(now_ms + LEASE_MS + 60_000);
    });

    test("is carried out in the order in which it was asked for, whatever came before is still under way", async (s) => {
      const grant = await s.granted();
      const beat = extension(grant, { at_least: true });
      const stop = extension(grant, { beat_age_ms: null, expires_in_ms: 5_000 });
      for (const order of [
        [beat, stop],
        [stop, beat],
        [beat, stop, beat, stop],
      ]) {
        const answers = await Promise.all(order.map(async (request) => only(await s.store.extend([request]))));
        const { state } = await s.job(grant.job.id);
        const last = answers.at(-1);
        expect(last).toMatchObject({
          status: "extended",
          expires_at_ms: (state as { expires_at_ms: number }).expires_at_ms,
        });
        s.sameTime(
          (state as { expires_at_ms: number }).expires_at_ms,
          (await s.store.now()) + (order.at(-1)?.expires_in_ms ?? 0),
        );
      }
    });

    test("by the job itself counts beside the worker's beats, and moves the end once per interval", async (s) => {
      const grant = await s.granted();
      const by_job = extension(grant, { beats: 0, at_least: true, by_job: true, interval_ms: 5_000 });
      const beat = async () => {
        const answer = only(await s.store.extend([by_job]));
        return answer.status === "extended" ? answer.expires_at_ms : 0;
      };
      await s.passTime(2_000);
      expect(await beat()).toBe(grant.expires_at_ms);
      await s.passTime(3_000);
      const now_ms = await s.store.now();
      s.sameTime(await beat(), now_ms + LEASE_MS);
      await s.store.extend([extension(grant, { beats: 4, at_least: true })]);
      expect(only(await s.store.attempts(grant.job.id)).beats).toBe(6);
      s.sameTime((await s.job(grant.job.id)).last_beat_at_ms, now_ms);
      await s.settle(grant, end("success", { beats: 5 }));
      expect(only(await s.store.attempts(grant.job.id)).beats).toBe(7);
    });

    test("is counted, with those that could not be written and those that were refused", async (s) => {
      const { old, current } = await superseded(s);
      await s.store.extend([extension(current), extension(old), extension(old)]);
      await s.store.extend([extension(current, { failures: 3 })]);
      await s.settle(current);
      const [first, second] = await s.store.attempts(old.job.id);
      expect(first?.extensions).toEqual({ attempts: 2, failures: 0, refusals: 2 });
      expect(second?.extensions).toEqual({ attempts: 5, failures: 3, refusals: 0 });
    });

    test("by a job that hears of a cancel makes it a cancelled one, whenever it is said to have ended", async (s) => {
      const grant = await s.granted();
      const ended_at_ms = await s.store.now();
      await s.passTime(1_000);
      await s.store.cancel([grant.job.id], null);
      await s.store.extend([extension(grant, { by_job: true })]);
      const request = await s.ending(grant.job, end("success"), { ended_at_ms });
      expect(await s.store.settle([request])).toEqual([{ status: "cancelling" }]);
    });

    test("changes nothing but the lease and the beat", async (s) => {
      const grant = await s.granted();
      await s.store.extend([extension(grant)]);
      const { state, last_beat_at_ms, ...after } = await s.job(grant.job.id);
      const { state: granted, last_beat_at_ms: before, ...rest } = grant.job;
      expect(after).toEqual(rest);
      expect(state).toMatchObject({ ...granted, expires_at_ms: expect.any(Number) });
      expect(last_beat_at_ms).toBeGreaterThanOrEqual(before ?? 0);
    });

    test("notes progress and message, and leaves them where it brings none", async (s) => {
      const grant = await s.granted();
      await s.store.extend([extension(grant, { progress: 40, message: "linking…" })]);
      expect(await s.job(grant.job.id)).toMatchObject({ progress: 40, message: "linking…" });
      await s.store.extend([extension(grant)]);
      expect(await s.job(grant.job.id)).toMatchObject({ progress: 40, message: "linking…" });
      await s.store.extend([extension(grant, { progress: 0 })]);
      expect(await s.job(grant.job.id)).toMatchObject({ progress: 0, message: "linking…" });
    });

    test("tells the holder that it was asked to stop", async (s) => {
      const grant = await s.granted();
      await s.store.cancel([grant.job.id], null);
      expect(only(await s.store.extend([extension(grant)]))).toMatchObject({
        status: "extended",
        cancel_requested: true,
      });
    });

    test("is refused as expired once the lease is over, and changes nothing", async (s) => {
      const grant = await s.granted();
      await s.passTime(LEASE_MS + 1);
      expect(await s.store.extend([extension(grant, { beats: 5, progress: 9 })])).toEqual([{ status: "expired" }]);
      expect(await s.job(grant.job.id)).toEqual(grant.job);
      expect(only(await s.store.attempts(grant.job.id)).beats).toBe(0);
    });

    test("is accepted up to the last millisecond of the lease", async (s) => {
      const grant = await s.granted();
      await s.passTime(LEASE_MS - s.slack_ms);
      expect(only(await s.store.extend([extension(grant)])).status).toBe("extended");
    });

    test("is refused as expired when the attempt has ended and nobody was granted the job since", async (s) => {
      const done = await s.granted();
      await s.settle(done);
      const returned = await s.granted();
      await s.settle(returned, end("returned"));
      expect(await s.store.extend([extension(done), extension(returned)])).toEqual([
        { status: "expired" },
        { status: "expired" },
      ]);
    });

    test("is refused as a conflict when somebody else has been granted the job, whose lease stays as it is", async (s) => {
      const { old, current } = await superseded(s);
      expect(await s.store.extend([extension(old, { expires_in_ms: 9 * LEASE_MS })])).toEqual([{ status: "conflict" }]);
      expect(await s.job(old.job.id)).toEqual(current.job);
    });

    test("answers many requests in their order, each by itself", async (s) => {
      const { old, current } = await superseded(s);
      const late = await s.granted({ settings: { lease_ms: 1_000 } });
      const good = await s.granted();
      await s.passTime(2_000);
      const answers = await s.store.extend([late, good, old, current].map((grant) => extension(grant)));
      expect(answers.map(({ status }) => status)).toEqual(["expired", "extended", "conflict", "extended"]);
    });

    test("of an unknown job is refused", async (s) => {
      const grant = await s.granted();
      const answers = await s.store.extend([extension(grant, { id: 999 }), extension(grant)]);
      expect(answers.map(({ status }) => status === "extended")).toEqual([false, true]);
    });

    test("of nothing does nothing", async (s) => {
      expect(await s.store.extend([])).toEqual([]);
    });
  });

  describe("noteProcess", () => {
    const process = { boot_id: "b0-07", pid: 1_234, pid_started: 5_678_901 };

    test("is part of the attempt from then on, after its end too", async (s) => {
      const grant = await s.granted();
      await s.store.noteProcess([{ id: grant.job.id, token: 1, ...process }]);
      expect(only(await s.store.attempts(grant.job.id)).process).toEqual(process);
      await s.settle(grant);
      expect(only(await s.store.attempts(grant.job.id)).process).toEqual(process);
    });

    test("says what holds it together, which stays when its end does not say it again", async (s) => {
      const grant = await s.granted();
      await s.store.noteProcess([{ id: grant.job.id, token: 1, ...process, fence: "tree" }]);
      expect(only(await s.store.attempts(grant.job.id)).fence).toBe("tree");
      await s.settle(grant);
      expect(only(await s.store.attempts(grant.job.id)).fence).toBe("tree");
    });

    test("with a stale token is ignored", async (s) => {
      const { old, current } = await superseded(s);
      await s.store.noteProcess([
        { id: old.job.id, token: old.job.token, ...process },
        { id: 999, token: 1, ...process },
      ]);
      expect((await s.store.attempts(current.job.id)).map((attempt) => attempt.process)).toEqual([null, null]);
    });
  });

  describe("checkpoint", () => {
    test("is kept as progress of the job, under its token", async (s) => {
      const { job } = await s.granted({ task: "t" });
      const now_ms = await s.store.now();
      const text = "chunk 7 of 9\nspäße \u{1F980}";
      expect(await s.store.checkpoint([{ id: job.id, token: 1, text }])).toEqual(["accepted"]);
      const { id, at_ms, ...rest } = only(await s.store.checkpoints({ job: job.id, limit: 9 }));
      expect(id).toBeGreaterThan(0);
      s.sameTime(at_ms, now_ms);
      expect(rest).toEqual({ job: job.id, task: "t", kind: "progress", token: 1, text });
    });

    test("hands the last accepted one to the next attempt, and to those after it", async (s) => {
      const first = await s.granted();
      const { id } = first.job;
      await s.store.checkpoint([
        { id, token: 1, text: "one" },
        { id, token: 1, text: "two" },
      ]);
      await s.settle(first, end("returned"));
      const second = only(await s.acquire());
      expect(second.checkpoint).toBe("two");
      await s.settle(second, end("returned"));
      const third = only(await s.acquire());
      expect(third.checkpoint).toBe("two");
      await s.store.checkpoint([{ id, token: 3, text: "three" }]);
      await s.settle(third, end("exit"));
      await s.passTime(1_000);
      expect(only(await s.acquire()).checkpoint).toBe("three");
    });

    test("does not reach other jobs of the task", async (s) => {
      const { job } = await s.granted({ task: "t" });
      await s.store.checkpoint([{ id: job.id, token: 1, text: "mine" }]);
      expect((await s.granted({ task: "t" })).checkpoint).toBeNull();
    });

    test("is refused as expired or as a conflict like an extension, and is then not there", async (s) => {
      const { old, current } = await superseded(s);
      const late = await s.granted({ settings: { lease_ms: 1_000 } });
      await s.passTime(2_000);
      const requests = [old, late, current].map(({ job }) => ({
        id: job.id,
        token: job.token,
        text: `by ${job.token}`,
      }));
      expect(await s.store.checkpoint(requests)).toEqual(["conflict", "expired", "accepted"]);
      const kept = await s.store.checkpoints({ limit: 9 });
      expect(kept.map(({ kind, text }) => [kind, text])).toEqual([["progress", "by 2"]]);
    });

    test("of an unknown job is refused", async (s) => {
      expect(await s.store.checkpoint([{ id: 999, token: 1, text: "x" }])).not.toEqual(["accepted"]);
      expect(await s.store.checkpoints({ limit: 9 })).toEqual([]);
    });
  });
}
