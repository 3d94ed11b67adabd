/** The queue as a program has it: what commands do, as methods. Each is the same code as the command of its name. */

import type { Clock, MachineTime, Random } from "../core/clock.ts";
import { LeaseError } from "../core/errors.ts";
import { isFinished, STATE_NAMES, type Job, type ShownState } from "../core/job.ts";
import type { Report } from "../core/report.ts";
import { AGE, choice, COUNT, NAME, SINCE, SWITCH } from "../core/values.ts";
import { around } from "../lookup/why_waiting.ts";
import { LogEnds, jobPages } from "../lookup/job_pages.ts";
import { overviewNow } from "../lookup/overview.ts";
import { betweenSteps, defined, FINISHED_STATES, idPages, nothingMatched } from "../lookup/selected.ts";
import { pruneAll } from "../recovery/housekeeping.ts";
import type { Traces } from "../observe/traced.ts";
import { SORTS, type Selection } from "../store/queries.ts";
import type { Enqueued, Store } from "../store/store.ts";
import type { CancelAnswer, EditAnswer } from "../store/queries.ts";
import type { RetryAnswer } from "../store/queries.ts";
import { attemptJson, checkpointJson, overviewJson } from "../view/json.ts";
import { toChanges, type CancelJobs, type JobEdits } from "./changes.ts";
import { inBatches, givenJob, newJobs } from "./enqueue.ts";
import { toQueueJob, type JobOptions, type QueueJob, type QueueJobDetail, type Untyped } from "./job.ts";
import { CANCEL_VALUES, optionsOf, readOptions, WAIT_VALUES } from "./options.ts";
import { logLines, type LogLine, type LogOptions } from "./log_lines.ts";
import { limitQueue, scheduleJobs, type LimitBound, type QueueLimit, type QueueSchedule } from "./plans.ts";
import type { ScheduleAction, ScheduleOptions } from "./plans.ts";
import { idOf, isOne, jobsMeant, queuesMeant, statesOf, type JobSelection, type ListOptions } from "./selection.ts";
import { QueueWorker, type Handler, type WorkerOptions } from "./worker.ts";

/** What a queue stands on; the parts that can be used alone stand on it too. */
export interface QueueGround {
  store: Store;
  /** What leads to the same store from any folder. */
  store_url: string;
  clock: Clock;
  random: Random;
  report: Report;
  /** By which jumps of the clock are told. */
  machine_time: () => MachineTime;
  traces: Traces;
}

/** What became of a job that was enqueued. */
export interface EnqueuedJob {
  /** Its id, or that of the live job that has its key. */
  id: number;
  /** False when a live job with the same key answered instead. */
  created: boolean;
}

/** What became of many. */
export interface EnqueuedJobs {
  /** How many are new. */
  created: number;
  /** Their ids, from–to, in the order of the jobs. */
  ranges: readonly (readonly [number, number])[];
}

/** What `prune` deletes: finished jobs that are old enough, of the states, queue and task that are named. */
export interface PruneOptions {
  older_than?: string;
  status?: (typeof FINISHED_STATES)[number] | readonly (typeof FINISHED_STATES)[number][];
  queue?: string;
  task?: string;
  /** Only count. */
  dry_run?: boolean;
}

/** What is going on: queues, workers, leases, retries, recovery and the latest failures. */
export type QueueOverview = ReturnType<typeof overviewJson>;

const SHOWN_STATES = [...STATE_NAMES, "cancelling", "retrying"] as const;
const LIST_VALUES = {
  queue: NAME,
  task: NAME,
  key: NAME,
  since: SINCE,
  limit: COUNT,
  sort: choice(SORTS),
  reverse: SWITCH,
} as const;
const PRUNE_VALUES = { older_than: AGE, queue: NAME, task: NAME, dry_run: SWITCH } as const;
const LIST_LIMIT = 20;
/** The net below the wake-ups. */
const LOOK_EVERY_MS = 500;

/**
 * A queue that is open, from `open(…)`.
 *
 * @example
 * ```ts
 * await using queue = await open("jobs.db");
 * const { id } = await queue.enqueue({ queue: "mail", input: { to: "a@b.example" } });
 * await using worker = queue.worker({ queue: "mail" }, async (job) => ({ sent: job.input.to }));
 * const job = await queue.wait(id);
 * console.log(job.state, job.output);
 * ```
 */
