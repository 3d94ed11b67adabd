/**
 * What is remembered about the past of a queue: by the minute for a week, by the hour for a year, and how long jobs
 * waited and ran in all, by size.
 */

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;

/** So long by the minute; then by the hour. */
export const MINUTES_KEPT_MS = 7 * 24 * HOUR_MS;
export const HOURS_KEPT_MS = 366 * 24 * HOUR_MS;

/** What came to its end in one queue in the minute or hour that began at `at_ms`. */
export interface HistoryPoint {
  at_ms: number;
  queue: string;
  /** Jobs that came to their end. */
  completed: number;
  failed: number;
  cancelled: number;
  /** Attempts after which the job has another turn. */
  retried: number;
  /** Attempts that a sweep ended, for want of their holder. */
  recovered: number;
  /** Attempts that ended; from their beginning to their end, all together, and the longest. */
  ended: number;
  run_ms: number;
  run_max_ms: number;
  /** Those among them that were the first of their job; from when it was due to when it began. */
  first_ended: number;
  wait_ms: number;
  wait_max_ms: number;
}

/** `wait`: from due to first begun. `run`: from begun to ended. By size class. `end`: attempts by their cause. */
export interface QueueTotal {
  queue: string;
  name: "wait" | "run" | "end";
  /** The size class, see `sizeClass`, or the cause. */
  label: string;
  count: number;
  sum_ms: number;
}

/** Where one size class ends and the next begins; the last has no end. */
export const CLASS_BOUNDS_MS: readonly number[] = [
  10, 50, 100, 500, 1_000, 5_000, 15_000, 60_000, 300_000, 900_000, 3_600_000, 14_400_000, 86_400_000,
];

/** What is longer comes from a damaged row, and must not spoil the sums. */
export const LONGEST_NOTED_MS = 2 ** 40;

/** From one moment to another, as it is added up. */
export function elapsed(from_ms: number, to_ms: number): number {
  return Math.min(Math.max(0, to_ms - from_ms), LONGEST_NOTED_MS);
}

/** The first class whose bound is not exceeded; the number of bounds for what exceeds them all. */
export function sizeClass(duration_ms: number): number {
  let size = 0;
  for (const bound_ms of CLASS_BOUNDS_MS) {
    if (duration_ms <= bound_ms) break;
    size += 1;
  }
  return size;
}

export function startOf(moment_ms: number, span_ms: number): number {
  return Math.floor(moment_ms / span_ms) * span_ms;
}
