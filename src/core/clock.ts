/**
 * Time as the rest of the program sees it. `wall_ms` goes into the store and may jump; `mono_ms` never goes back and is
 * what deadlines are measured with. Both are passed in, so that a test owns them.
 */

export interface Clock {
  wall_ms(): number;
  mono_ms(): number;
  /** Calls `fn` once after `delay_ms`; the returned function cancels it. */
  after(delay_ms: number, fn: () => void): () => void;
}

/** A number in [0, 1), for jitter. */
export type Random = () => number;

export function sleep(clock: Clock, delay_ms: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(delay_ms, resolve);
  });
}
