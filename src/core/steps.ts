/**
 * The size of a step where many jobs are changed in several commits: large enough to be quick, and so small that a beat
 * which has to wait for one never waits long.
 */

export const FIRST_STEP = 1_000;
const LEAST = 200;
const MOST = 8_000;
const SHORT_MS = 12;
const LONG_MS = 25;

/** After each, others are let in: whoever waits for the lock tries again within so long. */
export const BETWEEN_STEPS_MS = 5;

/** The next one, after one of that size that took so long. */
export function nextStep(size: number, took_ms: number): number {
  if (took_ms > LONG_MS) return Math.max(LEAST, Math.floor(size / 2));
  return took_ms < SHORT_MS ? Math.min(MOST, size * 2) : size;
}
