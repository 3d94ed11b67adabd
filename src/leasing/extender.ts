/**
 * Extends a lease when its heartbeat beats: at most once per interval, and never without a beat. A beat inside the
 * interval is remembered and written when the interval ends, so that a job has its whole lease from its last beat on.
 *
 * An extension that fails (the store is busy, away, full) is tried again and costs nothing but time; only one that is
 * *refused* means that the lease is lost.
 */

import type { Clock } from "../core/clock.ts";
import { LeaseError } from "../core/errors.ts";
import type { Grace } from "../core/job.ts";
import type { ExtendAnswer } from "../store/store.ts";
import type { Heartbeat } from "./heartbeat.ts";
import type { Lease } from "./lease.ts";
import { watchLeaseEnd } from "./lease_end.ts";
import type { LeaseManager } from "./manager.ts";

export interface LeaseExtenderOptions {
  clock: Clock;
  interval_ms: number;
  /** What a beat adds; the length of the lease unless told. */
  extension_ms?: number;
  /** The interval follows the gaps between beats: it grows where they are short, up to less than half of the extension. */
  adaptive?: boolean;
  enabled?: boolean;
  /** Also tells of a lease that is over by our own clock, when no answer came; for holders whom nobody else tells. */
  watch_end?: boolean;
  /** How long an extension may wait for others to share a commit with. */
  within_ms?: number;
  onLost?: (lease: Lease, reason: "expired" | "conflict") => void;
  onExtended?: (lease: Lease) => void;
  /** `grace`: what the cancel says of it; null: nothing. */
  onCancel?: (lease: Lease, grace: Grace | null) => void;
  /** Every failed extension; `in_a_row` counts them. */
  onFailure?: (lease: Lease, error: unknown, in_a_row: number) => void;
}

/** So many failures in a row are worth telling a person about. */
export const FAILURES_REPORTED = 3;
const RETRY_MS = 250;
/** What a job says about itself is written sooner than its beats, and at most so often. */
const NOTE_EVERY_MS = 1_000;

/** What an extender has asked for since it was made. */
export interface ExtensionCounts {
  attempts: number;
  extended: number;
  /** The store did not answer, or with an error. */
  failures: number;
  refusals: number;
}

/** How much a new gap weighs in the average. */
const GAP_WEIGHT = 0.2;
/** Of the extension: an interval stays below half of it. */
const LONGEST_INTERVAL = 0.45;

/** What a job says about itself. */
export interface JobNote {
  progress: number | null;
  message: string | null;
}

/** An extender at work on one lease; ends by being called, or at the end of a `using` block. */
export interface Attached extends Disposable {
  (): void;
  /** To be written with the next extension, which comes soon for it. */
  note(note: JobNote): void;
}

/** Everything about one lease, so that a late answer about an earlier one can't touch it. */
interface Attachment {
  lease: Lease;
  heartbeat: Heartbeat;
  /** A beat that the store does not know of yet. */
  unwritten: boolean;
  /** When the next extension may be sent. */
  due_ms: number;
  note: JobNote | null;
  /** When one with a note may be sent. */
  note_due_ms: number;
  sending: boolean;
  /** In a row. */
  failures: number;
  /** In all. */
  failed: number;
  /** On average between two beats; infinite before the second. */
  gap_ms: number;
  last_beat_ms: number;
  /** Detached, or lost: nothing more is asked for. */
  over: boolean;
  cancelTimer: (() => void) | null;
}

export class LeaseExtender {
  readonly #manager: LeaseManager;
  readonly #options: LeaseExtenderOptions;
  #attached: Attachment | null = null;
  readonly #counts: ExtensionCounts = { attempts: 0, extended: 0, failures: 0, refusals: 0 };

  constructor(manager: LeaseManager, options: LeaseExtenderOptions) {
    this.#manager = manager;
    this.#options = options;
  }

  /** Extensions that the store accepted since it was made. */
  get extensions(): number {
    return this.#counts.extended;
  }

