/** What a role has to say while it works. Who listens decides where it goes: a log, a terminal, a test. */

import type { Clock } from "./clock.ts";

export type Level = "debug" | "info" | "warn" | "error";

export type Report = (level: Level, message: string) => void;

const SOON = 3;
const EVERY_MS = 30_000;

/** Trouble that lasts is told at first, the third time, and then now and then: who reads it knows by then. */
export class RepeatedTrouble {
  readonly #clock: Clock;
  #count = 0;
  #told_ms = -Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** It has happened once more: whether that is to be told. */
  tellNow(): boolean {
    const now_ms = this.#clock.mono_ms();
    this.#count += 1;
    if (this.#count !== SOON && now_ms - this.#told_ms < EVERY_MS) return false;
    this.#told_ms = now_ms;
    return true;
  }

  over(): void {
    this.#count = 0;
    this.#told_ms = -Infinity;
  }
}
