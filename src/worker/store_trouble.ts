/** How long a store in trouble is tried again, after growing pauses. */

import { sleep, type Clock } from "../core/clock.ts";
import { isReplaced } from "../core/errors.ts";
import { RepeatedTrouble } from "../core/report.ts";
import type { Lease } from "../leasing/lease.ts";

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
const GIVE_UP_AFTER_MS = 30_000;

/** For whoever asks the store for work: not for ever, when nothing depends on it. */
export class StoreTrouble extends RepeatedTrouble {
  readonly #clock: Clock;
  #since_ms: number | null = null;
  #pause_ms = FIRST_PAUSE_MS;

  constructor(clock: Clock) {
    super(clock);
    this.#clock = clock;
  }

  override over(): void {
    super.over();
    this.#since_ms = null;
    this.#pause_ms = FIRST_PAUSE_MS;
  }

  /** The pause before the next try; null: it has lasted too long. */
  nextPause(): number | null {
    const now_ms = this.#clock.mono_ms();
    this.#since_ms ??= now_ms;
    if (now_ms - this.#since_ms > GIVE_UP_AFTER_MS) return null;
    const pause_ms = this.#pause_ms;
    this.#pause_ms = Math.min(pause_ms * 2, LONGEST_PAUSE_MS);
    return pause_ms;
  }
}

const FIRST_WRITE_PAUSE_MS = 50;
/** Also how long it takes to hear that nobody waits for the write any more. */
const LONGEST_WRITE_PAUSE_MS = 1_000;
const GIVEN_UP_AFTER_MS = 1_000;

export interface LeasedWrite<T> {
  write(): Promise<T>;
  /** Nobody waits for it much longer: what can't be written within a moment is given up. */
  givesUp(): boolean;
  failed(error: unknown): void;
}

/** What is worth more than one try: until the lease is over, nobody else can have the job. */
export async function writeWhileLeased<T>(lease: Lease, clock: Clock, leased: LeasedWrite<T>): Promise<T> {
  let give_up_ms = Infinity;
  for (let pause_ms = FIRST_WRITE_PAUSE_MS; ; pause_ms = Math.min(pause_ms * 2, LONGEST_WRITE_PAUSE_MS)) {
    try {
      return await leased.write();
    } catch (error) {
      if (isReplaced(error)) throw error;
      const remaining_ms = lease.remaining();
      const now_ms = clock.mono_ms();
      if (leased.givesUp()) give_up_ms = Math.min(give_up_ms, now_ms + GIVEN_UP_AFTER_MS);
      if (remaining_ms <= 0 || now_ms >= give_up_ms) throw error;
      leased.failed(error);
      await sleep(clock, Math.min(pause_ms, remaining_ms));
    }
  }
}
