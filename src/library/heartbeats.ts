/** What keeps a lease that was acquired by hand: by a timer, or by beats. */

import { calibrate } from "../core/calibration.ts";
import { LeaseError } from "../core/errors.ts";
import { COUNT, DURATION, LEASE, SWITCH } from "../core/values.ts";
import { LeaseExtender, type Attached, type ExtensionCounts } from "../leasing/extender.ts";
import { Heartbeat } from "../leasing/heartbeat.ts";
import { Renewal, type LossReason } from "../leasing/heartbeat_timer.ts";
import { systemClock } from "../platform/clock.ts";
import { innerOf, managerOf, type HeldLease, type QueueLeaseManager } from "./leases.ts";
import { readOptions } from "./options.ts";
import { groundOf, type Queue } from "./queue.ts";

/** Options of a HeartbeatTimer. */
export interface HeartbeatTimerOptions {
  /** Between two renewals; `"30s"` unless told. */
  interval?: string;
  /** What each renewal asks for; as long as the lease was granted for unless told. */
  lease?: string;
  /** So many failures in a row end it; 3 unless told. */
  max_failures?: number;
  /** The lease is over: refused, run out by our own clock, or the store could not be reached so many times. */
  onLost?: (reason: LossReason) => void;
}

/**
 * Renews a lease again and again in the background, for work that can't say that it goes on.
 *
 * @example
 * ```ts
 * const timer = new HeartbeatTimer(manager, lease, { onLost: (reason) => console.error("lost", reason) });
 * timer.start();
 * // … work …
 * await timer.stop();
 * ```
 */
export class HeartbeatTimer {
  readonly #renewal: Renewal;

  constructor(manager: QueueLeaseManager, lease: HeldLease, options: HeartbeatTimerOptions = {}) {
    const { onLost = () => {}, ...rest } = options;
    const values = { interval: DURATION, lease: DURATION, max_failures: COUNT } as const;
    const { interval = 30_000, lease: extension_ms, max_failures = 3 } = readOptions(rest, values);
    const { clock } = groundOf(manager.queue);
    this.#renewal = new Renewal(managerOf(manager), innerOf(lease), {
      clock,
      interval_ms: interval,
      max_failures,
      onLost,
      ...(extension_ms === undefined ? {} : { extension_ms }),
    });
  }

  /** Whether it renews. */
  get running(): boolean {
    return this.#renewal.running;
  }

  /** Renewals that the store accepted. */
  get renewals(): number {
    return this.#renewal.renewals;
  }

  /** Failures in a row. */
  get failures(): number {
    return this.#renewal.failures;
  }

  start(): this {
    this.#renewal.start();
    return this;
  }

  /** With `wait` (so it is unless told) it resolves when a renewal under way was answered, or after `timeout` (`"5s"`). */
  stop(options: { wait?: boolean; timeout?: string } = {}): Promise<void> {
    const { wait = true, timeout = 5_000 } = readOptions(options, { wait: SWITCH, timeout: DURATION });
    return this.#renewal.stop({ wait, timeout_ms: timeout });
  }

  /** Stops it as `stop()` does. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

/**
 * The proof that work goes on: whoever does it calls `beat`, whoever watches adds a callback.
 *
 * @example
 * ```ts
 * const heartbeat = new Heartbeat();
 * heartbeat.addCallback(() => console.log("it works"));
 * heartbeat.beat();
 * console.log(heartbeat.elapsed());
 * ```
 */
export class WorkHeartbeat extends Heartbeat {
  /** On the clock of a queue, or the machine's. */
  constructor(queue?: Queue) {
    super(queue === undefined ? systemClock : groundOf(queue).clock);
  }
}

