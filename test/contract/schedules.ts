/** Schedules: each time becomes one job, whoever looks, and the one before has a say. */

import { describe, expect } from "bun:test";
import type { Schedule, ScheduleSettings } from "../../src/core/schedule.ts";
import { end, newJob } from "../support/jobs.ts";
import { breaches, only, type StoreTest, type Subject } from "./subject.ts";

const HOUR_MS = 3_600_000;

function hourly(overrides: Partial<ScheduleSettings> = {}): ScheduleSettings {
  const when = { name: "s", cron: null, every_ms: HOUR_MS, zone: null, jitter_ms: 0 };
  return { ...when, overlap: "queue", catch_up: "all", job: newJob({ argv: ["backup"], queue: "q" }), ...overrides };
}

async function set(s: Subject, overrides: Partial<ScheduleSettings> = {}): Promise<Schedule> {
  const settings = hourly(overrides);
  await s.store.setSchedule(settings, (await s.store.now()) + HOUR_MS);
  return scheduleOf(s, settings.name);
}

const scheduleOf = async (s: Subject, name = "s") =>
  only((await s.store.schedules()).filter((schedule) => schedule.name === name));

/** As somebody who has just read it. */
function fire(s: Subject, schedule: Schedule, store = s.store): Promise<number | null> {
  const at_ms = schedule.next_at_ms as number;
  return store.fire(schedule, [{ at_ms, job: schedule.job }], at_ms + HOUR_MS);
}

const jobsOf = async (s: Subject) => (await s.store.list({ limit: 99, newest_first: false })).map(({ id }) => id);

