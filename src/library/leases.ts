/** Leases by hand: acquired, renewed and released one by one, by the manager that workers use. */

import { calibrate } from "../core/calibration.ts";
import { LeaseError } from "../core/errors.ts";
import { COUNT, DURATION, LEASE, NAME } from "../core/values.ts";
import type { AttemptEnd } from "../core/transition.ts";
import type { Lease } from "../leasing/lease.ts";
import { LeaseManager } from "../leasing/manager.ts";
import { host, ownIdentity } from "../platform/machine.ts";
import { outputText } from "../runner/handler.ts";
import { toHandlerJob, type HandlerJob, type Untyped } from "./job.ts";
import { readOptions } from "./options.ts";
import { groundOf, type Queue } from "./queue.ts";

const DEFAULT_LEASE_MS = 300_000;

/** A lease that was acquired by hand. */
export interface HeldLease<Input = Untyped> {
  /** The job that it is for. */
  readonly job: HandlerJob<Input>;
  /** Rises by one with every grant of the job. */
  readonly token: number;
  /** Until when it is held, as the store wrote it; RFC 3339. */
  readonly expires_at: string;
  /** How much longer its holder may act, in milliseconds; zero or less: not at all. */
  remaining(): number;
  /** Somebody wants the job to end; known after the next renewal. */
  readonly cancel_requested: boolean;
}

class Held implements HeldLease {
  readonly job: HandlerJob;
  readonly lease: Lease;

  constructor(lease: Lease) {
    this.lease = lease;
    this.job = toHandlerJob(lease.job, lease.grant.checkpoint);
  }

  get token(): number {
    return this.lease.token;
  }

  get expires_at(): string {
    return new Date(this.lease.expires_at_ms).toISOString();
  }

  get cancel_requested(): boolean {
    return this.lease.cancel_requested;
  }

  remaining(): number {
    return this.lease.remaining();
  }
}

export function innerOf(lease: HeldLease): Lease {
  if (lease instanceof Held) return lease.lease;
  throw new LeaseError("usage", "this is no lease: acquire one with a LeaseManager");
}

/** How a lease ends. */
export interface ReleaseOutcome {
  /** False unless told: the job is tried again by its policy. */
  success?: boolean;
  /** The job's result. */
  output?: unknown;
  /** What went wrong, for people. */
  error?: string;
}

const ACQUIRE_VALUES = { queue: NAME, task: NAME, lease: LEASE, job: COUNT } as const;

/**
 * Leases by hand: acquire one, renew it, release it.
 *
 * @example
 * ```ts
 * const manager = new LeaseManager(queue);
 * const lease = await manager.acquire({ queue: "mail", lease: "5m" });
 * if (lease !== null) {
 *   await manager.renew(lease);
 *   await manager.release(lease, { success: true, output: { sent: 1 } });
 * }
 * ```
 */
export class QueueLeaseManager {
  /** Who holds the leases. */
  readonly worker_id: string;
  readonly #queue: Queue;
  readonly #inner: LeaseManager;

  /** `worker_id` is one of its own unless told. */
  constructor(queue: Queue, worker_id?: string) {
    const { store, clock, random } = groundOf(queue);
    this.#queue = queue;
    const nonce = Math.floor(random() * 36 ** 6).toString(36);
    this.worker_id = worker_id ?? `${host}.${ownIdentity().pid}.${nonce}`;
    const options = { store, clock, random, host, worker_id: this.worker_id, lease_ms: DEFAULT_LEASE_MS };
    this.#inner = new LeaseManager(options);
    managers.set(this, this.#inner);
  }

  /**
   * A lease on the job whose turn it is, of a queue and a task or of any, or on that `job` and no other; null: there is
   * none that waits. `lease` is how long it is held for where the job sets nothing itself; `"5m"` unless told.
   */
  async acquire<Input = Untyped>(
    options: { queue?: string; task?: string; lease?: string; job?: number } = {},
  ): Promise<HeldLease<Input> | null> {
    const { queue, task = null, lease = DEFAULT_LEASE_MS, job } = readOptions(options, ACQUIRE_VALUES);
    const lease_ms = lease === "auto" ? 0 : calibrate({ lease_ms: lease }).lease_ms;
    const queues = queue === undefined ? null : [queue];
    const only = job === undefined ? {} : { job };
    const [granted] = await this.#inner.acquire({ queues, task, lease_ms, ...only });
    return granted === undefined ? null : new Held(granted);
  }

  /** Extends the lease from now on: by what it was granted for, unless told. Says why not: over, or somebody else's. */
  async renew(lease: HeldLease, options: { lease?: string } = {}): Promise<"extended" | "expired" | "conflict"> {
    const inner = innerOf(lease);
    const { lease: expires_in_ms = inner.lease_ms } = readOptions(options, { lease: DURATION });
    return (await this.#inner.renew(inner, { expires_in_ms, beat_age_ms: 0, beats: 1 })).status;
  }

  /**
   * Ends the attempt: the job has completed, or is tried again, or has failed for good. Answers the job's state then, or
   * `stale` when it is somebody else's by now: the result is kept as a checkpoint only.
   */
  async release(lease: HeldLease, outcome: ReleaseOutcome = {}): Promise<string> {
    const { success = false, output, error = success ? null : "released without success" } = outcome;
    const text = outputText(output);
    const cause = success ? "success" : "error";
    const end = { cause, exit_code: null, signal: null, error, output: text, last_line: null, beats: 0 } as const;
    return this.#end(lease, end);
  }

  /** Gives the job back: it is pending again, and that counts as no attempt. */
  async giveBack(lease: HeldLease): Promise<string> {
    const nothing = { exit_code: null, signal: null, error: "returned to the queue", output: null, last_line: null };
    return this.#end(lease, { cause: "returned", ...nothing, beats: 0 });
  }

  async #end(lease: HeldLease, end: AttemptEnd): Promise<string> {
    const release = await this.#inner.release(innerOf(lease), { end });
    groundOf(this.#queue).changed();
    return release.status === "applied" ? release.change.state.name : "stale";
  }

  /** The queue that it is of. */
  get queue(): Queue {
    return this.#queue;
  }
}

const managers = new WeakMap<QueueLeaseManager, LeaseManager>();

export function managerOf(manager: QueueLeaseManager): LeaseManager {
  const inner = managers.get(manager);
  if (inner === undefined)
    throw new LeaseError("usage", "this is no LeaseManager: make one with new LeaseManager(queue)");
  return inner;
}
