/**
 * The size of a step where many jobs are changed in several commits: large enough to be quick, and so small that a beat
 * which has to wait for one never waits long.
 */

export const FIRST_STEP = 1_000;
const LEAST = 200;
const MOST = 8_000;
const AIM_MS = 20;
/** One that was held up by something else says little. */
const MOST_TIMES = 2;

/** After each, others are let in: whoever waits for the lock tries again within so long. */
export const BETWEEN_STEPS_MS = 5;

/** The next one, after one of that size that took so long. */
export function nextStep(size: number, took_ms: number): number {
  const times = Math.min(MOST_TIMES, Math.max(1 / MOST_TIMES, AIM_MS / took_ms));
  return Math.min(MOST, Math.max(LEAST, Math.floor(size * times)));
}
