/** The machine's clocks and randomness. */

import process from "node:process";
import type { Clock } from "../core/clock.ts";

/** Makes the monotonic clock the machine's, not this process's: processes compare what they note by it. */
let since_boot_ms: number | undefined;

export const systemClock: Clock = {
  wall_ms: () => Date.now(),
  mono_ms: () => (since_boot_ms ??= Number(process.hrtime.bigint()) / 1e6 - performance.now()) + performance.now(),
  after(delay_ms, fn) {
    const timer = setTimeout(fn, delay_ms);
    return () => clearTimeout(timer);
  },
};

export const systemRandom = (): number => Math.random();
