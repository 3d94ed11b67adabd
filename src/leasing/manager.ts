/**
 * Acquires, renews and releases leases for one worker. Core decides what a release means; the store writes it under
 * the lease's token.
 */

import type { Clock, Random } from "../core/clock.ts";
import { assert } from "../core/errors.ts";
import { hookOf } from "../core/hook.ts";
import type { NewJob } from "../core/job.ts";
import type { Gaps } from "../core/learning.ts";
import type { Resources } from "../core/resources.ts";
import type { ProcessIdentity } from "../core/records.ts";
import { isRefusal, transition } from "../core/transition.ts";
import type { AttemptEnd, Change } from "../core/transition.ts";
import type { Acquirer, Enqueued, EnqueueOptions, ExtendAnswer, Grant, Store } from "../store/store.ts";
import { instant, Lease, type Instant } from "./lease.ts";

export interface LeaseManagerOptions {
  store: Store;
  worker_id: string;
  host: string;
  clock: Clock;
  random: Random;
  /** For jobs that set none; zero: learned. */
  lease_ms: number;
  /** What this machine has, for jobs that need any of it. */
  have?: Resources;
}

export interface AcquireOptions {
  count?: number;
  /** Of these, so many start at once; all, unless told. */
  at_once?: number;
  queues?: readonly string[] | null;
  task?: string | null;
  commands_only?: boolean;
  /** For a job that sets none, instead of what the manager was made with. */
  lease_ms?: number;
  /** This job and no other. */
  job?: number;
}

export interface RenewOptions {
  /** From the beat on, or from now when it is not for a beat. */
  expires_in_ms: number;
  beat_age_ms: number | null;
  beats: number;
  /** What another extension has got is kept if it is later. */
  at_least?: boolean;
  /** The write may wait so long for others to share a commit with. */
  within_ms?: number;
  /** What the job says about itself; absent: nothing new. */
  progress?: number | null;
  message?: string | null;
  /** Extensions that could not be written so far. */
  failures?: number;
}

export interface ReleaseOptions {
  end: AttemptEnd;
  process?: ProcessIdentity | null;
  last_lines?: readonly string[];
  /** When its program was over, by the store's clock; now, if not given. */
  ended_at_ms?: number;
  /** The write may wait so long for others to share a commit with. */
  within_ms?: number;
  gaps?: Gaps | null;
}

export type Release =
  | { status: "applied"; change: Change; /** By the store's clock. */ decided_at_ms: number }
  | { status: "stale"; reason: "expired" | "conflict" };

/** A jump of the store's clock is seen that soon; to ask for each of many short jobs would take a round trip more. */
const CLOCK_WITHIN_MS = 250;

export class LeaseManager {
  readonly store: Store;
  readonly worker_id: string;
  readonly #options: LeaseManagerOptions;

  constructor(options: LeaseManagerOptions) {
    this.store = options.store;
    this.worker_id = options.worker_id;
    this.#options = options;
  }

