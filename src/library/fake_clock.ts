/** A clock for tests, which stands still until it is moved. */

import type { Clock } from "../core/clock.ts";
import { readOptions } from "./options.ts";
import { DURATION } from "../core/values.ts";

interface Timer {
  due_ms: number;
  fn: () => void;
}

/**
 * A clock that stands still until a test moves it. Timers run on the monotonic side, as real ones do: a jump of the
 * wall clock fires nothing.
 *
 * @example
 * ```ts
 * const clock = new FakeClock();
 * await using queue = await open(":memory:", { clock });
 * await queue.enqueue({ input: 1, delay: "1h" });
 * await clock.advance("1h");
 * ```
 */
export class FakeClock implements Clock {
  #wall_ms: number;
  #mono_ms: number;
  // In the order they were asked for, which decides between timers that are due together.
  readonly #timers = new Set<Timer>();

  /** The two start far apart, so that code which mixes them up is found out. */
  constructor(start: { wall_ms?: number; mono_ms?: number } = {}) {
    this.#wall_ms = start.wall_ms ?? Date.UTC(2030, 0, 1);
    this.#mono_ms = start.mono_ms ?? 5_000;
  }

  /** Whole milliseconds, as clocks tell them, whatever moment a timer has been set for. */
  wall_ms(): number {
    return Math.floor(this.#wall_ms);
  }

  mono_ms(): number {
    return this.#mono_ms;
  }

  after(delay_ms: number, fn: () => void): () => void {
    const timer = { due_ms: this.#mono_ms + Math.max(0, delay_ms), fn };
    this.#timers.add(timer);
    return () => {
      this.#timers.delete(timer);
    };
  }

  /** Timers that have not fired: nothing should be left when a test has closed what it opened. */
  get timers(): number {
    return this.#timers.size;
  }

  /**
   * Both clocks move on by that (milliseconds, or `"1h"`). What becomes due on the way fires in order, each at its own moment and with every
   * promise settled before the next, so that a timer set by what a timer woke up still fires in its turn.
   */
  async advance(time: number | string): Promise<void> {
    const ms = typeof time === "number" ? time : (readOptions({ time }, { time: DURATION }).time ?? 0);
    if (ms < 0) throw new Error("time passes forwards only; use jumpWall");
    const target_ms = this.#mono_ms + ms;
    await settled();
    for (let timer = this.#next(target_ms); timer; timer = this.#next(target_ms)) {
      this.#timers.delete(timer);
      this.#moveTo(Math.max(timer.due_ms, this.#mono_ms));
      timer.fn();
      await settled();
    }
    this.#moveTo(target_ms);
  }

  /** Somebody set the wall clock, forwards or back, or the machine slept; no time passed for this process. */
  jumpWall(ms: number): void {
    this.#wall_ms += ms;
  }

  #next(until_ms: number): Timer | undefined {
    let first: Timer | undefined;
    for (const timer of this.#timers) {
      if (timer.due_ms <= until_ms && (!first || timer.due_ms < first.due_ms)) first = timer;
    }
    return first;
  }

  #moveTo(mono_ms: number): void {
    this.#wall_ms += mono_ms - this.#mono_ms;
    this.#mono_ms = mono_ms;
  }
}

/** A turn of the event loop starts only when no promise is left to go on. */
function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
