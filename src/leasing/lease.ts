/**
 * A lease as its holder sees it. The end is measured on the holder's own clocks from when the request was *sent*, so
 * the holder always believes it to be over before the store does. After a suspend the monotonic clock is behind and
 * the wall clock tells; after a jump back of the wall clock it is the other way round: the earlier end counts.
 */

import type { Clock } from "../core/clock.ts";
import type { Job } from "../core/job.ts";
import type { Grant } from "../store/store.ts";

/** A point in time on both clocks. */
export interface Instant {
  mono_ms: number;
  wall_ms: number;
}

export function instant(clock: Clock): Instant {
  return { mono_ms: clock.mono_ms(), wall_ms: clock.wall_ms() };
}

export class Lease {
  readonly job: Job;
  readonly token: number;
  readonly lease_ms: number;
  readonly granted_at: Instant;
  readonly grant: Grant;
  /** As the store wrote it. */
  expires_at_ms: number;
  cancel_requested = false;
  readonly #clock: Clock;
  #sent: Instant;
  #valid_ms: number;

  constructor(grant: Grant, sent: Instant, clock: Clock) {
    this.grant = grant;
    this.job = grant.job;
    this.token = grant.job.token;
    this.lease_ms = grant.lease_ms;
    this.expires_at_ms = grant.expires_at_ms;
    this.granted_at = sent;
    this.#sent = sent;
    this.#valid_ms = grant.lease_ms;
    this.#clock = clock;
  }

  /** The store accepted a request sent then, for so long from then on. */
  extended(sent: Instant, valid_ms: number, expires_at_ms: number): void {
    this.#sent = sent;
    this.#valid_ms = valid_ms;
    this.expires_at_ms = expires_at_ms;
  }

  /** How much longer the holder may act; zero or less: not at all. */
  remaining(): number {
    const since_mono_ms = this.#clock.mono_ms() - this.#sent.mono_ms;
    const since_wall_ms = this.#clock.wall_ms() - this.#sent.wall_ms;
    return this.#valid_ms - Math.max(since_mono_ms, since_wall_ms);
  }
}
