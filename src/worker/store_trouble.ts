/** How long a store in trouble is tried again: after growing pauses, and not for ever when nothing depends on it. */

import type { Clock } from "../core/clock.ts";

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
const GIVE_UP_AFTER_MS = 30_000;

export class StoreTrouble {
  readonly #clock: Clock;
  #since_ms: number | null = null;
  #pause_ms = FIRST_PAUSE_MS;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The trouble is over. */
  restore(): void {
    this.#since_ms = null;
    this.#pause_ms = FIRST_PAUSE_MS;
  }

  /** The pause before the next try; null: it has lasted too long. */
  next(): number | null {
    const now_ms = this.#clock.mono_ms();
    this.#since_ms ??= now_ms;
    if (now_ms - this.#since_ms > GIVE_UP_AFTER_MS) return null;
    const pause_ms = this.#pause_ms;
    this.#pause_ms = Math.min(pause_ms * 2, LONGEST_PAUSE_MS);
    return pause_ms;
  }
}