  get counts(): ExtensionCounts {
    return { ...this.#counts };
  }

  /** Between two extensions of what it is attached to, as things are. */
  get interval_ms(): number {
    return this.#attached === null ? this.#options.interval_ms : this.#intervalOf(this.#attached);
  }

  /** Extends `lease` on the beats of `heartbeat` until what it returns is called, or disposed of. */
  attach(lease: Lease, heartbeat: Heartbeat): Attached {
    if (this.#options.enabled === false) return attached(() => {});
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
      note: null,
      note_due_ms: 0,
      sending: false,
      failures: 0,
      failed: 0,
      gap_ms: Infinity,
      last_beat_ms: heartbeat.last_beat_ms,
      over: false,
      cancelTimer: null,
    };
    this.#attached = attachment;
    const onBeat = () => {
      if (this.#options.adaptive === true) observeGap(attachment);
      attachment.unwritten = true;
      this.#consider(attachment);
    };
    heartbeat.addCallback(onBeat);
    const lose = () => this.#lose(attachment, "expired");
    const { watch_end = false, clock } = this.#options;
    const stopWatching = watch_end ? watchLeaseEnd(lease, clock, lose) : () => {};
    const detach = () => {
      if (this.#attached !== attachment) return;
      stopWatching();
      heartbeat.removeCallback(onBeat);
      // What it said last is not lost because it ended right after.
      if (attachment.note !== null && !attachment.over) this.#send(attachment);
      end(attachment);
      this.#attached = null;
    };
    return attached(detach, (note) => {
      if (attachment.over) return;
      attachment.note = note;
      attachment.unwritten = true;
      attachment.cancelTimer?.();
      attachment.cancelTimer = null;
      this.#consider(attachment);
    });
  }

  /** Sends what is to be written, now or when it is due. */
  #consider(attachment: Attachment): void {
    const { unwritten, sending, over, cancelTimer } = attachment;
    if (over || sending || !unwritten || cancelTimer !== null) return;
    const due_ms = attachment.note === null ? attachment.due_ms : Math.min(attachment.due_ms, attachment.note_due_ms);
    const wait_ms = due_ms - this.#options.clock.mono_ms();
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
    const { note, failed } = attachment;
    const { extension_ms: expires_in_ms = lease.lease_ms, within_ms = 0 } = this.#options;
    const beat = { expires_in_ms, beat_age_ms, beats: heartbeat.beats, at_least: true, failures: failed };
    const request = { ...beat, within_ms, ...note };
    this.#counts.attempts += 1;
    attachment.sending = true;
    attachment.unwritten = false;
    attachment.note = null;
    attachment.note_due_ms = now_ms + NOTE_EVERY_MS;
    this.#manager.renew(lease, request).then(
      (answer) => {
        attachment.sending = false;
        if (!attachment.over) this.#answered(attachment, answer, now_ms);
      },
      (error) => {
        attachment.sending = false;
        attachment.note ??= note;
        if (!attachment.over) this.#failed(attachment, error);
      },
    );
  }

  #answered(attachment: Attachment, answer: ExtendAnswer, sent_ms: number): void {
    if (answer.status !== "extended") {
      this.#counts.refusals += 1;
      return this.#lose(attachment, answer.status);
    }
    this.#counts.extended += 1;
    attachment.failures = 0;
    this.#options.onExtended?.(attachment.lease);
    attachment.due_ms = sent_ms + this.#intervalOf(attachment);
    if (answer.cancel_requested) this.#options.onCancel?.(attachment.lease, answer.grace ?? null);
    this.#consider(attachment);
  }

  #lose(attachment: Attachment, reason: "expired" | "conflict"): void {
    if (attachment.over) return;
    end(attachment);
    this.#options.onLost?.(attachment.lease, reason);
  }

  /**
   * With short gaps, beats that are kept back for long cost nothing but writes that are not made; with long ones each
   * beat must be written soon, or the next comes too late. So that half of the extension is left when the next is due.
   */
  #intervalOf({ lease, gap_ms }: Attachment): number {
    const { interval_ms, extension_ms = lease.lease_ms, adaptive = false } = this.#options;
    if (!adaptive) return interval_ms;
    const most_ms = extension_ms * LONGEST_INTERVAL;
    return Math.min(most_ms, Math.max(interval_ms, extension_ms / 2 - gap_ms));
  }

  #failed(attachment: Attachment, error: unknown): void {
    this.#counts.failures += 1;
    attachment.unwritten = true;
    attachment.failures += 1;
    attachment.failed += 1;
    attachment.due_ms = attachment.note_due_ms = this.#options.clock.mono_ms() + RETRY_MS;
    this.#options.onFailure?.(attachment.lease, error, attachment.failures);
    this.#consider(attachment);
  }
}

function observeGap(attachment: Attachment): void {
  const gap_ms = attachment.heartbeat.last_beat_ms - attachment.last_beat_ms;
  attachment.last_beat_ms = attachment.heartbeat.last_beat_ms;
  const known = Number.isFinite(attachment.gap_ms);
  attachment.gap_ms = known ? attachment.gap_ms + GAP_WEIGHT * (gap_ms - attachment.gap_ms) : gap_ms;
}

function attached(detach: () => void, note: Attached["note"] = () => {}): Attached {
  return Object.assign(() => detach(), { note, [Symbol.dispose]: detach });
}

function end(attachment: Attachment): void {
  attachment.over = true;
  attachment.cancelTimer?.();
  attachment.cancelTimer = null;
}
