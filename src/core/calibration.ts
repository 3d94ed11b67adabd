/**
 * Lease times and the rules between them. A setting that would let a healthy job lose its lease is refused at start,
 * naming the rule and the two values, instead of being found out in the night.
 */

import { formatDuration } from "./duration.ts";
import { LeaseError } from "./errors.ts";

const DEFAULT_LEASE_MS = 300_000;
export const DEFAULT_KILL_GRACE_MS = 10_000;

export interface LeaseTimes {
  lease_ms: number;
  /** At most one extension of a lease per interval. */
  interval_ms: number;
  sweep_every_ms: number;
  sweep_grace_ms: number;
}

export type LeaseTimesInput = { [K in keyof LeaseTimes]?: number | null | undefined };

/** Fills what is not given from the lease and checks the rules. */
export function calibrate(given: LeaseTimesInput): LeaseTimes {
  const lease_ms = given.lease_ms ?? DEFAULT_LEASE_MS;
  if (lease_ms < 1_000) refuse(`lease must be at least 1s, and is ${formatDuration(lease_ms)}`);
  const times = {
    lease_ms,
    interval_ms: given.interval_ms ?? Math.round(lease_ms / 10),
    sweep_every_ms: given.sweep_every_ms ?? Math.max(1_000, Math.round(lease_ms / 5)),
    sweep_grace_ms: given.sweep_grace_ms ?? Math.round(lease_ms / 5),
  };
  if (times.interval_ms * 2 >= lease_ms) {
    const interval = `${formatDuration(times.interval_ms)} with a lease of ${formatDuration(lease_ms)}`;
    refuse(`interval must be less than half of lease, and is ${interval}`);
  }
  if (times.interval_ms < 0) refuse(`interval can't be negative, and is ${formatDuration(times.interval_ms)}`);
  if (times.sweep_every_ms < 1_000) {
    refuse(`sweeps must be at least 1s apart, and are ${formatDuration(times.sweep_every_ms)}`);
  }
  if (times.sweep_grace_ms < 0) refuse(`grace can't be negative, and is ${formatDuration(times.sweep_grace_ms)}`);
  return times;
}

function refuse(message: string): never {
  throw new LeaseError("calibration", message);
}

/** A job with a lease of its own has the same share of it as interval. */
export function intervalOf(lease_ms: number, times: LeaseTimes): number {
  return Math.round((times.interval_ms * lease_ms) / times.lease_ms);
}

const FORCED_GRACE_MS = 10_000;

/** `never` is for cancels only: silence, timeouts and drains end by force in any case. */
export function forcedGrace(kill_grace_ms: number | null): number {
  return kill_grace_ms ?? FORCED_GRACE_MS;
}
