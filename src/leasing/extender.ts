/**
 * Extends a lease when its heartbeat beats: at most once per interval, and never without a beat. A beat inside the
 * interval is remembered and written when the interval ends, so that a job has its whole lease from its last beat on.
 *
 * An extension that fails (the store is busy, away, full) is tried again and costs nothing but time; only one that is
 * *refused* means that the lease is lost.
 */

import type { Clock } from "../core/clock.ts";
import { LeaseError } from "../core/errors.ts";
import type { ExtendAnswer } from "../store/store.ts";
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

/** Everything about one lease, so that a late answer about an earlier one can't touch it. */
interface Attachment {
  lease: Lease;
  heartbeat: Heartbeat;
  /** A beat that the store does not know of yet. */
  unwritten: boolean;
  /** When the next extension may be sent. */
  due_ms: number;
  sending: boolean;
  failures: number;
  /** Detached, or lost: nothing more is asked for. */
  over: boolean;
  cancelTimer: (() => void) | null;
}

export class LeaseExtender {
  readonly #manager: LeaseManager;
  readonly #options: LeaseExtenderOptions;
  #attached: Attachment | null = null;
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
    const { mono_ms } = lease.granted_at;
    const attachment: Attachment = {
      lease,
      heartbeat,
      unwritten: false,
      due_ms: mono_ms + this.#options.interval_ms,
      sending: false,
      failures: 0,
      over: false,
      cancelTimer: null,
    };
    this.#attached = attachment;
    const onBeat = () => {
      attachment.unwritten = true;
      this.#consider(attachment);
    };
    heartbeat.addCallback(onBeat);
    return () => {
      if (this.#attached !== attachment) return;
      heartbeat.removeCallback(onBeat);
      end(attachment);
      this.#attached = null;
    };
  }

  /** Sends what is to be written, now or when it is due. */
  #consider(attachment: Attachment): void {
    const { unwritten, sending, over, cancelTimer } = attachment;
    if (over || sending || !unwritten || cancelTimer !== null) return;
    const wait_ms = attachment.due_ms - this.#options.clock.mono_ms();
    if (wait_ms <= 0) return this.#send(attachment);
    attachment.cancelTimer = this.#options.clock.after(wait_ms, () => {
      attachment.cancelTimer = null;
      this.#send(attachment);
    });
  }

  #send(attachment: Attachment): void {
    const { lease, heartbeat } = attachment;
    const now_ms = this.#options.clock.mono_ms();
    const beat_age_ms = Math.max(0, Math.round(now_ms - heartbeat.last_beat_ms));
    const request = { expires_in_ms: lease.lease_ms, beat_age_ms, beats: heartbeat.beats, at_least: true };
    attachment.sending = true;
    attachment.unwritten = false;
    this.#manager.renew(lease, request).then(
      (answer) => {
        attachment.sending = false;
        if (!attachment.over) this.#answered(attachment, answer, now_ms);
      },
      (error) => {
        attachment.sending = false;
        if (!attachment.over) this.#failed(attachment, error);
      },
    );
  }

  #answered(attachment: Attachment, answer: ExtendAnswer, sent_ms: number): void {
    if (answer.status !== "extended") {
      end(attachment);
      this.#options.onLost?.(attachment.lease, answer.status);
      return;
    }
    this.#extensions += 1;
    attachment.failures = 0;
    attachment.due_ms = sent_ms + this.#options.interval_ms;
    if (answer.cancel_requested) this.#options.onCancel?.(attachment.lease);
    this.#consider(attachment);
  }

  #failed(attachment: Attachment, error: unknown): void {
    attachment.unwritten = true;
    attachment.failures += 1;
    attachment.due_ms = this.#options.clock.mono_ms() + RETRY_MS;
    this.#options.onFailure?.(attachment.lease, error, attachment.failures);
    this.#consider(attachment);
  }
}

function end(attachment: Attachment): void {
  attachment.over = true;
  attachment.cancelTimer?.();
  attachment.cancelTimer = null;
}
