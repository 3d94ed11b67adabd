/** A worker of the library: a pool that runs a handler of this program, or the programs that jobs name. */

import { calibrate, DEFAULT_KILL_GRACE_MS } from "../core/calibration.ts";
import type { Clock, MachineTime, Random } from "../core/clock.ts";
import { checkName } from "../core/check_job.ts";
import { LeaseError } from "../core/errors.ts";
import { haveOf } from "../core/plan_values.ts";
import type { Resources } from "../core/resources.ts";
import { DEFAULT_QUEUE } from "../core/job.ts";
import { UNLEARNED_LEASE_MS } from "../core/learning.ts";
import type { Report } from "../core/report.ts";
import { scalingOf } from "../core/scaling.ts";
import { VERSION } from "../platform/build_info.ts";
import type { Traces } from "../observe/traced.ts";
import type { Store } from "../store/store.ts";
import type { Handling } from "../worker/in_process.ts";
import { WorkerPool } from "../worker/pool.ts";
import type { PoolStatistics } from "../worker/pool_statistics.ts";
import { Isolate, loadHandler } from "./isolate.ts";
import { toHandlerJob, type HandlerJob, type Untyped } from "./job.ts";
import { readOptions, STOP_VALUES, WORKER_VALUES } from "./options.ts";

/** Options of a worker: names, values and defaults of `lease worker`'s flags. Times are texts such as `"30s"`. */
export interface WorkerOptions {
  /** The queue to serve, or several in order of preference; `"*"` for all. `default` unless told. */
  queue?: string | readonly string[];
  /** Only jobs with this label. */
  task?: string;
  /** Jobs to run at a time; 1 unless told. */
  slots?: number;
  /** Fewest slots, when their number follows the work. */
  min?: number;
  /** Most slots. */
  max?: number;
  /** Waiting jobs that add a slot; 5 unless told. */
  scale_up_at?: number;
  /** Idle time that removes one; `"5m"` unless told. */
  scale_down_after?: string;
  /** What this machine has for jobs that need any of it: `["gpu=0,1", "mem=32G"]`. `lease.held` tells what a job got. */
  have?: string | readonly string[];
  /** Name to show in lists. */
  name?: string;
  /** Also keep whole logs of programs there, as plain files. */
  log_dir?: string;
  /** Return a running job when one more urgent by 100 or more waits. */
  preempt?: boolean;
  /** Look for jobs at least this often; `"1s"` unless told. */
  poll?: string;
  /** Recover what dead workers left behind; so it is unless told. */
  sweep?: boolean;
  /** End after one job. */
  once?: boolean;
  /** End when nothing is left to do. */
  until_empty?: boolean;
  /** End after so many jobs. */
  max_jobs?: number;
  /** Time for running jobs to end when the worker is stopped; `"30s"` unless told. */
  drain?: string;
  /** Between telling a job to stop and giving it up; `"10s"` unless told. `"never"` is for cancels only. */
  grace?: string;
  /** Silence that counts as hung, for jobs that set none; `"5m"` unless told, `"auto"` learns it. */
  lease?: string;
  /** At most one extension of a lease per interval; a tenth of the extension unless told. */
  interval?: string;
  /** What a beat adds to a lease, at most the lease; all of it unless told. */
  extension?: string;
  /** What proves work, for jobs that set none: `output` (each line of `log`, and `beat()`) unless told. */
  beat?: "output" | "stdout" | "timer" | "manual";
  /** Run the handler in a thread of its own per slot, which is ended when a job does not stop. */
  isolate?: boolean;
}

/** The lease that a handler works under. */
export interface LeaseView {
  /** Rises by one with every grant of the job: what a system that is written to can fence with. */
  readonly token: number;
  /** What of the machine the job was given, of what it needs: ids, or an amount. */
  readonly held: Resources;
  /** The trace that the job belongs to, as W3C's trace context spells it, to be handed on; null: none. */
  readonly traceparent: string | null;
}

/** What a handler is given beside the job. Each of it may be taken out and used by itself. */
export interface HandlerContext {
  /** The job works: a handler without a beat for the length of its lease is stopped as silent. */
  beat(): void;
  /** How far it is, in percent, and what it is doing; a beat too. */
  progress(percent: number, message?: string): void;
  /** Notes how far it is; the next attempt finds it in `job.checkpoint`. Resolves when that is on disk. */
  checkpoint(value: unknown): Promise<void>;
  /** Aborts on cancel, silence, timeout, a lost lease and drain. `signal.reason.cause` says which. */
  readonly signal: AbortSignal;
  /** A line in the job's log; a beat too. */
  log(...words: readonly unknown[]): void;
  /** The lease that it works under. */
  readonly lease: LeaseView;
}

/**
 * Runs one job. What it returns is the job's output. A throw is a failed attempt, retried by the job's policy unless it
 * is a `NoRetry`.
 */
export type Handler<Input = Untyped, Output = unknown> = (
  job: HandlerJob<Input>,
  context: HandlerContext,
) => Output | Promise<Output>;

/** What a worker stands on. */
export interface WorkerGround {
  store: Store;
  store_url: string;
  clock: Clock;
  random: Random;
  report: Report;
  machine_time: () => MachineTime;
  /** A retry that has to wait does not keep it from being empty. */
  due_only?: boolean;
  /** Something of this worker has changed in the store. */
  changed: () => void;
  traces: Traces;
}

