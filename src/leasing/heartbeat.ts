/**
 * The proof that a job works: whoever sees it work calls `beat`. Callbacks run in the order in which they were added;
 * one that throws stops neither the others nor the job.
 */

import type { Clock } from "../core/clock.ts";

export class Heartbeat {
  readonly #clock: Clock;
  readonly #onError: (error: unknown) => void;
  readonly #callbacks: (() => void)[] = [];
  #last_beat_ms: number;
  #beats = 0;

  constructor(clock: Clock, onError: (error: unknown) => void = () => {}) {
    this.#clock = clock;
    this.#onError = onError;
    this.#last_beat_ms = clock.mono_ms();
  }

  /** `count` beats that were seen at once count as so many, and call back once. */
  beat(count = 1): void {
    this.#record(this.#clock.mono_ms(), count);
  }

  /** A beat that somebody else saw and counted, `age_ms` ago; one older than the last is no news. */
  beatSeen(age_ms: number): void {
    const at_ms = this.#clock.mono_ms() - age_ms;
    if (at_ms > this.#last_beat_ms) this.#record(at_ms, 0);
  }

  /** Milliseconds since the last beat, on the monotonic clock. */
  elapsed(): number {
    return this.#clock.mono_ms() - this.#last_beat_ms;
  }

  get last_beat_ms(): number {
    return this.#last_beat_ms;
  }

  get beats(): number {
    return this.#beats;
  }

  addCallback(callback: () => void): void {
    this.#callbacks.push(callback);
  }

  removeCallback(callback: () => void): void {
    const index = this.#callbacks.indexOf(callback);
    if (index >= 0) this.#callbacks.splice(index, 1);
  }

  #record(at_ms: number, count: number): void {
    this.#last_beat_ms = at_ms;
    this.#beats += count;
    if (this.#callbacks.length === 0) return;
    // A copy, because a callback may remove itself.
    for (const callback of this.#callbacks.slice()) {
      try {
        callback();
      } catch (error) {
        this.#onError(error);
      }
    }
  }
}
