/**
 * How a running job goes on when its attempt is over: the two decisions that depend on policy (retries, backoff, a
 * request to cancel, a loss), as one pure function: (job, event, moment) → change | refusal.
 *
 *   running ──settle──▶ completed | scheduled (retry) | failed | cancelled | pending (returned)
 *   running ──recover──▶ pending | failed | cancelled
 *
 *   A job that can't be read any more ends as failed where it would have been run or tried again.
 *
 * A change is what a store writes under its fence; a refusal is a normal answer. All else that happens to a job is
 * decided where it is written, in the verbs of store/sqlite and store/postgres: acquire (which also promotes what is
 * due), extend, cancel, retry, and dependencies (unblock, doom). test/contract/life.ts says the same about them once
 * more as a pure function, and the contract suite holds both stores to it.
 */

import type { Random } from "./clock.ts";
import { isFinished, type Cause, type Job, type JobState, type Result, type Running } from "./job.ts";
import type { FenceKind } from "./records.ts";
import { backoffDelay, wasLost, isRetryable } from "./retry.ts";

/** How one attempt ended, as its worker (or the sweep that found it) saw it. */
export interface AttemptEnd {
  cause: Cause;
  exit_code: number | null;
  signal: string | null;
  /** One line for people: "exit code 3", "silent 5m02s of 5m". Null when the attempt succeeded. */
  error: string | null;
  output: string | null;
  last_line: string | null;
  beats: number;
  /** Of a program: what held its processes together, and what they took. */
  fence?: FenceKind;
  cpu_ms?: number | null;
  memory_bytes?: number | null;
  /** Of one that was returned: it is not to be granted again before. */
  pause_ms?: number;
  /** The job says itself that another try would find the same. */
  final?: boolean;
}

export type JobEvent =
  /** `ended_at_ms`: when its program was over, if that was before now. */
  | { type: "settle"; token: number; end: AttemptEnd; ended_at_ms?: number }
  | { type: "recover"; cause: "expired" | "lost"; grace_ms: number };

export interface Moment {
  now_ms: number;
  random: Random;
}

export interface Change {
  state: JobState;
  token: number;
  failures: number;
  result: Result;
  reason: string | null;
  ended: AttemptEnd;
  /** The job as it was: what is remembered of an attempt. */
  before: Pick<Job, "id" | "token" | "queue" | "state" | "run_at_ms" | "started_at_ms">;
}

export interface Refusal {
  /** `expired`: the lease is over. `conflict`: the job has been granted again since. */
  refused: "expired" | "conflict" | "not_expired" | "wrong_state";
}

type Subject = Pick<Job, "failures" | "result" | "reason" | "settings" | "damaged"> & Change["before"];

/** How the error begins of an attempt whose holder gave its lease up by itself, by its own clock and before its end. */
export const GIVEN_UP = "lease lost: ";

export const MAX_RETRIES_EXCEEDED = "max retries exceeded";

export function isRefusal<Answer extends object>(answer: Answer): answer is Extract<Answer, { refused: unknown }> {
  return "refused" in answer;
}

export function transition(job: Subject, event: JobEvent, moment: Moment): Change | Refusal {
  const { state } = job;
  if (event.type === "settle") {
    if (state.name !== "running" || event.token !== job.token) return { refused: lossReason(job, event.token) };
    return settle(job, state, event.end, moment, event.ended_at_ms);
  }
  if (state.name !== "running") return { refused: "wrong_state" };
  const { cause, grace_ms } = event;
  if (cause === "expired" && moment.now_ms <= state.expires_at_ms + grace_ms) return { refused: "not_expired" };
  // Nobody knows when it ended: a request to stop, whenever by whatever clock, was not too late.
  return settle(job, state, abandoned(cause), moment, Infinity);
}

/** A lease counts until the very millisecond it ends. */
export function holdsLease(job: Pick<Job, "state" | "token">, token: number, now_ms: number): boolean {
  return job.state.name === "running" && job.token === token && now_ms <= job.state.expires_at_ms;
}

/** Why a holder's write is refused: nobody has been granted the job since, or somebody has. */
export function lossReason(job: Pick<Job, "token">, token: number): "expired" | "conflict" {
  return job.token === token ? "expired" : "conflict";
}

/** A request to stop wins over how the program ended, unless that was over before anybody asked. */
function settle(job: Subject, state: Running, end: AttemptEnd, moment: Moment, ended_at_ms = moment.now_ms): Change {
  const asked_at_ms = state.cancel_requested_at_ms;
  if (end.cause === "cancelled" || (asked_at_ms !== null && asked_at_ms <= ended_at_ms)) {
    return cancelled(job, end, moment.now_ms);
  }
  const change = goOn(job, end, moment);
  if (asked_at_ms === null) return change;
  // Why it was to be cancelled is not why it ended.
  return isFinished(change.state) ? { ...change, reason: null } : cancelled(job, end, moment.now_ms);
}

const BY_ITSELF: ReadonlySet<Cause> = new Set(["success", "exit", "signal", "error"]);

/** What a program made of being asked to stop, which may be that all is well, is not how its job ended. */
function cancelled(job: Subject, end: AttemptEnd, now_ms: number): Change {
  const by_itself = BY_ITSELF.has(end.cause);
  const ended: AttemptEnd = by_itself ? { ...end, cause: "cancelled", error: end.error ?? "cancelled" } : end;
  const { cause, exit_code, error, output } = ended;
  const { token, failures, reason } = job;
  const state: JobState = { name: "cancelled", finished_at_ms: now_ms };
  const result: Result = { cause, exit_code, error, output };
  return { state, token, failures, result, reason, ended, before: job };
}

function goOn(job: Subject, ended: AttemptEnd, { now_ms, random }: Moment): Change {
  const { cause, exit_code, error, output } = ended;
  const result: Result = { cause, exit_code, error, output };
  const { token, failures, reason, settings } = job;
  const same = { token, failures, result, reason, ended, before: job };
  const finished = { finished_at_ms: now_ms };
  if (cause === "success") return { ...same, state: { name: "completed", ...finished }, reason: null };
  const again: JobState = { name: "pending", run_at_ms: job.run_at_ms };
  if (cause === "returned" && job.damaged === undefined) {
    const { pause_ms } = ended;
    if (pause_ms === undefined) return { ...same, state: again, result: job.result };
    return { ...same, state: { name: "scheduled", run_at_ms: now_ms + pause_ms }, result: { ...job.result, error } };
  }
  const failed = { ...same, failures: failures + 1 };
  const may_retry = ended.final !== true && isRetryable(cause, exit_code, settings);
  const over = failed.failures > settings.retries || !may_retry;
  if (over || job.damaged !== undefined) {
    const why = job.damaged ?? (wasLost(cause) ? MAX_RETRIES_EXCEEDED : error);
    return { ...failed, state: { name: "failed", ...finished }, result: { ...result, error: why } };
  }
  if (wasLost(cause)) return { ...failed, state: again };
  const run_at_ms = now_ms + backoffDelay(settings.backoff, failed.failures, random);
  return { ...failed, state: { name: "scheduled", run_at_ms } };
}

/** What is known of an attempt whose worker went away without a word. */
function abandoned(cause: "expired" | "lost"): AttemptEnd {
  const error = cause === "expired" ? "the lease ran out" : "the worker died";
  return { cause, exit_code: null, signal: null, error, output: null, last_line: null, beats: 0 };
}
