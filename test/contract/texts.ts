/** Texts come back as they were given, whatever is in them: noncharacters everywhere, NUL where a program can print it. */

import { describe, expect } from "bun:test";
import { end } from "../support/jobs.ts";
import { audit, only, type StoreTest } from "./subject.ts";

/** All that an engine may use for purposes of its own, alone and together. */
const ODD = 'a\uFFFFb\uFFFE\uFFFF\uFDD0\uFFFF\uFDD1\uFDD0\uFFFF0"\\{},\uFFFF';
const WITH_NUL = `${ODD}\0\uFFFF\0\0\uFDD0${ODD}\0`;

export function textsContract(test: StoreTest): void {
  describe("texts", () => {
    test("of a job may hold any character that a name or a command can have", async (s) => {
      const given = {
        argv: ["echo", ODD],
        env: { [ODD]: ODD },
        cwd: `/${ODD}`,
        queue: ODD.replace(",", ""),
        key: ODD,
        task: ODD,
      };
      const grant = await s.granted(given, { queues: [given.queue], task: ODD, holder: ODD });
      expect(grant.job).toMatchObject(given);
      const id = grant.job.id;
      expect(await s.job(id)).toMatchObject(given);
      const found = { limit: 9, newest_first: false, queues: [given.queue], task: ODD, key: ODD, holder: ODD };
      expect((await s.store.list(found)).map((job) => job.id)).toEqual([id]);
      expect(await s.store.counts({ queues: [given.queue] })).toMatchObject([{ queue: given.queue, count: 1 }]);
      expect(
        only(
          await s.store.enqueue([
            {
              ...grant.job,
              ...given,
              if_exists: "skip",
              run_at_ms: null,
              delay_ms: 0,
              after: [],
              after_any: [],
              after_failed: [],
              after_task: [],
            },
          ]),
        ),
      ).toEqual({ id, created: false });
      await s.store.setPaused([given.queue], true);
      expect(await s.store.pausedQueues()).toEqual([given.queue]);
    });

    test("that are too long are refused, and cut where a beat must not fail by them", async (s) => {
      const { job } = await s.granted({});
      const held = { id: job.id, token: job.token };
      const long = s.store.checkpoint([{ ...held, text: "x".repeat(70_000) }]);
      expect(await long.catch((error: unknown) => error)).toMatchObject({ code: "input_too_large" });
      const beat = { ...held, expires_in_ms: 60_000, beat_age_ms: 0, beats: 1, message: "x".repeat(1_000_000) };
      expect(only(await s.store.extend([beat]))).toMatchObject({ status: "extended" });
      expect((await s.job(job.id)).message?.length).toBeLessThan(4_096);
    });

    test("that a program wrote may hold NUL too", async (s) => {
      const grant = await s.granted({ settings: { retries: 0 } });
      const { id, token } = grant.job;
      const beat = { id, token, expires_in_ms: 60_000, beat_age_ms: 0, beats: 1 };
      expect(only(await s.store.extend([{ ...beat, message: WITH_NUL }]))).toMatchObject({ status: "extended" });
      expect((await s.job(id)).message).toBe(WITH_NUL);
      expect(await s.store.checkpoint([{ id, token, text: WITH_NUL }])).toEqual(["accepted"]);
      const ended = { ...end("exit"), error: WITH_NUL, output: WITH_NUL, last_line: WITH_NUL };
      expect(await s.settle(grant, ended, audit({ last_lines: [WITH_NUL] }))).toEqual({ status: "applied" });
      expect((await s.job(id)).result).toMatchObject({ error: WITH_NUL, output: WITH_NUL });
      expect(only(await s.store.attempts(id)).end).toMatchObject({ error: WITH_NUL, last_line: WITH_NUL });
      const [noted, progress] = await s.store.checkpoints({ job: id, limit: 9 });
      expect(progress?.text).toBe(WITH_NUL);
      expect(JSON.parse(noted?.text ?? "")).toMatchObject({ error: WITH_NUL, last_lines: [WITH_NUL] });
    });

    test("that an earlier version or somebody else wrote are read as they are", async (s) => {
      const id = await s.enqueueOne();
      await s.tamper(`UPDATE lease.jobs SET argv = '["echo","\uFFFFa"]', key = 'k\uFFFF', message = 'm\uFFFF'`);
      const read = { argv: ["echo", "\uFFFFa"], key: "k\uFFFF", message: "m\uFFFF" };
      expect(await s.job(id)).toMatchObject(read);
      expect(only(await s.store.list({ limit: 9, newest_first: false, key: "k\uFFFF" }))).toMatchObject(read);
      expect(await s.acquireIds()).toEqual([id]);
    });

    test("of many jobs in one batch are kept apart", async (s) => {
      const ids = await s.enqueue(
        ...["\uFFFF", "\uFFFF\uFDD0", "0", "\uFDD0\uFFFF"].map((task) => ({ task, argv: ["echo", task] })),
      );
      const tasks = (await s.store.jobs(ids)).map((job) => job?.task);
      expect(tasks).toEqual(["\uFFFF", "\uFFFF\uFDD0", "0", "\uFDD0\uFFFF"]);
    });
  });
}
