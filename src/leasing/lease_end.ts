/** Tells a holder that its lease is over by its own clock: nobody else may be there to tell it. */

import type { Clock } from "../core/clock.ts";
import type { Lease } from "./lease.ts";

/** A timer stands still while the machine sleeps, and the lease runs on. */
const LONGEST_SLEEP_MS = 1_000;

/** Calls `over` once, when nothing of the lease is left; the returned function ends the watch. */
export function watchLeaseEnd(lease: Lease, clock: Clock, over: () => void): () => void {
  let cancel = () => {};
  const look = () => {
    const left_ms = lease.remaining();
    if (left_ms <= 0) return over();
    cancel = clock.after(Math.min(LONGEST_SLEEP_MS, left_ms), look);
  };
  look();
  return () => cancel();
}
