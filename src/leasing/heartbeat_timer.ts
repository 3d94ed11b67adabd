/**
 * Renews a lease again and again, for work that can't say that it goes on. It proves nothing but that the program lives:
 * a Heartbeat with a LeaseExtender, which extends only while there is work, is the better choice where it can be had.
 *
 * It ends by itself, and says so, when the lease is lost: refused, over by our own clock, or not renewed so many times in
 * a row. So a holder always learns of it, also while the store can't be reached.
 */

import { every, isSettledWithin, type Clock } from "../core/clock.ts";
import { calibrate } from "../core/calibration.ts";
import type { Lease } from "./lease.ts";
import { watchLeaseEnd } from "./lease_end.ts";
import type { LeaseManager } from "./manager.ts";

/** `unreachable`: the store did not answer so many times in a row. */
export type LossReason = "expired" | "conflict" | "unreachable";

export interface RenewalOptions {
  clock: Clock;
  interval_ms: number;
  /** What each renewal asks for; as long as the lease was granted for unless told. */
  extension_ms?: number;
  max_failures: number;
  onLost: (reason: LossReason) => void;
}

export class Renewal {
  readonly #manager: LeaseManager;
  readonly #lease: Lease;
  readonly #options: RenewalOptions;
  #stops: (() => void)[] = [];
  #under_way: Promise<void> | null = null;
  #failures = 0;
  #renewals = 0;

  constructor(manager: LeaseManager, lease: Lease, options: RenewalOptions) {
    this.#manager = manager;
    this.#lease = lease;
    this.#options = options;
    calibrate({ lease_ms: options.extension_ms ?? lease.lease_ms, interval_ms: options.interval_ms });
  }

  get running(): boolean {
    return this.#stops.length > 0;
  }

  /** Renewals that the store accepted. */
  get renewals(): number {
    return this.#renewals;
  }

  /** Failures in a row so far. */
  get failures(): number {
    return this.#failures;
  }

  start(): void {
    if (this.running) return;
    const { clock, interval_ms } = this.#options;
    this.#stops = [
      every(clock, interval_ms, () => this.#renew()),
      watchLeaseEnd(this.#lease, clock, () => this.#lost("expired")),
    ];
  }

  /** Resolves when a renewal that is under way has been answered, or the time for that is over. */
  async stop({ wait = true, timeout_ms = 5_000 }: { wait?: boolean; timeout_ms?: number } = {}): Promise<void> {
    for (const stop of this.#stops.splice(0)) stop();
    if (wait && this.#under_way !== null) await isSettledWithin(this.#options.clock, timeout_ms, this.#under_way);
  }

  #lost(reason: LossReason): void {
    if (!this.running) return;
    void this.stop({ wait: false });
    this.#options.onLost(reason);
  }

  #renew(): void {
    if (this.#under_way !== null) return;
    const expires_in_ms = this.#options.extension_ms ?? this.#lease.lease_ms;
    const request = { expires_in_ms, beat_age_ms: 0, beats: this.#renewals + 1 };
    this.#under_way = this.#manager.renew(this.#lease, request).then(
      (answer) => {
        this.#under_way = null;
        if (answer.status !== "extended") return this.#lost(answer.status);
        this.#failures = 0;
        this.#renewals += 1;
      },
      () => {
        this.#under_way = null;
        this.#failures += 1;
        if (this.#failures >= this.#options.max_failures) this.#lost("unreachable");
      },
    );
  }
}
