/**
 * Why a job is not running, or how it got where it is: one short text, for the REASON column and the job's page.
 * Says only what the facts say; a fact that is unknown is left out, and null means that there is nothing to explain.
 */

import { isFinished, type Job, type Running, type StateName } from "../core/job.ts";
import { coarse, relative, sentenceRelative } from "./time.ts";

export interface Parent {
  id: number;
  state: StateName;
  /** When it got into that state. */
  since_ms: number | null;
}

/** What is known around the job; null: not known. */
export interface ReasonFacts {
  queue_paused: boolean;
  /** Live workers that take the job. */
  workers: number | null;
  /** There are workers for its queue, but only for other tasks. */
  other_tasks: boolean;
  /** Of these workers, how many slots run nothing. */
  free_slots: number | null;
  /** Pending jobs that are acquired before this one. */
  jobs_before: number | null;
  /** Pending jobs of its queue, itself included. */
  in_line: number | null;
  /** The jobs it depends on that don't satisfy it yet. */
  parents: readonly Parent[];
  /** Whoever holds its lease is gone. */
  holder_dead: boolean;
  /** Which limit or need keeps it from starting; null: none. */
  bound: string | null;
}

export const NO_FACTS: ReasonFacts = {
  queue_paused: false,
  workers: null,
  other_tasks: false,
  free_slots: null,
  jobs_before: null,
  in_line: null,
  parents: [],
  holder_dead: false,
  bound: null,
};

const PARENTS_NAMED = 2;

export function reasonOf(job: Job, facts: ReasonFacts, now_ms: number): string | null {
  const { state } = job;
  if (isFinished(state)) return ownReason(job);
  // Whatever else it waits for, it will not run.
  if (job.damaged !== undefined && state.name !== "running") return job.damaged;
  switch (state.name) {
    case "blocked":
      return facts.parents.length > 0 ? waitsFor(facts.parents, now_ms) : (job.reason ?? "waits for other jobs");
    case "scheduled":
      return scheduledReason(job, state.run_at_ms, facts, now_ms);
    case "pending":
      return pendingReason(job, facts) ?? job.reason;
    case "running":
      return facts.holder_dead ? "its worker died, waits for a sweep" : runningReason(job, state, now_ms);
  }
}

/** What the job itself tells, without the facts around it. */
export function ownReason({ state, reason, result }: Job): string | null {
  const ended = state.name === "failed" || state.name === "cancelled";
  // That it is cancelled is told already.
  return reason ?? (ended && result.error !== state.name ? result.error : null);
}

/** Why it failed, and what it said last where that is not in it: of an exit code alone nobody learns anything. */
export function failureText({ job, last_line }: { job: Job; last_line: string | null }): string {
  const { error: told, cause } = job.result;
  const error = told ?? cause ?? "";
  // What it was silent after is in the error; what it said when it was stopped is none of the reasons.
  const whole = last_line === null || cause === "silent" || error.includes(last_line);
  return whole ? error : `${error}: ${last_line}`;
}

function waitsFor(parents: readonly Parent[], now_ms: number): string {
  const named = parents.slice(0, PARENTS_NAMED).map(({ id, state, since_ms }) => {
    return `${id} (${state}${since_ms === null ? "" : ` ${coarse(Math.max(0, now_ms - since_ms))}`})`;
  });
  const more = parents.length - named.length;
  return `waits for ${named.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

function scheduledReason(job: Job, run_at_ms: number, facts: ReasonFacts, now_ms: number): string {
  const is_due = run_at_ms <= now_ms;
  const unserved = is_due && facts.workers === 0 ? `, ${unservedText(job, facts)}` : "";
  const hindered = facts.queue_paused ? ", queue paused" : unserved;
  const when = is_due ? "due" : relative(run_at_ms, now_ms);
  if (job.failures > 0) return `retry ${job.failures} of ${job.settings.retries} ${when}${hindered}`;
  return (is_due ? "due now" : `due ${when}`) + hindered;
}

function unservedText({ queue, argv }: Job, { other_tasks }: ReasonFacts): string {
  if (other_tasks) return `the workers of queue ${queue} take other tasks only`;
  return argv.length > 0 ? `no worker serves queue ${queue}` : `no worker of queue ${queue} has a handler for it`;
}

function pendingReason(job: Job, facts: ReasonFacts): string | null {
  if (facts.queue_paused) return "queue paused";
  if (facts.workers === 0) return unservedText(job, facts);
  if (facts.bound !== null) return facts.bound;
  const position = positionInLine(facts);
  return position !== null && facts.free_slots === 0 ? `${position}, all slots busy` : position;
}

function positionInLine({ jobs_before, in_line }: ReasonFacts): string | null {
  if (jobs_before === 0) return "next in line";
  if (jobs_before !== null) return `${jobs_before} ${jobs_before === 1 ? "job" : "jobs"} ahead`;
  return in_line === null ? null : `one of ${in_line} in line`;
}

function runningReason(job: Job, state: Running, now_ms: number): string | null {
  if (state.cancel_requested_at_ms !== null) {
    return `cancel asked ${sentenceRelative(state.cancel_requested_at_ms, now_ms)}`;
  }
  if (state.expires_at_ms < now_ms)
    return `lease ran out ${sentenceRelative(state.expires_at_ms, now_ms)}, waits for a sweep`;
  const progress = job.progress === null ? null : `${job.progress} %`;
  const told = [progress, job.message].filter((part) => part !== null).join(" ");
  if (told !== "") return told;
  return job.last_beat_at_ms === null ? null : `beat ${sentenceRelative(job.last_beat_at_ms, now_ms)}`;
}
