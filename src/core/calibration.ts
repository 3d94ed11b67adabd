/**
 * Lease times and the rules between them. A setting that would let a healthy job lose its lease is refused at start,
 * naming the rule and the two values, instead of being found out in the night.
 */

import { formatDuration } from "./duration.ts";
import { LeaseError } from "./errors.ts";
import type { Grace, JobSettings } from "./job.ts";

const DEFAULT_LEASE_MS = 300_000;
export const DEFAULT_KILL_GRACE_MS = 10_000;

export interface LeaseTimes {
  lease_ms: number;
  /** At most one extension of a lease per interval. */
  interval_ms: number;
  /** What a beat adds: the lease ends so long after it, or when it was granted until, whichever is later. */
  extension_ms: number;
  sweep_every_ms: number;
  sweep_grace_ms: number;
}

export type LeaseTimesInput = { [K in keyof LeaseTimes]?: number | null | undefined };

/** Fills what is not given from the lease and checks the rules. */
export function calibrate(given: LeaseTimesInput): LeaseTimes {
  const lease_ms = given.lease_ms ?? DEFAULT_LEASE_MS;
  const extension_ms = given.extension_ms ?? lease_ms;
  const times = {
    lease_ms,
    interval_ms: given.interval_ms ?? Math.round(extension_ms / 10),
    extension_ms,
    sweep_every_ms: given.sweep_every_ms ?? Math.max(1_000, Math.round(lease_ms / 5)),
    sweep_grace_ms: given.sweep_grace_ms ?? Math.round(lease_ms / 5),
  };
  checkTimes(
    given.extension_ms === undefined || given.extension_ms === null ? { ...times, extension_ms: null } : times,
  );
  if (times.sweep_every_ms < 1_000) {
    refuse(`every (between two sweeps) must be at least 1s, and is ${formatDuration(times.sweep_every_ms)}`);
  }
  if (times.sweep_grace_ms < 0) refuse(`grace can't be negative, and is ${formatDuration(times.sweep_grace_ms)}`);
  return times;
}

/** The rules between what is known of a lease: a job may leave some of it to its worker. */
export function checkTimes(known: Pick<JobSettings, "lease_ms" | "interval_ms" | "extension_ms">): void {
  const { interval_ms, extension_ms } = known;
  const lease_ms = known.lease_ms === "auto" ? null : known.lease_ms;
  if (lease_ms !== null && lease_ms < 1_000) refuse(`lease must be at least 1s, and is ${formatDuration(lease_ms)}`);
  if (extension_ms !== null && extension_ms <= 0) refuse("extension must be longer than 0");
  if (extension_ms !== null && lease_ms !== null && extension_ms > lease_ms) {
    const found = `${formatDuration(extension_ms)} with a lease of ${formatDuration(lease_ms)}`;
    refuse(`extension must not be longer than lease, and is ${found}`);
  }
  if (interval_ms === null) return;
  if (interval_ms < 0) refuse(`interval can't be negative, and is ${formatDuration(interval_ms)}`);
  const [what, whole_ms] =
    extension_ms === null ? (["lease", lease_ms] as const) : (["extension", extension_ms] as const);
  if (whole_ms === null || interval_ms * 2 < whole_ms) return;
  const interval = `${formatDuration(interval_ms)} with ${what === "lease" ? "a" : "an"} ${what} of ${formatDuration(whole_ms)}`;
  refuse(`interval must be less than half of ${what}, and is ${interval}`);
}

function refuse(message: string): never {
  throw new LeaseError("calibration", message);
}

/**
 * How a granted lease is extended: as the job says, or in the shares of it that the worker has of its own. What the two
 * say may not go together, which nobody could know before: then the interval gives way, and the lease bounds the rest.
 */
export function extensionOf(
  lease_ms: number,
  own: Pick<JobSettings, "interval_ms" | "extension_ms">,
  worker: LeaseTimes,
): { interval_ms: number; extension_ms: number } {
  const share_ms = Math.round((worker.extension_ms * lease_ms) / worker.lease_ms);
  const extension_ms = Math.min(lease_ms, own.extension_ms ?? share_ms);
  const interval_ms = own.interval_ms ?? Math.round((worker.interval_ms * extension_ms) / worker.extension_ms);
  return { extension_ms, interval_ms: Math.min(interval_ms, Math.max(0, Math.ceil(extension_ms / 2) - 1)) };
}

/** `never` is for cancels only: silence, timeouts and drains end by force in any case. The first that says a time counts. */
export function forcedGrace(...said: readonly (Grace | null)[]): number {
  return said.find((grace) => typeof grace === "number") ?? DEFAULT_KILL_GRACE_MS;
}
