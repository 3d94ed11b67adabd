/**
 * enqueue: all or none, rising ids, keys, due times, and everything a job was given comes back as it was.
 */

import { describe, expect } from "bun:test";
import { DEFAULT_SETTINGS } from "../../src/core/job.ts";
import { newJob } from "../support/jobs.ts";
import { codeOf, only, type StoreTest } from "./subject.ts";

export function enqueueContract(test: StoreTest): void {
  describe("enqueue", () => {
    test("answers one rising id per job, in the order given", async (s) => {
      const first = await s.store.enqueue([newJob({ priority: -5 }), newJob({ priority: 9 }), newJob()]);
      const second = await s.store.enqueue([newJob()]);
      const ids = [...first, ...second].map(({ id }) => id);
      expect(ids).toEqual(ids.toSorted((a, b) => a - b));
      expect(new Set(ids).size).toBe(4);
      expect(first.every(({ created }) => created)).toBe(true);
      expect((await s.store.jobs(ids)).map((job) => job?.priority)).toEqual([-5, 9, 0, 0]);
    });

    test("of no jobs does nothing", async (s) => {
      expect(await s.store.enqueue([])).toEqual([]);
      expect(await s.store.counts()).toEqual([]);
    });

    test("makes a job that is pending, has never run, and is due now", async (s) => {
      const now_ms = await s.store.now();
      const id = await s.enqueueOne({
        argv: ["echo", "hi"],
        queue: "mail",
        task: "t",
        key: "k",
        priority: 3,
        cwd: "/tmp",
      });
      const { created_at_ms, run_at_ms, state, ...rest } = await s.job(id);
      s.sameTime(created_at_ms, now_ms);
      s.sameTime(run_at_ms, now_ms);
      expect(state).toEqual({ name: "pending", run_at_ms });
      expect(rest).toEqual({
        limits: [],
        needs: {},
        id,
        queue: "mail",
        task: "t",
        key: "k",
        priority: 3,
        argv: ["echo", "hi"],
        input: null,
        cwd: "/tmp",
        env: {},
        settings: newJob().settings,
        token: 0,
        failures: 0,
        result: { cause: null, exit_code: null, error: null, output: null },
        progress: null,
        message: null,
        reason: null,
        started_at_ms: null,
        last_beat_at_ms: null,
      });
    });

    test("keeps default settings and settings that all differ from them", async (s) => {
      const unusual = {
        retries: 0,
        backoff: { first_ms: 5, factor: 1.5, max_ms: 7_000, jitter: 0 },
        retry_on: "lost",
        fatal_exit: [
          [2, 2],
          [64, 78],
        ],
        timeout_ms: 90_000,
        lease_ms: "auto",
        interval_ms: 4_000,
        extension_ms: 9_000,
        beat: "manual",
        grace_ms: "never",
        on_failed: "notify",
        hook: { job: 7, attempt: 2 },
        aged: 3,
        pty: true,
        log_limit_bytes: 0,
        output_limit_bytes: 17,
        memory_bytes: 2 ** 33,
        pids: 7,
        cpus: 0.5,
      } as const;
      const [usual, other] = await s.enqueue({ settings: DEFAULT_SETTINGS }, { settings: unusual });
      expect((await s.job(usual as number)).settings).toEqual(DEFAULT_SETTINGS);
      expect((await s.job(other as number)).settings).toEqual(unusual);
    });

    test("keeps input byte for byte: invalid UTF-8, every byte that is allowed, and none at all", async (s) => {
      const every = Uint8Array.from({ length: 255 }, (_, index) => index + 1);
      const inputs = [new Uint8Array([1]), new Uint8Array([0xff, 0xfe, 0xc3, 0x28]), every, new Uint8Array(0)];
      const ids = await s.enqueue(...inputs.map((input) => ({ input })), { input: null });
      const stored = (await s.store.jobs(ids)).map((job) => (job?.input ? [...job.input] : null));
      expect(stored).toEqual([...inputs.map((input) => [...input]), null]);
    });

    test("keeps input of the largest size that is allowed", async (s) => {
      const input = new Uint8Array(1024 * 1024).map((_, index) => 1 + ((index * 31) % 255));
      const id = await s.enqueueOne({ input });
      expect(Buffer.from((await s.job(id)).input ?? []).equals(Buffer.from(input))).toBe(true);
    });

    test("keeps argv and env of any length and any writing, empty words included", async (s) => {
      const argv = [
        "printf",
        "",
        " ",
        "späße",
        "日本語",
        "👩‍👩‍👧",
        "'\"\\`$(x)\n\t",
        "x".repeat(100_000),
        ...Array<string>(2_000).fill("ü"),
      ];
      const env = { EMPTY: "", PATH: "/a:/b", ÜBER: "日本\n語=", __proto: "x" };
      const id = await s.enqueueOne({ argv, env });
      expect(await s.job(id)).toMatchObject({ argv, env });
      expect(Object.keys((await s.job(id)).env)).toEqual(Object.keys(env));
    });

    test("of a job that can't be one is refused, and then none of the batch is there", async (s) => {
      expect(await codeOf(s.store.enqueue([newJob(), newJob({ argv: [] })]))).toBe("invalid_job");
      expect(await s.store.counts()).toEqual([]);
    });

    test("that is refused does not take along others at the same time", async (s) => {
      const bad = codeOf(s.store.enqueue([newJob({ argv: [] })]));
      const good = [s.enqueueOne(), s.enqueueOne()];
      expect(await bad).toBe("invalid_job");
      expect(new Set(await Promise.all(good)).size).toBe(2);
    });

    test("schedules a delayed job for the time when the delay is over", async (s) => {
      const now_ms = await s.store.now();
      const { state, run_at_ms } = await s.job(await s.enqueueOne({ delay_ms: 5_000 }));
      s.sameTime(run_at_ms, now_ms + 5_000);
      expect(state).toEqual({ name: "scheduled", run_at_ms });
    });

    test("schedules a job with a moment for exactly that moment", async (s) => {
      const run_at_ms = (await s.store.now()) + 7_000;
      const job = await s.job(await s.enqueueOne({ run_at_ms }));
      expect(job.state).toEqual({ name: "scheduled", run_at_ms });
      expect(job.run_at_ms).toBe(run_at_ms);
    });

    test("makes a job whose moment has passed pending", async (s) => {
      const id = await s.enqueueOne({ run_at_ms: (await s.store.now()) - 7_000 });
      expect(await s.stateOf(id)).toBe("pending");
    });
  });

  describe("enqueue with a key", () => {
    test("answers the live job instead, by default, and leaves it as it is", async (s) => {
      const id = await s.enqueueOne({ key: "k", argv: ["first"] });
      const before = await s.job(id);
      expect(await s.store.enqueue([newJob({ key: "k", argv: ["second"] })])).toEqual([{ id, created: false }]);
      expect(await s.job(id)).toEqual(before);
    });

    test("finds the live job in any queue, scheduled or running too", async (s) => {
      const running = (await s.granted({ key: "r", queue: "a" })).job.id;
      const scheduled = await s.enqueueOne({ key: "s", delay_ms: 60_000 });
      const answers = await s.store.enqueue([newJob({ key: "r", queue: "b" }), newJob({ key: "s" })]);
      expect(answers).toEqual([
        { id: running, created: false },
        { id: scheduled, created: false },
      ]);
    });

    test("is refused where that was asked for, and then none of its batch is there", async (s) => {
      await s.enqueueOne({ key: "k" });
      const before = await s.store.list({ limit: 10, newest_first: false });
      const batch = [newJob(), newJob({ key: "other" }), newJob({ key: "k", if_exists: "fail" })];
      expect(await codeOf(s.store.enqueue(batch))).toBe("key_exists");
      expect(await s.store.list({ limit: 10, newest_first: false })).toEqual(before);
    });

    test("is accepted where refusal was asked for and the key is free", async (s) => {
      expect(only(await s.store.enqueue([newJob({ key: "k", if_exists: "fail" })])).created).toBe(true);
    });

    test("takes the place of a job that waits, which is then cancelled and says why", async (s) => {
      for (const delay_ms of [0, 60_000]) {
        const old = await s.enqueueOne({ key: `k${delay_ms}`, delay_ms });
        const answer = only(await s.store.enqueue([newJob({ key: `k${delay_ms}`, if_exists: "replace" })]));
        expect(answer.created).toBe(true);
        expect(answer.id).toBeGreaterThan(old);
        expect(await s.stateOf(answer.id)).toBe("pending");
        const { state, reason } = await s.job(old);
        expect(state.name).toBe("cancelled");
        expect(reason).toContain("replaced");
      }
    });

    test("can't take the place of a job that runs", async (s) => {
      const { job } = await s.granted({ key: "k" });
      expect(await codeOf(s.store.enqueue([newJob({ key: "k", if_exists: "replace" })]))).toBe("key_exists");
      expect(await s.job(job.id)).toEqual(job);
    });

    test("is free again once its job has finished", async (s) => {
      for (const name of ["completed", "failed", "cancelled"] as const) {
        await s.finished(name, { key: "k" });
        const { id, created } = only(await s.store.enqueue([newJob({ key: "k", if_exists: "fail" })]));
        expect(created).toBe(true);
        await s.store.cancel([id], null);
      }
    });

    test("twice in one batch makes one job", async (s) => {
      const answers = await s.store.enqueue([newJob({ key: "k" }), newJob(), newJob({ key: "k" })]);
      expect(answers.map(({ created }) => created)).toEqual([true, true, false]);
      expect(answers[2]?.id).toBe(answers[0]?.id as number);
    });

    test("twice in one batch that must not meet a live one makes nothing", async (s) => {
      const twice = [newJob({ key: "k", if_exists: "fail" }), newJob({ key: "k", if_exists: "fail" })];
      expect(await codeOf(s.store.enqueue(twice))).toBe("key_exists");
      expect(await s.store.counts()).toEqual([]);
    });

    test("is created once by any number of handles at the same time", async (s) => {
      const other = await s.reopen();
      const asked = Array.from({ length: 20 }, (_, index) =>
        (index % 2 ? s.store : other).enqueue([newJob({ key: "k" })]),
      );
      const answers = (await Promise.all(asked)).flat();
      expect(answers.filter(({ created }) => created)).toHaveLength(1);
      expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
    });

    test("is not shared by jobs without one", async (s) => {
      expect(new Set(await s.enqueue({ if_exists: "fail" }, { if_exists: "fail" })).size).toBe(2);
    });
  });
}
