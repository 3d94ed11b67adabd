/**
 * Extends a lease when its heartbeat beats: at most once per interval, and never without a beat. A beat inside the
 * interval is remembered and written when the interval ends, so that a job has its whole lease from its last beat on.
 *
 * An extension that fails (the store is busy, away, full) is tried again and costs nothing but time; only one that is
 * *refused* means that the lease is lost.
 */

import type { Clock } from "../core/clock.ts";
import { LeaseError } from "../core/errors.ts";
import type { Heartbeat } from "./heartbeat.ts";
import type { Lease } from "./lease.ts";
import type { LeaseManager } from "./manager.ts";

export interface LeaseExtenderOptions {
  clock: Clock;
  interval_ms: number;
  enabled?: boolean;
  onLost?: (lease: Lease, reason: "expired" | "conflict") => void;
  onCancel?: (lease: Lease) => void;
  /** Every failed extension; `in_a_row` counts them. */
  onFailure?: (lease: Lease, error: unknown, in_a_row: number) => void;
}

/** So many failures in a row are worth telling a person about. */
export const FAILURES_REPORTED = 3;
const RETRY_MS = 250;

export class LeaseExtender {
  readonly #manager: LeaseManager;
  readonly #options: LeaseExtenderOptions;
  #attached: { lease: Lease; heartbeat: Heartbeat } | null = null;
  #last_extension_ms = 0;
  #written_beat_ms = 0;
  #cancelTimer: (() => void) | null = null;
  #sending = false;
  #failures = 0;
  #extensions = 0;

  constructor(manager: LeaseManager, options: LeaseExtenderOptions) {
    this.#manager = manager;
    this.#options = options;
  }

  /** Extensions that the store accepted since it was made. */
  get extensions(): number {
    return this.#extensions;
  }

  /** Extends `lease` on the beats of `heartbeat` until the returned function is called. */
  attach(lease: Lease, heartbeat: Heartbeat): () => void {
    if (this.#options.enabled === false) return () => {};
    if (this.#attached !== null) {
      throw new LeaseError(
        "misuse",
        `this extender is attached to job ${this.#attached.lease.job.id}: detach it first`,
      );
    }
    this.#attached = { lease, heartbeat };
    this.#last_extension_ms = lease.granted_at.mono_ms;
    this.#written_beat_ms = lease.granted_at.mono_ms;
    this.#failures = 0;
    const onBeat = () => this.#beat();
    heartbeat.addCallback(onBeat);
    return () => {
      heartbeat.removeCallback(onBeat);
      this.#stopTimer();
      this.#attached = null;
    };
  }

  #beat(): void {
    if (this.#sending) return;
    const due_ms = this.#last_extension_ms + this.#options.interval_ms - this.#options.clock.mono_ms();
    if (due_ms <= 0) this.#send();
    else this.#sendAfter(due_ms);
  }

  #sendAfter(delay_ms: number): void {
    if (this.#cancelTimer !== null) return;
    this.#cancelTimer = this.#options.clock.after(delay_ms, () => {
      this.#cancelTimer = null;
      this.#send();
    });
  }

  #send(): void {
    const attached = this.#attached;
    if (attached === null || this.#sending) return;
    this.#stopTimer();
    this.#sending = true;
    this.#extend(attached.lease, attached.heartbeat).then(
      (again_ms) => this.#sent(attached, again_ms),
      (error) => this.#failed(attached, error),
    );
  }

  /** Answers after how long a beat that came in the meantime is due, or null when there is none. */
  async #extend(lease: Lease, heartbeat: Heartbeat): Promise<number | null> {
    const now_ms = this.#options.clock.mono_ms();
    const beat_ms = heartbeat.last_beat_ms;
    const answer = await this.#manager.renew(lease, {
      expires_in_ms: lease.lease_ms,
      beat_age_ms: Math.max(0, Math.round(now_ms - beat_ms)),
      beats: heartbeat.beats,
    });
    if (this.#attached?.lease !== lease) return null;
    if (answer.status !== "extended") {
      this.#options.onLost?.(lease, answer.status);
      return null;
    }
    this.#extensions += 1;
    this.#failures = 0;
    this.#last_extension_ms = now_ms;
    this.#written_beat_ms = beat_ms;
    if (answer.cancel_requested) this.#options.onCancel?.(lease);
    return heartbeat.last_beat_ms > this.#written_beat_ms ? this.#options.interval_ms : null;
  }

  #sent(attached: { lease: Lease }, again_ms: number | null): void {
    this.#sending = false;
    if (again_ms !== null && this.#attached?.lease === attached.lease) this.#sendAfter(again_ms);
  }

  #failed(attached: { lease: Lease }, error: unknown): void {
    this.#sending = false;
    if (this.#attached?.lease !== attached.lease) return;
    this.#failures += 1;
    this.#options.onFailure?.(attached.lease, error, this.#failures);
    this.#sendAfter(Math.min(RETRY_MS, this.#options.interval_ms));
  }

  #stopTimer(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
  }
}
