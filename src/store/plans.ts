/** What bounds and plans jobs, as verbs of a store; a contract per verb, as in store.ts. */

import type { LimitSettings, LimitUse } from "../core/gate.ts";
import type { Holding } from "../core/resources.ts";
import type { Firing, Rewound, Schedule, ScheduleSettings } from "../core/schedule.ts";

export interface Planner {
  /** Paused queues are not acquired from; what runs goes on. */
  setPaused(queues: readonly string[], paused: boolean): Promise<void>;

  /**
   * Bounds how many of the jobs that count for this name run or start; null takes the bound away. What runs goes on:
   * a limit below it takes effect as those end. Answers whether there is, or was, such a limit.
   */
  setLimit(name: string, limit: LimitSettings | null): Promise<boolean>;

  /** Sets a schedule, or sets it anew; `next_at_ms` is the first time of one with a cron expression. */
  setSchedule(settings: ScheduleSettings, next_at_ms: number): Promise<void>;

  /** Jobs that it has made stay. Answers whether there was such a schedule; so does the next. */
  dropSchedule(name: string): Promise<boolean>;

  /** A paused one fires nothing. With `next_at_ms` it goes on from there, and what it missed is forgotten. */
  pauseSchedule(name: string, paused: boolean, next_at_ms: number | null): Promise<boolean>;

  /**
   * Makes a job for each of these times and moves the schedule on, all in one, if it is still exactly as it was read.
   * Answers how many jobs it made; null: somebody else was first, or it was changed.
   */
  fire(schedule: Schedule, firings: readonly Firing[], next_at_ms: number | null): Promise<number | null>;

  /**
   * Goes on from an earlier time, after the clock was set back. False: it was changed, or it has fired so often since
   * then that not all of it is remembered, and a time could become two jobs.
   */
  rewindSchedule(schedule: Schedule, to: Rewound): Promise<boolean>;
}

export interface PlanReader {
  /** Names of paused queues, in order. */
  pausedQueues(): Promise<string[]>;

  /** Every limit by name, with what is in use of it. */
  limits(): Promise<LimitUse[]>;

  /** What running attempts were given of the resources of their machines. */
  holdings(): Promise<Holding[]>;

  /** Every schedule by name. */
  schedules(): Promise<Schedule[]>;

  /** The earliest time of any that is not paused, now if the clock was set back below one; null: there is none. */
  nextSchedule(): Promise<number | null>;
}
