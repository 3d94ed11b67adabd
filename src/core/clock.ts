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
  return new Promise((resolve) => void clock.after(delay_ms, resolve));
}

/** False when `promise` takes longer than that. */
export async function isSettledWithin(clock: Clock, limit_ms: number, promise: Promise<unknown>): Promise<boolean> {
  const late = Promise.withResolvers<boolean>();
  const cancel = clock.after(limit_ms, () => late.resolve(false));
  const settled = await Promise.race([promise.then(() => true), late.promise]);
  cancel();
  return settled;
}

/** Calls `fn` every so often; the returned function ends it. */
export function every(clock: Pick<Clock, "after">, interval_ms: number, fn: () => void): () => void {
  let cancel = () => {};
  const again = () => {
    cancel = clock.after(interval_ms, () => {
      again();
      fn();
    });
  };
  again();
  return () => cancel();
}

/** Clocks that part by more than this were set, or the machine slept; less is drift. */
export const JUMP_MS = 1_000;

/**
 * For so long after the clocks last agreed a holder does not hold a jump against its lease. A sweep waits longer than
 * that, so a holder that could not put it right in time has given up before.
 */
export const JUMP_TRUST_MS = 3_000;

/** A machine's time as all its processes see it: since it was booted, asleep or not, and how often it slept. */
export interface MachineTime {
  boot_id: string;
  uptime_ms: number;
  suspends: number;
}
