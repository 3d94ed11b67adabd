/**
 * What an engine brings to be tested, and the store's verbs in the short form in which the suite speaks.
 *
 * The suite never touches a clock: time passes by `passTime`, and a time is compared with `sameTime`, which an engine
 * with a clock of its own may miss by `slack_ms`.
 */

import { expect, test } from "bun:test";
import { LeaseError } from "../../src/core/errors.ts";
import type { Job, StateName } from "../../src/core/job.ts";
import { isRefusal, transition, type AttemptEnd, type Change, type JobEvent } from "../../src/core/transition.ts";
import type {
  AcquireRequest,
  Audit,
  Grant,
  RecoverRequest,
  SettleAnswer,
  SettleRequest,
  Store,
} from "../../src/store/store.ts";
import { end, newJob, type JobOverrides } from "../support/jobs.ts";

export interface Opened {
  store: Store;
  passTime(ms: number): Promise<void>;
  /** Sets the clock, forwards or back, without time passing; null where the engine has one that nobody can set. */
  jumpTime: ((ms: number) => void) | null;
  /** Zero where the test owns the clock. */
  slack_ms: number;
  /** What somebody does with a client of the database; `lease.` stands before the names of tables. */
  tamper(sql: string): Promise<void>;
  /** A further handle on the same data, as another process would have it. */
  reopen(): Promise<Store>;
  /** Closes every handle and removes the data. */
  dispose(): Promise<void>;
}

export type OpenStore = () => Promise<Opened>;

/** Each test gets a store of its own. */
export type StoreTest = (title: string, body: (s: Subject) => Promise<void>) => void;

export function storeTest(open: OpenStore): StoreTest {
  return (title, body) => {
    test(title, async () => {
      const opened = await open();
      try {
        const subject = new Subject(opened);
        await body(subject);
        if (subject.is_untouched) expect(await breaches(await opened.reopen())).toEqual([]);
      } finally {
        await opened.dispose();
      }
    });
  };
}

/** What the store's own history shows against what is promised. */
export async function breaches(store: Store): Promise<string[]> {
  const broken = (await store.audit()).filter(({ explained_by }) => explained_by === undefined);
  return broken.flatMap(({ name, broken: found }) => found.map(({ job, text }) => `${name}: job ${job}: ${text}`));
}

export const LEASE_MS = 60_000;

export class Subject {
  readonly store: Store;
  readonly slack_ms: number;
  readonly #opened: Opened;
  /** Nobody wrote past the store, or set its clock back: its history must keep every promise. */
  is_untouched = true;

  constructor(opened: Opened) {
    this.#opened = opened;
    this.store = opened.store;
    this.slack_ms = opened.slack_ms;
  }

  passTime(ms: number): Promise<void> {
    return this.#opened.passTime(ms);
  }

  tamper(sql: string): Promise<void> {
    this.is_untouched = false;
    return this.#opened.tamper(sql);
  }

  reopen(): Promise<Store> {
    return this.#opened.reopen();
  }

  sameTime(actual_ms: number | null, expected_ms: number): void {
    expect(actual_ms).not.toBeNull();
    expect(actual_ms).toBeGreaterThanOrEqual(expected_ms);
    expect(actual_ms).toBeLessThanOrEqual(expected_ms + this.slack_ms);
  }

  async enqueue(...jobs: JobOverrides[]): Promise<number[]> {
    return (await this.store.enqueue(jobs.map(newJob))).map(({ id }) => id);
  }

  async enqueueOne(job: JobOverrides = {}): Promise<number> {
    return only(await this.enqueue(job));
  }

  acquire(request: Partial<AcquireRequest> = {}): Promise<Grant[]> {
    return this.store.acquire(acquireRequest(request));
  }

  async acquireIds(request: Partial<AcquireRequest> = {}): Promise<number[]> {
    return (await this.acquire(request)).map(({ job }) => job.id);
  }

  /** Enqueues a job and grants it; nothing else may be pending. */
  async granted(job: JobOverrides = {}, request: Partial<AcquireRequest> = {}): Promise<Grant> {
    const id = await this.enqueueOne(job);
    const grant = only(await this.acquire(request));
    expect(grant.job.id).toBe(id);
    return grant;
  }

  async job(id: number): Promise<Job> {
    const job = only(await this.store.jobs([id]));
    if (job === null) throw new Error(`there is no job ${id}`);
    return job;
  }

  async stateOf(id: number): Promise<StateName> {
    return (await this.job(id)).state.name;
  }

  /** What core says about the job as its holder knows it. */
  async decide(job: Job, event: JobEvent): Promise<Change> {
    const answer = transition(job, event, { now_ms: await this.store.now(), random: () => 0.5 });
    if (isRefusal(answer)) throw new Error(`core refused to ${event.type}: ${answer.refused}`);
    return answer;
  }

  /** What a worker would ask for that has heard nothing since it was granted the job. */
  async ending(job: Job, attempt: AttemptEnd, more: Partial<SettleRequest> = {}): Promise<SettleRequest> {
    const change = await this.decide(job, { type: "settle", token: job.token, end: attempt });
    return { id: job.id, token: job.token, change, process: null, audit: null, ...more };
  }

  async settle(
    { job }: Grant,
    attempt: AttemptEnd = end("success"),
    audited: Audit | null = null,
  ): Promise<SettleAnswer> {
    return only(await this.store.settle([await this.ending(job, attempt, { audit: audited })]));
  }

  /** A job that has ended in the state given. */
  async finished(name: "completed" | "failed" | "cancelled", job: JobOverrides = {}): Promise<number> {
    const grant = await this.granted({ ...job, settings: { ...job.settings, retries: 0 } });
    const cause = ({ completed: "success", failed: "exit", cancelled: "cancelled" } as const)[name];
    expect(await this.settle(grant, end(cause))).toEqual({ status: "applied" });
    return grant.job.id;
  }

  /** What a sweep would ask for, having read the job as it is now. */
  async recovery(
    id: number,
    cause: "expired" | "lost" = "expired",
    audited: Audit | null = null,
  ): Promise<RecoverRequest> {
    const job = await this.job(id);
    if (job.state.name !== "running") throw new Error(`job ${id} is ${job.state.name}`);
    const change = await this.decide(job, { type: "recover", cause, grace_ms: 0 });
    return { id, token: job.token, change, process: null, audit: audited, expires_at_ms: job.state.expires_at_ms };
  }
}

export function acquireRequest(overrides: Partial<AcquireRequest> = {}): AcquireRequest {
  return { holder: "w1", host: "h1", count: 1, queues: null, task: null, lease_ms: LEASE_MS, ...overrides };
}

export function audit(overrides: Partial<Audit> = {}): Audit {
  return { holder: "w1", host: "h1", last_lines: [], granted_at_ms: null, expires_at_ms: null, ...overrides };
}

/** The one element of a list that must have exactly one. */
export function only<T>(list: readonly T[]): T {
  expect(list).toHaveLength(1);
  return list[0] as T;
}

/** The code of the LeaseError with which something must fail. */
export async function codeOf(failing: Promise<unknown>): Promise<string> {
  const error = await failing.then(
    () => null,
    (reason: unknown) => reason,
  );
  if (error instanceof LeaseError) return error.code;
  throw new Error(`expected a LeaseError, got ${String(error)}`);
}
