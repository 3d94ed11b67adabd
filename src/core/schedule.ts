/**
 * A schedule: a named plan that turns into a job at each of its times. Which times are due, and which of those that were
 * missed are made up for, is decided here; when they come is told by whoever can read cron expressions and clocks.
 */

import type { NewJob } from "./job.ts";

export const OVERLAPS = ["skip", "queue", "replace"] as const;
export const CATCH_UPS = ["none", "one", "all"] as const;

export interface ScheduleSettings {
  name: string;
  /** One of these two says when. */
  cron: string | null;
  every_ms: number | null;
  /** For cron; null: UTC. */
  zone: string | null;
  /** While the job of an earlier time is not over: leave this one out, line it up, or let it take the other's place. */
  overlap: (typeof OVERLAPS)[number];
  /** Of the times that were missed. */
  catch_up: (typeof CATCH_UPS)[number];
  /** Jobs start up to so much later, each by chance. */
  jitter_ms: number;
  /** What each of its jobs is made from. */
  job: NewJob;
}

export interface Schedule extends ScheduleSettings {
  /** Changes when it is set again. */
  set_at_ms: number;
  paused: boolean;
  /** Its first time that nobody has fired; null: there is none any more. */
  next_at_ms: number | null;
  /** The last time that was fired; null: none yet. */
  last_at_ms: number | null;
  /** The job of then; null: it was left out, or has been deleted. */
  last_job: number | null;
  last_state: string | null;
  /** What of it can't be read where it is stored; then it is paused. */
  damaged?: string;
}

/** A time that is due, and the job that it becomes. */
export interface Firing {
  at_ms: number;
  job: NewJob;
}

/** The first time behind a moment; null: never again. */
export type NextTime = (behind_ms: number) => number | null;

/** What is at most so late is on time: a watchdog that cron starts looks once a minute. */
const ON_TIME_MS = 120_000;
/** So many at once; after a long pause the oldest are left out. */
const MOST_AT_ONCE = 100;

export interface DueTimes {
  /** To be fired, in order. */
  at_ms: number[];
  /** The first that is still to come. */
  next_at_ms: number | null;
}

/** Where this says no, there is nothing due, and nothing to rewind: without reading when its times are. */
export function mayBeDue({ paused, next_at_ms, last_at_ms, set_at_ms }: Schedule, now_ms: number): boolean {
  return !paused && next_at_ms !== null && (next_at_ms <= now_ms || (last_at_ms ?? set_at_ms) > now_ms);
}

/** Null: nothing is due. */
export function dueTimes(schedule: Schedule, next: NextTime, now_ms: number): DueTimes | null {
  const { next_at_ms, paused, catch_up } = schedule;
  if (paused || next_at_ms === null || next_at_ms > now_ms) return null;
  const due = lastTimes(next_at_ms, next, now_ms);
  const late = due.filter((at_ms) => now_ms - at_ms > ON_TIME_MS);
  const made_up = catch_up === "all" ? late : catch_up === "one" ? late.slice(-1) : [];
  return { at_ms: [...made_up, ...due.slice(late.length)], next_at_ms: next(now_ms) };
}

/** From when on a schedule counts anew, and its next time. */
export type Rewound = Pick<Schedule, "set_at_ms"> & { next_at_ms: number };

/**
 * When the clock was set back below what was fired, or below when the schedule was set, its next time may be years away.
 * Null: it was not. One that comes every so often stays in step.
 */
export function rewound(schedule: Schedule, next: NextTime, now_ms: number): Rewound | null {
  const { set_at_ms, next_at_ms, last_at_ms, paused, every_ms } = schedule;
  if (paused || next_at_ms === null || (last_at_ms ?? set_at_ms) <= now_ms) return null;
  const ahead_ms = next(now_ms);
  if (ahead_ms === null) return null;
  const back_ms = Math.max(0, set_at_ms - now_ms);
  const moved_ms = every_ms === null ? back_ms : Math.ceil(back_ms / every_ms) * every_ms;
  return { set_at_ms: set_at_ms - moved_ms, next_at_ms: Math.min(ahead_ms, next_at_ms) };
}

const HOUR_MS = 3_600_000;

/** The newest of those from `first_ms` to now. After a long pause there may be millions: it looks back only so far. */
function lastTimes(first_ms: number, next: NextTime, now_ms: number): number[] {
  for (let back_ms = HOUR_MS; ; back_ms *= 24) {
    const whole = now_ms - back_ms <= first_ms;
    const times: number[] = [];
    let at_ms = whole ? first_ms : next(now_ms - back_ms);
    for (; at_ms !== null && at_ms <= now_ms; at_ms = next(at_ms)) times.push(at_ms);
    if (whole || times.length >= MOST_AT_ONCE) return times.slice(-MOST_AT_ONCE);
  }
}

/** As a store keeps it: JSON with its input in base64. */
export function templateText(job: NewJob): string {
  return JSON.stringify({ ...job, input: job.input === null ? null : btoa(letters(job.input)) });
}

/** So many arguments a call may have in any runtime. */
const PIECE_BYTES = 8_192;

/** A letter for each byte. */
function letters(bytes: Uint8Array): string {
  let text = "";
  for (let from = 0; from < bytes.length; from += PIECE_BYTES) {
    text += String.fromCharCode(...bytes.subarray(from, from + PIECE_BYTES));
  }
  return text;
}

export function readTemplate(text: string): NewJob {
  const job = JSON.parse(text) as Omit<NewJob, "input"> & { input: string | null };
  const input = job.input === null ? null : Uint8Array.from(atob(job.input), (letter) => letter.charCodeAt(0));
  return { ...job, input };
}

/** The job of one of its times; `random` is from 0 to 1. */
export function jobAt({ name, job, jitter_ms }: Schedule, at_ms: number, random: number): NewJob {
  const env = { ...job.env, LEASE_SCHEDULE: name, LEASE_SCHEDULED_AT: new Date(at_ms).toISOString() };
  const delay_ms = job.delay_ms + Math.floor(random * jitter_ms);
  return { ...job, env, delay_ms, run_at_ms: null };
}
