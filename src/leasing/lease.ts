/**
 * A lease as its holder sees it. The end is measured on the holder's own clocks from when the request was *sent*, so
 * the holder always believes it to be over before the store does. After a suspend the monotonic clock is behind and
 * the wall clock tells; after a jump back of the wall clock it is the other way round: the earlier end counts.
 *
 * A store on this machine's own clock jumps along with it, and every sweep on it waits after a jump. There a jump is
 * not held against the lease for the moment that it takes to put it right with the store (see SilenceWatch).
 */

import { JUMP_MS, JUMP_TRUST_MS } from "../core/clock.ts";
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
  /** How often the store has told of its end. */
  heard = 0;
  /** Told of every later end. */
  onExtended: () => void = () => {};
  readonly #clock: Clock;
  #sent: Instant;
  readonly #shares_clock: boolean;
  #valid_ms: number;
  /** When the clocks were last seen to agree, counted from `sent`. */
  #steady_ms = 0;

  constructor(grant: Grant, sent: Instant, clock: Clock, shares_clock = false) {
    this.grant = grant;
    this.job = grant.job;
    this.token = grant.job.token;
    this.lease_ms = grant.lease_ms;
    this.expires_at_ms = grant.expires_at_ms;
    this.granted_at = sent;
    this.#sent = sent;
    this.#valid_ms = grant.lease_ms;
    this.#clock = clock;
    this.#shares_clock = shares_clock;
  }

  /** The trace that the attempt belongs to; null: none. */
  get traceparent(): string | null {
    return this.job.env["TRACEPARENT"] ?? null;
  }

  /** What of its machine the job was given. */
  get held(): Grant["held"] {
    return this.grant.held;
  }

  /**
   * The store accepted a request sent then, for so long from then on. One that was under way for long may come to less
   * than what is known by now: where the store kept the later end, that stands.
   */
  extended(sent: Instant, valid_ms: number, expires_at_ms: number): void {
    const before = { sent: this.#sent, valid_ms: this.#valid_ms, steady_ms: this.#steady_ms };
    const is_kept =
      this.#shares_clock && expires_at_ms >= this.expires_at_ms && this.jumped() === 0 && !this.wasSetBack();
    const left_ms = is_kept ? this.remaining() : -Infinity;
    this.#know({ sent, valid_ms, steady_ms: 0 });
    if (this.remaining() < left_ms) this.#know(before);
    this.expires_at_ms = expires_at_ms;
    this.heard += 1;
    this.onExtended();
  }

  #know({ sent, valid_ms, steady_ms }: { sent: Instant; valid_ms: number; steady_ms: number }): void {
    this.#sent = sent;
    this.#valid_ms = valid_ms;
    this.#steady_ms = steady_ms;
  }

  /** How much longer the holder may act; zero or less: not at all. */
  remaining(): number {
    const { mono_ms, wall_ms } = this.#since();
    const jump_ms = wall_ms - mono_ms;
    if (jump_ms <= JUMP_MS) this.#steady_ms = mono_ms;
    if (jump_ms <= JUMP_MS || !this.#shares_clock) return this.#valid_ms - Math.max(mono_ms, wall_ms);
    const trusted_ms = this.#steady_ms + JUMP_TRUST_MS - mono_ms;
    return trusted_ms > 0 ? Math.min(this.#valid_ms - mono_ms, trusted_ms) : this.#valid_ms - wall_ms;
  }

  /** Now by the store's clock, as exact as the time that the grant took. */
  storeTime(): number {
    const wall_ms = this.#clock.wall_ms();
    const granted_at_ms = this.job.started_at_ms;
    if (this.#shares_clock || granted_at_ms === null) return wall_ms;
    return Math.round(granted_at_ms + this.#clock.mono_ms() - this.granted_at.mono_ms);
  }

  /** By how much the store's clock has jumped ahead since it last heard of this lease; zero where that does not count. */
  jumped(): number {
    const { mono_ms, wall_ms } = this.#since();
    const jump_ms = wall_ms - mono_ms;
    return this.#shares_clock && jump_ms > JUMP_MS && this.remaining() > 0 ? jump_ms : 0;
  }

  /** The store's clock was set back since it last heard of this lease, and whoever noticed may have cut it. */
  wasSetBack(): boolean {
    const { mono_ms, wall_ms } = this.#since();
    return this.#shares_clock && wall_ms - mono_ms < -JUMP_MS;
  }

  #since(): Instant {
    return {
      mono_ms: this.#clock.mono_ms() - this.#sent.mono_ms,
      wall_ms: this.#clock.wall_ms() - this.#sent.wall_ms,
    };
  }
}