  async acquire(wanted: AcquireOptions = {}): Promise<Lease[]> {
    const sent = instant(this.#options.clock);
    const grants = await this.store.acquire({
      ...this.#acquirer,
      count: wanted.count ?? 1,
      queues: wanted.queues ?? null,
      task: wanted.task ?? null,
      commands_only: wanted.commands_only ?? false,
      ...(wanted.lease_ms === undefined ? {} : { lease_ms: wanted.lease_ms }),
      ...(wanted.at_once === undefined ? {} : { at_once: wanted.at_once }),
      ...(wanted.job === undefined ? {} : { job: wanted.job }),
    });
    return grants.map((grant) => this.#lease(grant, sent));
  }

  /** Queues a job that nobody else can acquire before us. Null: it can't start yet, or a live one answered for it. */
  async enqueue(job: NewJob, options: EnqueueOptions = {}): Promise<Enqueued & { lease: Lease | null }> {
    const sent = instant(this.#options.clock);
    const [queued] = await this.store.enqueue([job], { ...options, acquire: this.#acquirer });
    assert(queued !== undefined, "a store answers every request");
    return { ...queued, lease: queued.grant ? this.#lease(queued.grant, sent) : null };
  }

  get #acquirer(): Acquirer {
    const { host, lease_ms, have } = this.#options;
    return { holder: this.worker_id, host, lease_ms, ...(have === undefined ? {} : { have }) };
  }

  #lease(grant: Grant, sent: Instant): Lease {
    return new Lease(grant, sent, this.#options.clock, this.store.shares_clock);
  }

  async renew(lease: Lease, options: RenewOptions): Promise<ExtendAnswer> {
    const sent = instant(this.#options.clock);
    const { job, token } = lease;
    const { within_ms = 0, ...asked } = options;
    const request = { id: job.id, token, ...asked, jumped_ms: lease.jumped() };
    const [answer] = await this.store.extend([request], { within_ms });
    assert(answer !== undefined, "a store answers every request");
    if (answer.status === "extended") {
      lease.extended(sent, options.expires_in_ms - (options.beat_age_ms ?? 0), answer.expires_at_ms);
      lease.cancel_requested ||= answer.cancel_requested;
    }
    return answer;
  }

  /** Ends the attempt. `stale` when the job is somebody else's by now: the result is kept as a checkpoint only. */
  async release(lease: Lease, options: ReleaseOptions): Promise<Release> {
    // Whether it was asked to stop in time is for the store to say, which knows when that was.
    for (let asked = false; ; asked = true) {
      // What is written into the store is told by its clock, which need not be ours.
      const { store } = this;
      const decided_at_ms = store.shares_clock
        ? this.#options.clock.wall_ms()
        : await store.now({ within_ms: CLOCK_WITHIN_MS });
      const change = this.#decide(lease, options.end, decided_at_ms, asked);
      const audit = this.#audit(lease, options);
      const request = {
        id: lease.job.id,
        token: lease.token,
        change,
        ...(options.ended_at_ms === undefined ? {} : { ended_at_ms: options.ended_at_ms }),
        process: options.process ?? null,
        gaps: options.gaps ?? null,
        audit: isWorthAuditing(change.ended) ? audit : null,
        late: audit,
        hook: hookOf(lease.job, change, options.last_lines ?? []),
      };
      const [answer] = await this.store.settle([request], { within_ms: options.within_ms ?? 0 });
      assert(answer !== undefined, "a store answers every request");
      if (answer.status === "applied") return { status: "applied", change, decided_at_ms };
      if (answer.status === "stale") return answer;
      lease.cancel_requested = true;
    }
  }

  #decide(lease: Lease, end: AttemptEnd, now_ms: number, asked: boolean): Change {
    const { job } = lease;
    assert(job.state.name === "running", "a granted job runs");
    const cancel_requested_at_ms = asked ? now_ms : null;
    const as_known = job.state.cancel_requested_at_ms === cancel_requested_at_ms;
    const subject = as_known ? job : { ...job, state: { ...job.state, cancel_requested_at_ms } };
    const event = { type: "settle", token: lease.token, end } as const;
    const change = transition(subject, event, { now_ms, random: this.#options.random });
    assert(!isRefusal(change), "a running job can be settled");
    return change;
  }

  #audit(lease: Lease, options: ReleaseOptions) {
    return {
      holder: this.worker_id,
      host: this.#options.host,
      last_lines: options.last_lines ?? [],
      granted_at_ms: lease.job.started_at_ms,
      expires_at_ms: lease.expires_at_ms,
      ended_at_ms: options.ended_at_ms ?? null,
    };
  }
}

/** Success needs no trail, and neither does what people asked for. */
function isWorthAuditing(end: AttemptEnd): boolean {
  return end.cause !== "success" && end.cause !== "returned" && end.cause !== "cancelled";
}
