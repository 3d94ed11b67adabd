/**
 * The JSON that every command prints: flat objects, snake_case, RFC 3339 times in UTC, absent values null. The names
 * are a promise to scripts: adding one is fine, changing or removing one needs a new SCHEMA.
 */

import { isFinished, retriesLeft, shownState, STATE_NAMES, type Job, type StateName } from "../core/job.ts";
import type { Attempt, Checkpoint, RecoveryTotals } from "../core/records.ts";
import type { Overview, QueueSummary } from "./overview.ts";
import { visibleJson } from "./text.ts";
import { rfc3339 } from "./time.ts";
import { workerState, type WorkerRow } from "./workers.ts";

const SCHEMA = 1;

/** `reason` is what `reasonOf` found, where somebody looked; else what the job itself carries. */
export function jobJson(job: Job, reason: string | null = job.reason) {
  const { state } = job;
  const running = state.name === "running" ? state : null;
  const waiting = state.name === "scheduled" || state.name === "pending" ? state : job;
  return {
    schema: SCHEMA,
    id: job.id,
    state: shownState(job),
    queue: job.queue,
    task: job.task,
    key: job.key,
    priority: job.priority,
    argv: job.argv,
    input: job.input === null ? null : bytesText(job.input),
    cwd: job.cwd,
    retries: job.settings.retries,
    attempts: job.token,
    retries_left: retriesLeft(job),
    token: job.token,
    holder: running?.holder ?? null,
    expires_at: time(running?.expires_at_ms),
    last_beat_at: time(job.last_beat_at_ms),
    progress: job.progress,
    message: job.message,
    exit_code: job.result.exit_code,
    cause: job.result.cause,
    error: job.result.error,
    output: job.result.output,
    reason,
    created_at: time(job.created_at_ms),
    run_at: time(waiting.run_at_ms),
    started_at: time(job.started_at_ms),
    finished_at: time(isFinished(state) ? state.finished_at_ms : null),
  };
}

export function attemptJson(attempt: Attempt) {
  return {
    attempt: attempt.attempt,
    token: attempt.token,
    worker: attempt.worker,
    host: attempt.host,
    pid: attempt.process?.pid ?? null,
    started_at: time(attempt.started_at_ms),
    ended_at: time(attempt.ended_at_ms),
    cause: attempt.end?.cause ?? null,
    exit_code: attempt.end?.exit_code ?? null,
    signal: attempt.end?.signal ?? null,
    last_line: attempt.end?.last_line ?? null,
    beats: attempt.beats,
  };
}

export function checkpointJson(checkpoint: Checkpoint) {
  return {
    id: checkpoint.id,
    job: checkpoint.job,
    task: checkpoint.task,
    kind: checkpoint.kind,
    token: checkpoint.token,
    at: time(checkpoint.at_ms),
    text: checkpoint.text,
  };
}

export function workerJson({ worker, busy }: WorkerRow, now_ms: number) {
  return {
    id: worker.id,
    name: worker.name,
    state: workerState(worker, now_ms),
    host: worker.host,
    pid: worker.process.pid,
    version: worker.version,
    queues: worker.queues,
    slots: worker.slots,
    busy,
    started_at: time(worker.started_at_ms),
    seen_at: time(worker.seen_at_ms),
    stopped_at: time(worker.stopped_at_ms),
  };
}

export function queueJson({ queue, paused, counts }: QueueSummary) {
  const states = Object.fromEntries(STATE_NAMES.map((name) => [name, counts[name]])) as Record<StateName, number>;
  return { queue, paused, ...states };
}

/** `job` must be running. */
export function leaseJson(job: Job, now_ms: number) {
  const { id, state, queue, token, holder, expires_at, last_beat_at, started_at } = jobJson(job);
  const stale = job.state.name === "running" && job.state.expires_at_ms < now_ms;
  return { id, state, queue, token, holder, stale, expires_at, last_beat_at, started_at };
}

/** What `inspect ID --json` prints. */
export function jobDetailJson(
  job: Job,
  more: { reason: string | null; attempts: readonly Attempt[]; checkpoints: readonly Checkpoint[] },
) {
  return {
    ...jobJson(job, more.reason),
    history: more.attempts.map(attemptJson),
    checkpoints: more.checkpoints.map(checkpointJson),
  };
}

/** What `inspect --json` prints. */
export function overviewJson(overview: Overview, now_ms: number) {
  return {
    schema: SCHEMA,
    queues: overview.queues.map(queueJson),
    workers: overview.workers.map((row) => workerJson(row, now_ms)),
    leases: {
      held: overview.leases.held,
      stale: overview.leases.stale,
      next_expires_at: time(overview.leases.next_expires_at_ms),
    },
    retries: overview.retries,
    recovery: overview.recovery === null ? null : recoveryJson(overview.recovery),
    failures: overview.failures.map((job) => jobJson(job)),
  };
}

function recoveryJson({ last_at_ms, ...totals }: RecoveryTotals) {
  return { ...totals, last_at: time(last_at_ms) };
}

/** One line of output for one object. Objects that are printed by themselves carry `schema`; jobs always do. */
export function jsonLine(value: object): string {
  const versioned = "schema" in value ? value : { schema: SCHEMA, ...value };
  // JSON leaves some characters raw that a terminal obeys; as escapes they are the same JSON.
  return `${visibleJson(JSON.stringify(versioned))}\n`;
}

function time(at_ms: number | null | undefined): string | null {
  return at_ms === null || at_ms === undefined ? null : rfc3339(at_ms);
}

/** Bytes that are no UTF-8 become replacement characters. */
function bytesText(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}
