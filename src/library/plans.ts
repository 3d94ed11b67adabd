/** Limits and schedules, as methods of a queue. */

import { checkLimitName, checkName } from "../core/check_job.ts";
import { LeaseError } from "../core/errors.ts";
import { RATE } from "../core/plan_values.ts";
import { CATCH_UPS, jobAt, OVERLAPS, type Schedule } from "../core/schedule.ts";
import { choice, DURATION, integer, NAME, readJson } from "../core/values.ts";
import { newSchedule } from "../recovery/new_schedule.ts";
import { firstTime, timesAhead, timesOf } from "../recovery/schedule_times.ts";
import { limitJson } from "../view/limits.ts";
import { scheduleJson } from "../view/schedules.ts";
import { toNewJob, type JobOptions } from "./job.ts";
import { readOptions } from "./options.ts";
import type { QueueGround } from "./queue.ts";

/** A limit, and what is in use of it. */
export type QueueLimit = ReturnType<typeof limitJson>;

/** A schedule: when it makes jobs, and what became of the last. */
export type QueueSchedule = ReturnType<typeof scheduleJson>;

/** What bounds the jobs that count for a limit; `null` takes the bound away. */
export interface LimitBound {
  /** So many run at once. */
  most?: number;
  /** So many start in any such time: `"10/1m"`. */
  rate?: string;
}

/** When a schedule makes jobs, and the job that it makes; names of `lease schedule`'s flags. */
export interface ScheduleOptions extends JobOptions {
  /** Minute, hour, day of the month, month, day of the week: `"0 3 * * *"`. */
  cron?: string;
  /** Every so often, from now on: `"10m"`. */
  every?: string;
  /** Time zone of `cron`; this machine's unless told. */
  tz?: string;
  /** Start up to so much later, by chance. */
  jitter?: string;
  /** While the job before is not over: leave this one out (the default), line it up, or take its place. */
  overlap?: "skip" | "queue" | "replace";
  /** Times that were missed: none of them, the last one (the default), or all. */
  catch_up?: "none" | "one" | "all";
}

const MOST = integer({ min: 0, max: 1_000_000 });
const TIMES = {
  cron: NAME,
  every: DURATION,
  tz: NAME,
  jitter: DURATION,
  overlap: choice(OVERLAPS),
  catch_up: choice(CATCH_UPS),
} as const;
const SHOWN_AHEAD = 5;

/** All limits, or one, after it was set or taken away where a bound is given. */
export async function limitQueue(
  { store }: QueueGround,
  name: string | undefined,
  bound: LimitBound | null | undefined,
): Promise<QueueLimit[]> {
  if (name !== undefined) checkLimitName(name);
  if (name !== undefined && bound !== undefined) {
    const { most = null, rate = null } = bound === null ? {} : readOptions(bound, { most: MOST, rate: RATE });
    if (bound !== null && most === null && rate === null)
      throw new LeaseError("usage", "a limit bounds something: say most, or rate");
    const known = await store.setLimit(name, bound === null ? null : { most, rate });
    if (!known) throw new LeaseError("nothing_matched", `there is no limit ${name}`);
    if (bound === null) return [];
  }
  const uses = (await store.limits()).filter((use) => name === undefined || use.name === name);
  if (name !== undefined && uses.length === 0) throw new LeaseError("nothing_matched", `there is no limit ${name}`);
  return uses.map(limitJson);
}

const ACTIONS = ["remove", "pause", "resume", "now"] as const;
export type ScheduleAction = (typeof ACTIONS)[number];

/** All schedules, or one, after it was set, or something was done with it. */
export async function scheduleJobs(
  { store, random, clock }: QueueGround,
  name: string | undefined,
  what: ScheduleOptions | ScheduleAction | undefined,
): Promise<QueueSchedule[]> {
  if (name === undefined) return Promise.all((await store.schedules()).map((one) => shown(one, clock.wall_ms())));
  checkName("schedule", name);
  const now_ms = await store.now();
  if (typeof what === "object") {
    const { cron, every, tz, jitter, overlap, catch_up, ...job } = what;
    const times = readOptions({ cron, every, tz, jitter, overlap, catch_up }, TIMES);
    if (cron === undefined && every === undefined) throw new LeaseError("usage", "when? Say it with cron or every");
    const settings = newSchedule(
      name,
      times,
      toNewJob(job, () => clock.wall_ms()),
      (option) => option,
    );
    await timesOf({ ...settings, set_at_ms: 0 });
    await store.setSchedule(settings, await firstTime(settings, now_ms));
  }
  const found = (await store.schedules()).find((one) => one.name === name);
  if (found === undefined) throw new LeaseError("nothing_matched", `there is no schedule ${name}`);
  if (typeof what !== "string") return [await shown(found, now_ms)];
  const action = readJson(choice(ACTIONS), what, "what to do with it");
  if (action === "remove") await store.dropSchedule(name);
  else if (action === "pause") await store.pauseSchedule(name, true, null);
  else if (action === "resume") await store.pauseSchedule(name, false, (await timesOf(found))(now_ms));
  else await store.enqueue([jobAt(found, now_ms, random())]);
  const after = (await store.schedules()).find((one) => one.name === name);
  return after === undefined ? [] : [await shown(after, now_ms)];
}

async function shown(one: Schedule, now_ms: number): Promise<QueueSchedule> {
  const { paused, next_at_ms } = one;
  const silent = paused || next_at_ms === null;
  const ahead = silent ? [] : timesAhead(await timesOf(one), Math.max(now_ms, next_at_ms - 1), SHOWN_AHEAD);
  return scheduleJson(one, ahead);
}