export function schedulesContract(test: StoreTest): void {
  describe("a schedule", () => {
    test("is kept with what its jobs are made from, by name", async (s) => {
      const job = newJob({ argv: ["a b", "ü"], input: new Uint8Array([0, 255, 10]), env: { A: "1" }, limits: ["x"] });
      await set(s, { name: "b", job, cron: "0 3 * * *", every_ms: null, zone: "Europe/Berlin", jitter_ms: 5 });
      await set(s, { name: "a" });
      const [a, b] = await s.store.schedules();
      expect(a).toMatchObject({ name: "a", every_ms: HOUR_MS, paused: false, last_at_ms: null, last_job: null });
      expect(b).toMatchObject({ name: "b", cron: "0 3 * * *", zone: "Europe/Berlin", overlap: "queue", jitter_ms: 5 });
      expect(b?.job).toEqual(job);
      expect(await s.store.nextSchedule()).toBe(a?.next_at_ms as number);
    });

    test("that comes every so often counts from when it was set, and so does its first time", async (s) => {
      for (const name of ["a", "b"]) {
        await s.store.setSchedule(hourly({ name }), 7);
        await s.store.setSchedule(hourly({ name: "b" }), 7);
      }
      for (const { set_at_ms, next_at_ms } of await s.store.schedules()) expect(next_at_ms).toBe(set_at_ms + HOUR_MS);
    });

    test("whose jobs have a key is answered by the live one that has it, and no audit minds", async (s) => {
      let schedule = await set(s, { job: newJob({ key: "k" }) });
      for (let time = 0; time < 2; time++) {
        await fire(s, schedule);
        schedule = await scheduleOf(s);
      }
      expect(await jobsOf(s)).toHaveLength(1);
      expect(await breaches(s.store)).toEqual([]);
    });

    test("makes one job for a time, however many fire it, and moves on", async (s) => {
      const read = await set(s);
      const stores = [s.store, await s.reopen(), await s.reopen()];
      const answers = await Promise.all(stores.flatMap((store) => [fire(s, read, store), fire(s, read, store)]));
      expect(answers.filter((made) => made === 1)).toHaveLength(1);
      expect(answers.filter((made) => made === null)).toHaveLength(5);
      const [id] = await jobsOf(s);
      expect(await jobsOf(s)).toHaveLength(1);
      expect(await s.job(id as number)).toMatchObject({ argv: ["backup"], queue: "q", state: { name: "pending" } });
      const now = await scheduleOf(s);
      expect(now).toMatchObject({ last_at_ms: read.next_at_ms, last_job: id as number, last_state: "pending" });
      expect(now.next_at_ms).toBe((read.next_at_ms as number) + HOUR_MS);
    });

    test("never makes a second job for a time, also if its clock is set back", async (s) => {
      const read = await set(s);
      await fire(s, read);
      await s.store.pauseSchedule("s", false, read.next_at_ms);
      expect(await fire(s, await scheduleOf(s))).toBe(0);
      expect(await jobsOf(s)).toHaveLength(1);
    });

    test("that was set again, paused or removed meanwhile is not fired", async (s) => {
      const old = await set(s);
      const again = await set(s);
      expect(await fire(s, old)).toBeNull();
      await s.store.pauseSchedule("s", true, null);
      expect(await fire(s, again)).toBeNull();
      expect(await s.store.nextSchedule()).toBeNull();
      await s.store.pauseSchedule("s", false, null);
      expect(await fire(s, await scheduleOf(s))).toBe(1);
      expect(await s.store.dropSchedule("s")).toBe(true);
      expect(await s.store.dropSchedule("s")).toBe(false);
      expect(await fire(s, again)).toBeNull();
      expect(await jobsOf(s)).toHaveLength(1);
    });

    test("leaves a time out while the job before is not over, if so wanted", async (s) => {
      await fire(s, await set(s, { overlap: "skip" }));
      expect(await fire(s, await scheduleOf(s))).toBe(0);
      expect(await jobsOf(s)).toHaveLength(1);
      await s.settle(only(await s.acquire()));
      expect(await fire(s, await scheduleOf(s))).toBe(1);
    });

    test("lines them up, if so wanted", async (s) => {
      await fire(s, await set(s, { overlap: "queue" }));
      expect(await fire(s, await scheduleOf(s))).toBe(1);
      expect(await s.acquireIds({ count: 9 })).toHaveLength(2);
    });

    test("replaces the job before, which ends before the new one starts", async (s) => {
      await fire(s, await set(s, { overlap: "replace" }));
      await fire(s, await scheduleOf(s));
      const [first, second] = await jobsOf(s);
      expect(await s.stateOf(first as number)).toBe("cancelled");
      expect((await s.job(first as number)).reason).toContain("schedule s");
      const running = only(await s.acquire());
      expect(running.job.id).toBe(second as number);
      await fire(s, await scheduleOf(s));
      const third = (await jobsOf(s))[2] as number;
      expect(await s.stateOf(third)).toBe("blocked");
      expect(only(await s.store.cancelRequests("w1")).id).toBe(second as number);
      await fire(s, await scheduleOf(s));
      const fourth = (await jobsOf(s))[3] as number;
      expect([await s.stateOf(third), await s.stateOf(fourth)]).toEqual(["cancelled", "blocked"]);
      expect(await s.acquireIds()).toEqual([]);
      await s.settle(running, end("cancelled"));
      expect(await s.acquireIds()).toEqual([fourth]);
    });

    test("whose clock was set back goes on from there, once, and only as far as its times are remembered", async (s) => {
      const read = await set(s);
      const ahead_ms = (read.next_at_ms as number) + 1_000 * HOUR_MS;
      await s.store.fire(read, [{ at_ms: ahead_ms, job: read.job }], ahead_ms + HOUR_MS);
      const now_ms = await s.store.now();
      expect(await s.store.nextSchedule()).toBeLessThanOrEqual(now_ms);
      const far = await scheduleOf(s);
      const back = { set_at_ms: now_ms - 5, next_at_ms: now_ms + HOUR_MS };
      expect(await s.store.rewindSchedule(read, back)).toBe(false);
      expect(await s.store.rewindSchedule(far, back)).toBe(true);
      expect(await s.store.rewindSchedule(far, back)).toBe(false);
      const now = await scheduleOf(s);
      expect(now).toMatchObject({ ...back, last_job: far.last_job });
      expect(now.last_at_ms).toBeLessThanOrEqual(await s.store.now());
      expect(await s.store.nextSchedule()).toBe(back.next_at_ms);
      const times = Array.from({ length: 1_000 }, (_, n) => ({ at_ms: ahead_ms + n * HOUR_MS, job: read.job }));
      const made = await s.store.fire(now, times, ahead_ms + 1_000 * HOUR_MS);
      expect(made).toBe(999);
      expect(await s.store.rewindSchedule(await scheduleOf(s), back)).toBe(false);
    });
  });
}