export class Queue implements AsyncDisposable {
  /** Where its store is, safe to print. */
  readonly location: string;
  readonly #ground: QueueGround;
  readonly #workers = new Set<QueueWorker>();
  readonly #watchers = new Set<() => void>();
  #closed: Promise<void> | null = null;

  /** Made by `open(…)`. */
  constructor(ground: QueueGround) {
    this.#ground = ground;
    this.location = ground.store.location;
    grounds.set(this, { ...ground, changed: () => this.#changed() });
  }

  get #store(): Store {
    if (this.#closed !== null) throw new LeaseError("misuse", "this queue is closed: open it again");
    return this.#ground.store;
  }

  /**
   * Adds a job, several (all or none), or as many as an async iterable has (all or none, seen by others at the end).
   * What was answered is on disk.
   */
  enqueue(job: JobOptions): Promise<EnqueuedJob>;
  enqueue(jobs: readonly JobOptions[]): Promise<EnqueuedJob[]>;
  enqueue(jobs: AsyncIterable<JobOptions>): Promise<EnqueuedJobs>;
  async enqueue(
    given: JobOptions | readonly JobOptions[] | AsyncIterable<JobOptions>,
  ): Promise<EnqueuedJob | EnqueuedJob[] | EnqueuedJobs> {
    const store = this.#store;
    const now_ms = () => this.#ground.clock.wall_ms();
    try {
      if (isAsyncIterable(given)) return await store.enqueueAll(inBatches(given, now_ms));
      if (Array.isArray(given)) {
        return (await store.enqueue(newJobs(given as readonly JobOptions[], now_ms))).map(toEnqueued);
      }
      const [queued] = await store.enqueue([givenJob(given as JobOptions, now_ms)]);
      return toEnqueued(queued as Enqueued);
    } finally {
      this.#changed();
    }
  }

  /**
   * Starts a worker that runs `handler` for each job of its queues, at once. Without a handler it runs the programs that
   * jobs name, like `lease worker`. With `isolate: true` the handler is the URL of a module.
   */
  worker<Input = Untyped, Output = unknown>(
    options: WorkerOptions,
    handler?: Handler<Input, Output> | URL,
  ): QueueWorker {
    const ground = { ...this.#ground, store: this.#store, changed: () => this.#changed() };
    const worker = new QueueWorker(options, handler ?? null, ground);
    this.#workers.add(worker);
    const gone = () => void this.#workers.delete(worker);
    worker.finished.then(gone, gone);
    return worker;
  }

  /** Ends jobs for good: those that wait at once, those that run are told to stop. */
  async cancel(jobs: JobSelection, options: CancelJobs = {}): Promise<CancelAnswer[]> {
    const { reason = null, grace = null, cascade = false } = readOptions(options, CANCEL_VALUES);
    return this.#change(jobs, "cancel", CANCELLABLE, (store, ids) => store.cancel(ids, reason, { grace, cascade }));
  }

  /** Changes jobs that wait, in what is named; one that was granted meanwhile stays as it is. */
  async edit(jobs: JobSelection, changes: JobEdits): Promise<EditAnswer[]> {
    const said = toChanges(changes, () => this.#ground.clock.wall_ms());
    return this.#change(jobs, "edit", WAITING, (store, ids) => store.edit(ids, said));
  }

  /** Runs finished jobs again, with all their retries. */
  async retry(jobs: JobSelection): Promise<RetryAnswer[]> {
    return this.#change(jobs, "retry", ["failed", "cancelled"], (store, ids) => store.retry(ids));
  }

  /**
   * Resolves with a job when it has ended, or with all that were named when all have; with `any`, when one has. Rejects
   * with `timed_out` after `timeout`.
   */
  wait(job: number | { id: number }, options?: { timeout?: string; any?: boolean }): Promise<QueueJob>;
  wait(jobs: JobSelection, options?: { timeout?: string; any?: boolean }): Promise<QueueJob[]>;
  async wait(jobs: JobSelection, options: { timeout?: string; any?: boolean } = {}): Promise<QueueJob | QueueJob[]> {
    const { timeout = null, any = false } = readOptions(options, WAIT_VALUES);
    const store = this.#store;
    const only = jobsMeant(jobs);
    const ids = only.ids ?? (await this.#idsOf("wait for", only, SHOWN_STATES));
    const ended = await this.#until(timeout, async () => {
      const found = await store.jobs(ids);
      const missing = ids.find((_, index) => found[index] === null);
      if (missing !== undefined) throw new LeaseError("no_such_job", `there is no job ${missing}`);
      const over = found.filter((job) => job !== null && isFinished(job.state)) as Job[];
      if (any ? over.length > 0 : over.length === ids.length) return over.map((job) => toQueueJob(job));
      return null;
    });
    return isOne(jobs) ? (ended[0] as QueueJob) : ended;
  }

  /**
   * What a job printed or logged, line by line; with `follow`, until it has ended. Of its newest attempt unless told.
   */
  logs(job: number | { id: number }, options: LogOptions = {}): AsyncGenerator<LogLine> {
    return logLines(this.#store, idOf(job), options, () => this.#nextChange());
  }

  /** Everything about a job, or, without one, what is going on. */
  inspect(): Promise<QueueOverview>;
  inspect(job: number | { id: number }): Promise<QueueJobDetail>;
  async inspect(job?: number | { id: number }): Promise<QueueOverview | QueueJobDetail> {
    const store = this.#store;
    const now_ms = await store.now();
    if (job === undefined) return overviewJson(await overviewNow(store, now_ms), now_ms);
    const [page] = await jobPages(store, [idOf(job)], now_ms, new LogEnds());
    if (!page) throw new LeaseError("no_such_job", `there is no job ${idOf(job)}`);
    return {
      ...toQueueJob(page.job, page.reason(now_ms)),
      history: page.attempts.map(attemptJson),
      checkpoints: page.checkpoints.map(checkpointJson),
    };
  }

  /** Jobs, the newest first, with why each is not running. */
  async list(options: ListOptions = {}): Promise<QueueJob[]> {
    const { status, ...rest } = optionsOf(options);
    const { queue, task, key, since, limit = LIST_LIMIT, sort, reverse = false } = readOptions(rest, LIST_VALUES);
    const states = statesOf(status, SHOWN_STATES);
    const store = this.#store;
    const now_ms = await store.now();
    const found = await store.list({
      ...defined({
        queues: queue === undefined ? undefined : [queue],
        task,
        key,
        states,
        since_ms: since?.(now_ms),
        sort,
      }),
      limit,
      newest_first: !reverse,
    });
    const { reason } = await around(store, found, now_ms);
    return found.map((job) => toQueueJob(job, reason(job, now_ms)));
  }

  /** Paused queues are not acquired from; what runs goes on. */
  async pause(...queues: readonly string[]): Promise<void> {
    await this.#store.setPaused(queuesMeant(queues), true);
  }

  /** Lets paused queues go on. */
  async resume(...queues: readonly string[]): Promise<void> {
    await this.#store.setPaused(queuesMeant(queues), false);
    this.#changed();
  }

  /**
   * Bounds how many jobs run, or start per time, across all workers: those of the queue of that name, and those that were
   * enqueued with that `limit`. `null` takes the bound away; without one it tells, of one or of all, what is in use.
   */
  limit(name?: string, bound?: LimitBound | null): Promise<QueueLimit[]> {
    return limitQueue({ ...this.#ground, store: this.#store }, name, bound).finally(() => this.#changed());
  }

  /**
   * Makes a job at each of these times, once per time, whoever looks first: `{ cron: "0 3 * * *", argv: [...] }`. Removes,
   * pauses, resumes a schedule that is there, or makes a job now; without a word it tells of it, or of all.
   */
  schedule(name?: string, what?: ScheduleOptions | ScheduleAction): Promise<QueueSchedule[]> {
    return scheduleJobs({ ...this.#ground, store: this.#store }, name, what).finally(() => this.#changed());
  }

  /** Deletes finished jobs, with all that belongs to them; nothing else ever does. */
  async prune(options: PruneOptions): Promise<{ found: number; deleted: number }> {
    const { status, ...rest } = optionsOf(options);
    const { older_than, queue, task, dry_run = false } = readOptions(rest, PRUNE_VALUES);
    if ([older_than, queue, task, status].every((given) => given === undefined)) {
      throw new LeaseError("usage", 'prune what? Say older_than: "30d", or status, queue or task');
    }
    const store = this.#store;
    const query = {
      older_than_ms: older_than ?? 0,
      states: statesOf(status, FINISHED_STATES) ?? FINISHED_STATES,
      ...defined({ queues: queue === undefined ? undefined : [queue], task }),
    };
    const found = (await store.prunable(query)).reduce((sum, { count }) => sum + count, 0);
    const deleted = dry_run ? 0 : await pruneAll(store, query, { most: found, stepped: betweenSteps });
    if (deleted > 0) await store.tidy();
    return { found, deleted };
  }

  /** Calls back when something may have changed, here or in another process; the returned function stops it. */
  watch(changed: () => void): () => void {
    const stop = this.#store.watch(changed);
    this.#watchers.add(changed);
    return () => {
      stop();
      this.#watchers.delete(changed);
    };
  }

  /** Stops its workers as `stop()` does, and closes the store. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  /** Closes it as `close()` does. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    const { store, traces } = this.#ground;
    await Promise.allSettled([...this.#workers].map((worker) => worker.stop()));
    await traces.end();
    await store.close();
  }

  /** The store tells of others only: who is here is told here. */
  #changed(): void {
    for (const worker of this.#workers) worker.wake();
    for (const changed of this.#watchers) changed();
  }

  #nextChange(): { happened: Promise<void>; stop: () => void } {
    const { promise, resolve } = Promise.withResolvers<void>();
    const stopWatching = this.watch(resolve);
    const cancel = this.#ground.clock.after(LOOK_EVERY_MS, resolve);
    return {
      happened: promise,
      stop: () => {
        stopWatching();
        cancel();
      },
    };
  }

  async #until<T>(timeout_ms: number | null, look: () => Promise<T | null>): Promise<T> {
    const { clock } = this.#ground;
    const deadline_ms = timeout_ms === null ? Infinity : clock.mono_ms() + timeout_ms;
    for (;;) {
      const changed = this.#nextChange();
      try {
        const found = await look();
        if (found !== null) return found;
        if (clock.mono_ms() >= deadline_ms) throw new LeaseError("timed_out", "the jobs have not ended in time");
        const late = Promise.withResolvers<void>();
        const cancel = timeout_ms === null ? null : clock.after(deadline_ms - clock.mono_ms(), late.resolve);
        await Promise.race([changed.happened, late.promise]);
        cancel?.();
      } finally {
        changed.stop();
      }
    }
  }

  async #idsOf(verb: string, only: Selection, states: readonly ShownState[]): Promise<number[]> {
    const all: number[] = [];
    for await (const ids of idPages(this.#store, verb, only, states)) all.push(...ids);
    return all;
  }

  async #change<A>(
    jobs: JobSelection,
    verb: string,
    states: readonly ShownState[],
    change: (store: Store, ids: readonly number[]) => Promise<A[]>,
  ): Promise<A[]> {
    const store = this.#store;
    const only = jobsMeant(jobs);
    const answers: A[] = [];
    for await (const ids of idPages(store, verb, only, states, { changing: true }))
      answers.push(...(await change(store, ids)));
    if (answers.length === 0) throw await nothingMatched(store, verb, only);
    this.#changed();
    return answers;
  }
}

/** `changed` tells whoever waits or works here. */
type PartsGround = QueueGround & { changed: () => void };

const grounds = new WeakMap<Queue, PartsGround>();

/** For the parts that stand on a queue. */
export function groundOf(queue: Queue): PartsGround {
  const ground = grounds.get(queue);
  if (ground === undefined) throw new LeaseError("usage", "this is no queue: make one with open(…)");
  return ground;
}

const WAITING = ["blocked", "scheduled", "retrying", "pending"] as const;
const CANCELLABLE = ["blocked", "scheduled", "retrying", "pending", "running"] as const;

function toEnqueued({ id, created }: Enqueued): EnqueuedJob {
  return { id, created };
}

function isAsyncIterable(given: unknown): given is AsyncIterable<JobOptions> {
  return typeof given === "object" && given !== null && Symbol.asyncIterator in given;
}