/** Options of a LeaseExtender. */
export interface ExtenderOptions {
  /** At most one extension per interval; a tenth of the lease unless told. `auto` follows the gaps between beats. */
  interval?: string;
  /** What a beat adds, at most the lease; the lease unless told. */
  extension?: string;
  /** False: nothing is extended, for tests. */
  enabled?: boolean;
  /** The lease is over, refused or by our own clock. */
  onLost?: (reason: "expired" | "conflict") => void;
  /** Somebody wants the job to end. */
  onCancel?: () => void;
  /** An extension failed; it is tried again. `in_a_row` counts. */
  onFailure?: (error: unknown, in_a_row: number) => void;
}

/**
 * Extends a lease when its heartbeat beats: at most once per interval, and never without a beat, so that work that hangs
 * loses its lease.
 *
 * @example
 * ```ts
 * const extender = new LeaseExtender(manager, { interval: "30s", extension: "5m" });
 * const heartbeat = new Heartbeat(queue);
 * {
 *   using _attached = extender.attach(lease, heartbeat);
 *   heartbeat.beat(); // whenever a piece of work is done
 * }
 * console.log(extender.statistics());
 * ```
 */
export class BeatExtender {
  readonly #manager: QueueLeaseManager;
  readonly #options: ExtenderOptions;
  readonly #given: { interval_ms: number | null; extension_ms: number | null; adaptive: boolean };
  #inner: LeaseExtender | null = null;
  #attached = false;
  #before: ExtensionCounts = { attempts: 0, extended: 0, failures: 0, refusals: 0 };

  constructor(manager: QueueLeaseManager, options: ExtenderOptions = {}) {
    const { onLost: _lost, onCancel: _cancel, onFailure: _failure, ...rest } = options;
    const values = { interval: LEASE, extension: DURATION, enabled: SWITCH } as const;
    const { interval = null, extension = null } = readOptions(rest, values);
    managerOf(manager);
    this.#manager = manager;
    this.#options = options;
    const adaptive = interval === "auto";
    this.#given = { interval_ms: adaptive ? null : interval, extension_ms: extension, adaptive };
    if (extension !== null) calibrate({ lease_ms: extension, interval_ms: this.#given.interval_ms });
  }

  /** Extends `lease` on the beats of `heartbeat`, until the end of the block that is `using` it. One at a time. */
  attach(lease: HeldLease, heartbeat: Heartbeat): Disposable {
    if (this.#attached) throw new LeaseError("misuse", "this extender is attached to a lease already: detach it first");
    const inner = innerOf(lease);
    const { interval_ms, extension_ms, adaptive } = this.#given;
    const times = calibrate({ lease_ms: inner.lease_ms, interval_ms, extension_ms });
    const { onLost, onCancel, onFailure, enabled = true } = this.#options;
    this.#before = this.statistics();
    this.#inner = new LeaseExtender(managerOf(this.#manager), {
      clock: groundOf(this.#manager.queue).clock,
      interval_ms: times.interval_ms,
      extension_ms: times.extension_ms,
      adaptive,
      enabled,
      watch_end: true,
      onLost: (_lease, reason) => onLost?.(reason),
      onCancel: () => onCancel?.(),
      onFailure: (_lease, error, in_a_row) => onFailure?.(error, in_a_row),
    });
    this.#attached = true;
    const attached: Attached = this.#inner.attach(inner, heartbeat);
    return {
      [Symbol.dispose]: () => {
        this.#attached = false;
        attached();
      },
    };
  }

  /** Between two extensions, in milliseconds, as things are; null before it was attached. */
  get interval_ms(): number | null {
    return this.#inner?.interval_ms ?? null;
  }

  /** What it has asked for so far: attempts, and how they were answered. */
  statistics(): ExtensionCounts {
    const now = this.#inner?.counts ?? { attempts: 0, extended: 0, failures: 0, refusals: 0 };
    const { attempts, extended, failures, refusals } = this.#before;
    return {
      attempts: attempts + now.attempts,
      extended: extended + now.extended,
      failures: failures + now.failures,
      refusals: refusals + now.refusals,
    };
  }
}
