/** The machine's clocks and randomness. */

import type { Clock } from "../core/clock.ts";

export const systemClock: Clock = {
  wall_ms: () => Date.now(),
  mono_ms: () => performance.now(),
  after(delay_ms, fn) {
    const timer = setTimeout(fn, delay_ms);
    return () => clearTimeout(timer);
  },
};

export const systemRandom = (): number => Math.random();
