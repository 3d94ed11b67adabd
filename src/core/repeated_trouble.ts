/** Trouble that lasts is told at first, the third time, and then now and then: who reads it knows by then. */

import type { Clock } from "./clock.ts";

const SOON = 3;
const EVERY_MS = 30_000;

export class RepeatedTrouble {
  readonly #clock: Clock;
  #count = 0;
  #told_ms = -Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** How often it has happened in a row, when that is worth telling; else null. */
  again(): number | null {
    const now_ms = this.#clock.mono_ms();
    this.#count += 1;
    if (this.#count !== SOON && now_ms - this.#told_ms < EVERY_MS) return null;
    this.#told_ms = now_ms;
    return this.#count;
  }

  over(): void {
    this.#count = 0;
    this.#told_ms = -Infinity;
  }
}