const SHORTEST_POLL_MS = 10;
const DRAIN_MS = 30_000;
/** Nobody waits for the extension of a beat: those of many jobs share a commit. */
const EXTEND_WITHIN_MS = 20;

/**
 * A worker that is at work, from `queue.worker(…)`.
 *
 * @example
 * ```ts
 * await using worker = queue.worker({ queue: "mail", until_empty: true }, async (job) => job.input.to);
 * await worker.finished;
 * ```
 */
export class QueueWorker implements AsyncDisposable {
  /** Resolves when it has ended and everything is written; rejects when the store can't be reached any more. */
  readonly finished: Promise<void>;
  readonly #pool: WorkerPool;
  readonly #drain_ms: number;

  /** Made by `queue.worker(…)`. */
  constructor(options: WorkerOptions, handler: Handler | URL | null, ground: WorkerGround) {
    const { drain = DRAIN_MS, isolate = false, ...read } = readOptions(options, WORKER_VALUES);
    const isolated = isolate ? new Isolate(moduleOf(handler)) : null;
    const handling = isolated?.handling ?? handlingOf(handler, ground.traces);
    this.#drain_ms = drain;
    this.#pool = new WorkerPool(poolOptions(read, handling, ground));
    const begun = this.#pool.start().catch((error: unknown) => {
      this.#pool.abort();
      throw error;
    });
    this.finished = begun
      .then(() => this.#pool.finished)
      .finally(() => {
        isolated?.end();
        ground.changed();
      });
    // Who disposes of it, or waits for it, hears of it.
    this.finished.catch(() => {});
  }

  /** Its id in the store. */
  get id(): string {
    return this.#pool.worker_id;
  }

  /** Takes no more jobs, gives the running ones `drain` to end, then returns them to the queue. */
  stop(options: { drain?: string } = {}): Promise<void> {
    const { drain = this.#drain_ms } = readOptions(options, STOP_VALUES);
    this.#pool.stop(drain);
    return this.finished;
  }

  /** Tells running jobs to stop, and returns them to the queue without waiting for them. */
  abort(): Promise<void> {
    this.#pool.abort();
    return this.finished;
  }

  /** What it does and has done, by slots and in all. */
  statistics(): PoolStatistics {
    return this.#pool.statistics();
  }

  /** Looks for jobs now. */
  wake(): void {
    this.#pool.wake();
  }

  /** Stops it as `stop()` does. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

type Read = Omit<ReturnType<typeof readOptions<typeof WORKER_VALUES>>, "drain" | "isolate">;

function poolOptions(read: Read, handling: Handling | null, ground: WorkerGround) {
  const { lease = null, interval = null, extension = null, queue = [DEFAULT_QUEUE], poll = 1_000, once = false } = read;
  for (const name of queue) checkName("queue", name);
  const learn = lease === "auto";
  const { store, store_url, clock, random, report, machine_time, changed, due_only = false } = ground;
  return {
    store,
    store_url,
    clock,
    random,
    report,
    machine_time,
    version: VERSION,
    queues: queue.includes("*") ? null : queue,
    task: read.task ?? null,
    commands_only: handling === null,
    name: read.name ?? null,
    have: haveOf(read.have ?? [], "have"),
    slots: read.slots ?? 1,
    scaling: scalingOf(read, (option) => option),
    times: calibrate({ lease_ms: learn ? UNLEARNED_LEASE_MS : lease, interval_ms: interval, extension_ms: extension }),
    learn,
    beat: read.beat ?? ("output" as const),
    kill_grace_ms: read.grace === undefined ? DEFAULT_KILL_GRACE_MS : read.grace,
    poll_ms: Math.max(SHORTEST_POLL_MS, poll),
    sweep: read.sweep ?? true,
    log_dir: read.log_dir ?? null,
    preempt: read.preempt ?? false,
    due_only,
    until_empty: read.until_empty === true || once,
    max_jobs: once ? 1 : (read.max_jobs ?? null),
    extend_within_ms: EXTEND_WITHIN_MS,
    tells_beats: ground.traces.on,
    ...(handling === null ? {} : { handling }),
    onSettled: oncePerTurn(changed),
  };
}

/** A commit settles many jobs: what it has changed is told once. */
function oncePerTurn(tell: () => void): () => void {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    queueMicrotask(() => {
      asked = false;
      tell();
    });
  };
}

function handlingOf(handler: Handler | URL | null, traces: Traces): Handling | null {
  if (handler === null) return null;
  const call = (called: Handler, tools: HandlerToolsOf) =>
    traces.within(tools.lease.traceparent, () => callHandler(called, tools));
  if (handler instanceof URL) {
    return { run: async (tools) => call((await loadHandler(handler)) as Handler, tools) };
  }
  if (typeof handler === "function") return { run: (tools) => call(handler, tools) };
  throw new LeaseError("usage", `a handler is a function (job, context) => …, or the URL of a module that exports one`);
}

function callHandler(handler: Handler, tools: HandlerToolsOf): unknown {
  const { lease } = tools;
  return handler(toHandlerJob(lease.job, lease.grant.checkpoint), tools);
}

type HandlerToolsOf = Parameters<Handling["run"]>[0];

function moduleOf(handler: Handler | URL | null): URL {
  if (handler instanceof URL) return handler;
  const advice = 'pass new URL("./handler.ts", import.meta.url), whose default export is the function';
  throw new LeaseError("usage", `isolate runs the handler in another thread, where a function can't go: ${advice}`);
}
