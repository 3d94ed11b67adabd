/** Writes what is worth more than one try: until the lease is over, nobody else can have the job. */

import { sleep, type Clock } from "../core/clock.ts";
import type { Lease } from "../leasing/lease.ts";

export interface Persistence {
  clock: Clock;
  lease: Lease;
  /** Nobody waits for it much longer: what can't be written within a moment is given up. */
  hurried: () => boolean;
  onFailure: (error: unknown) => void;
}

const FIRST_PAUSE_MS = 50;
/** Also how long it takes to hear that nobody waits for it any more. */
const LONGEST_PAUSE_MS = 1_000;
const HURRIED_MS = 1_000;

export async function persist<T>(
  { clock, lease, hurried, onFailure }: Persistence,
  write: () => Promise<T>,
): Promise<T> {
  let hurried_ms: number | null = null;
  for (let pause_ms = FIRST_PAUSE_MS; ; pause_ms = Math.min(pause_ms * 2, LONGEST_PAUSE_MS)) {
    try {
      return await write();
    } catch (error) {
      const remaining_ms = lease.remaining();
      if (hurried()) hurried_ms ??= clock.mono_ms();
      const late = hurried_ms !== null && clock.mono_ms() - hurried_ms >= HURRIED_MS;
      if (remaining_ms <= 0 || late) throw error;
      onFailure(error);
      await sleep(clock, Math.min(pause_ms, remaining_ms));
    }
  }
}
