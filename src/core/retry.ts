/**
 * Whether a job that did not succeed runs again, and when. Deciding only: nothing here writes or waits.
 */

import type { Random } from "./clock.ts";
import type { Cause, JobSettings } from "./job.ts";

export interface Backoff {
  first_ms: number;
  factor: number;
  max_ms: number;
  /** 0.2 spreads the delay over ±20 %, so that jobs that failed together don't return together. */
  jitter: number;
}

export const DEFAULT_BACKOFF: Backoff = { first_ms: 1_000, factor: 2, max_ms: 600_000, jitter: 0.2 };

/** An exit code or a range of them, both ends included. */
export type ExitRange = readonly [from: number, to: number];

/** Delay before the run that follows the `failures`-th failure (1 = the first). */
export function backoffDelay(backoff: Backoff, failures: number, random: Random): number {
  const exponent = Math.min(failures - 1, 60);
  const plain_ms = Math.min(backoff.first_ms * backoff.factor ** exponent, backoff.max_ms);
  return Math.round(plain_ms * (1 + backoff.jitter * (random() * 2 - 1)));
}

/** Causes that say nothing against the job itself: its worker went away. */
export function wasLost(cause: Cause): boolean {
  return cause === "expired" || cause === "lost";
}

/**
 * A command that does not exist or can't be executed is not tried again: the next run would find the same, and the
 * person who mistyped it should hear of it now.
 */
export function isRetryable(
  cause: Cause,
  exit_code: number | null,
  settings: Pick<JobSettings, "retry_on" | "fatal_exit">,
): boolean {
  if (wasLost(cause)) return true;
  if (cause === "not_found" || cause === "not_executable") return false;
  if (settings.retry_on === "lost") return false;
  return (
    cause !== "exit" ||
    exit_code === null ||
    !settings.fatal_exit.some(([from, to]) => exit_code >= from && exit_code <= to)
  );
}
