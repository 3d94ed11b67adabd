/**
 * The life of a job, as one pure function: what the contract suite holds both stores to.
 *
 *   blocked ──unblock──▶ pending ◀──due── scheduled          blocked ──doom──▶ cancelled
 *   pending ──acquire──▶ running ──settle──▶ completed | scheduled (retry) | failed | cancelled | pending (returned)
 *   running ──recover──▶ pending | failed | cancelled        running ──extend──▶ running, later expiry
 *   blocked, scheduled, pending ──cancel──▶ cancelled        running ──cancel──▶ running, cancel requested
 *   completed, failed, cancelled ──retry──▶ pending | blocked (it waits for others again)
 *
 * Nothing else happens to a job. Core decides settle and recover; the rest is what a store must come to by itself.
 */

import { isFinished, type Job, type JobState } from "../../src/core/job.ts";
import {
  holdsLease,
  lossReason,
  transition,
  type Change,
  type JobEvent,
  type Moment,
  type Refusal,
} from "../../src/core/transition.ts";

export type LifeEvent =
  | JobEvent
  | { type: "unblock" }
  | { type: "doom"; reason: string }
  | { type: "due" }
  | { type: "acquire"; holder: string; lease_ms: number }
  | { type: "extend"; token: number; lease_ms: number }
  | { type: "cancel"; reason: string | null }
  | { type: "retry"; waits?: boolean };

export interface LifeChange extends Omit<Change, "ended"> {
  /** The end of the running attempt; null when none ended. */
  ended: Change["ended"] | null;
}

export interface LifeRefusal {
  refused: Refusal["refused"] | "not_due" | "finished";
}

export function happen(job: Job, event: LifeEvent, moment: Moment): LifeChange | LifeRefusal {
  const { state } = job;
  const { now_ms } = moment;
  switch (event.type) {
    case "settle":
    case "recover":
      return transition(job, event, moment);
    case "unblock":
      if (state.name !== "blocked") return { refused: "wrong_state" };
      return change(job, { state: ready(job.run_at_ms, now_ms), reason: null });
    case "doom":
      if (state.name !== "blocked") return { refused: "wrong_state" };
      return change(job, { state: { name: "cancelled", finished_at_ms: now_ms }, reason: event.reason });
    case "due":
      if (state.name !== "scheduled") return { refused: "wrong_state" };
      if (state.run_at_ms > now_ms) return { refused: "not_due" };
      return change(job, { state: { name: "pending", run_at_ms: state.run_at_ms } });
    case "acquire":
      if (state.name !== "pending") return { refused: "wrong_state" };
      return change(job, { state: grant(event, now_ms), token: job.token + 1, reason: null });
    case "extend":
      if (state.name !== "running" || !holdsLease(job, event.token, now_ms)) {
        return { refused: lossReason(job, event.token) };
      }
      return change(job, { state: { ...state, expires_at_ms: now_ms + event.lease_ms } });
    case "cancel":
      return cancel(job, event.reason, now_ms);
    case "retry":
      if (!isFinished(state)) return { refused: "wrong_state" };
      return change(job, {
        state: event.waits === true ? { name: "blocked" } : { name: "pending", run_at_ms: now_ms },
        failures: 0,
        result: { cause: null, exit_code: null, error: null, output: null },
        reason: null,
      });
  }
}

function cancel(job: Job, reason: string | null, now_ms: number): LifeChange | LifeRefusal {
  if (isFinished(job.state)) return { refused: "finished" };
  if (job.state.name !== "running")
    return change(job, { state: { name: "cancelled", finished_at_ms: now_ms }, reason });
  const cancel_requested_at_ms = job.state.cancel_requested_at_ms ?? now_ms;
  return change(job, { state: { ...job.state, cancel_requested_at_ms }, reason: job.reason ?? reason });
}

function ready(run_at_ms: number, now_ms: number): JobState {
  return { name: run_at_ms > now_ms ? "scheduled" : "pending", run_at_ms };
}

function grant({ holder, lease_ms }: { holder: string; lease_ms: number }, now_ms: number): JobState {
  return { name: "running", holder, expires_at_ms: now_ms + lease_ms, cancel_requested_at_ms: null };
}

function change(job: Job, more: Partial<LifeChange> & { state: JobState }): LifeChange {
  const { token, failures, result, reason } = job;
  return { token, failures, result, reason, ended: null, before: job, ...more };
}
