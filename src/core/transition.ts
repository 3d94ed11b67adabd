/**
 * The life of a job, as one pure function: (job, event, moment) → change | refusal.
 *
 *   blocked ──unblock──▶ pending ◀──due── scheduled          blocked ──doom──▶ cancelled
 *   pending ──acquire──▶ running ──settle──▶ completed | scheduled (retry) | failed | cancelled | pending (returned)
 *   running ──recover──▶ pending | failed | cancelled        running ──extend──▶ running, later expiry
 *   blocked, scheduled, pending ──cancel──▶ cancelled        running ──cancel──▶ running, cancel requested
 *   completed, failed, cancelled ──retry──▶ pending
 *
 *   A job that can't be read any more ends as failed where it would have been run or tried again.
 *
 * Nothing else happens to a job. A change is what a store writes under its fence; a refusal is a normal answer.
 */

import type { Random } from "./clock.ts";
import type { Cause, Job, JobState, Result, Running } from "./job.ts";
import { isFinished } from "./job.ts";
import { backoffDelay, isRetryable } from "./retry.ts";

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
}

export type JobEvent =
  | { type: "unblock" }
  | { type: "doom"; reason: string }
  | { type: "due" }
  | { type: "acquire"; holder: string; lease_ms: number }
  | { type: "extend"; token: number; lease_ms: number }
  | { type: "settle"; token: number; end: AttemptEnd }
  | { type: "recover"; cause: "expired" | "lost"; grace_ms: number }
  | { type: "cancel"; reason: string | null }
  | { type: "retry" };

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
  /** The end of the running attempt; null when none ended. */
  ended: AttemptEnd | null;
}

/** `expired`: the lease is over. `conflict`: the job has been granted again since. */
type RefusalReason = "expired" | "conflict" | "not_expired" | "not_due" | "finished" | "wrong_state";
export interface Refusal {
  refused: RefusalReason;
}

type Subject = Pick<Job, "state" | "token" | "failures" | "result" | "reason" | "settings" | "run_at_ms" | "damaged">;

export const MAX_RETRIES_EXCEEDED = "max retries exceeded";

export function isRefusal(answer: Change | Refusal): answer is Refusal {
  return "refused" in answer;
}

export function transition(job: Subject, event: JobEvent, moment: Moment): Change | Refusal {
  const { state } = job;
  switch (event.type) {
    case "unblock":
      if (state.name !== "blocked") return refuse("wrong_state");
      return becomeReady(job, moment);
    case "doom":
      if (state.name !== "blocked") return refuse("wrong_state");
      return finish(job, "cancelled", moment, { reason: event.reason });
    case "due":
      if (state.name !== "scheduled") return refuse("wrong_state");
      if (state.run_at_ms > moment.now_ms) return refuse("not_due");
      return change(job, { state: { name: "pending", run_at_ms: state.run_at_ms } });
    case "acquire":
      if (state.name !== "pending") return refuse("wrong_state");
      return grant(job, event.holder, moment.now_ms + event.lease_ms);
    case "extend":
      if (!holdsLease(job, event.token, moment.now_ms)) return refuse(lossReason(job, event.token));
      return change(job, { state: { ...(state as Running), expires_at_ms: moment.now_ms + event.lease_ms } });
    case "settle":
      if (state.name !== "running" || event.token !== job.token) return refuse(lossReason(job, event.token));
      return settle(job, state, event.end, moment);
    case "recover":
      if (state.name !== "running") return refuse("wrong_state");
      if (event.cause === "expired" && moment.now_ms <= state.expires_at_ms + event.grace_ms) {
        return refuse("not_expired");
      }
      return settle(job, state, abandoned(event.cause), moment);
    case "cancel":
      return cancel(job, event.reason, moment);
    case "retry":
      if (!isFinished(state)) return refuse("wrong_state");
      return change(job, {
        state: { name: "pending", run_at_ms: moment.now_ms },
        failures: 0,
        result: { cause: null, exit_code: null, error: null, output: null },
        reason: null,
      });
  }
}

/** A lease counts until the very millisecond it ends. */
export function holdsLease(job: Pick<Job, "state" | "token">, token: number, now_ms: number): boolean {
  return job.state.name === "running" && job.token === token && now_ms <= job.state.expires_at_ms;
}

/** Why a holder's write is refused: nobody has been granted the job since, or somebody has. */
export function lossReason(job: Pick<Job, "token">, token: number): "expired" | "conflict" {
  return job.token === token ? "expired" : "conflict";
}

function settle(job: Subject, state: Running, end: AttemptEnd, moment: Moment): Change {
  const result: Result = { cause: end.cause, exit_code: end.exit_code, error: end.error, output: end.output };
  if (end.cause === "success") return finish(job, "completed", moment, { result, ended: end, reason: null });
  if (state.cancel_requested_at_ms !== null || end.cause === "cancelled") {
    return finish(job, "cancelled", moment, { result, ended: end });
  }
  if (job.damaged !== undefined) {
    const more = { failures: job.failures + 1, result: { ...result, error: job.damaged }, ended: end };
    return finish(job, "failed", moment, more);
  }
  if (end.cause === "returned") {
    return change(job, { state: { name: "pending", run_at_ms: job.run_at_ms }, ended: end });
  }
  const failures = job.failures + 1;
  const lost = end.cause === "expired" || end.cause === "lost";
  if (failures > job.settings.retries || !isRetryable(end.cause, end.exit_code, job.settings)) {
    const error = lost ? MAX_RETRIES_EXCEEDED : end.error;
    return finish(job, "failed", moment, { failures, result: { ...result, error }, ended: end });
  }
  if (lost) return change(job, { state: { name: "pending", run_at_ms: job.run_at_ms }, failures, result, ended: end });
  const run_at_ms = moment.now_ms + backoffDelay(job.settings.backoff, failures, moment.random);
  return change(job, { state: { name: "scheduled", run_at_ms }, failures, result, ended: end });
}

function cancel(job: Subject, reason: string | null, moment: Moment): Change | Refusal {
  if (isFinished(job.state)) return refuse("finished");
  if (job.state.name !== "running") return finish(job, "cancelled", moment, { reason });
  const cancel_requested_at_ms = job.state.cancel_requested_at_ms ?? moment.now_ms;
  return change(job, { state: { ...job.state, cancel_requested_at_ms }, reason: job.reason ?? reason });
}

function grant(job: Subject, holder: string, expires_at_ms: number): Change {
  const state: Running = { name: "running", holder, expires_at_ms, cancel_requested_at_ms: null };
  return change(job, { state, token: job.token + 1, reason: null });
}

function becomeReady(job: Subject, moment: Moment): Change {
  const name = job.run_at_ms > moment.now_ms ? "scheduled" : "pending";
  return change(job, { state: { name, run_at_ms: job.run_at_ms }, reason: null });
}

function finish(
  job: Subject,
  name: "completed" | "failed" | "cancelled",
  moment: Moment,
  more: Partial<Change>,
): Change {
  return change(job, { ...more, state: { name, finished_at_ms: moment.now_ms } });
}

function change(job: Subject, more: Partial<Change> & { state: JobState }): Change {
  return {
    token: job.token,
    failures: job.failures,
    result: job.result,
    reason: job.reason,
    ended: null,
    ...more,
  };
}

/** What is known of an attempt whose worker went away without a word. */
function abandoned(cause: "expired" | "lost"): AttemptEnd {
  const error = cause === "expired" ? "the lease ran out" : "the worker died";
  return { cause, exit_code: null, signal: null, error, output: null, last_line: null, beats: 0 };
}

function refuse(refused: RefusalReason): Refusal {
  return { refused };
}
