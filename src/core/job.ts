/**
 * What a job is. A state is a union in which each member carries the data that exists only while the job is in it, so
 * that a finished job can't have a holder and a pending one can't have an end.
 */

import type { Gate } from "./gate.ts";
import { DEFAULT_BACKOFF, type Backoff, type ExitRange } from "./retry.ts";

export const STATE_NAMES = ["blocked", "scheduled", "pending", "running", "completed", "failed", "cancelled"] as const;
export type StateName = (typeof STATE_NAMES)[number];

export type JobState =
  | { name: "blocked" }
  | { name: "scheduled"; run_at_ms: number }
  | { name: "pending"; run_at_ms: number }
  | Running
  | Finished;

export interface Running {
  name: "running";
  holder: string;
  expires_at_ms: number;
  cancel_requested_at_ms: number | null;
}

export interface Finished {
  name: "completed" | "failed" | "cancelled";
  finished_at_ms: number;
}

/** Why an attempt ended. `error`: a handler threw. `expired`: the lease ran out. `lost`: the holder was proven dead. */
export const CAUSES = [
  "success",
  "exit",
  "signal",
  "error",
  "timeout",
  "silent",
  "expired",
  "lost",
  "cancelled",
  "returned",
  "not_found",
  "not_executable",
] as const;
export type Cause = (typeof CAUSES)[number];

export const BEATS = ["output", "stdout", "timer", "manual"] as const;
export type Beat = (typeof BEATS)[number];

/** How long a job that is told to end may take before it is killed; `never`: a cancel sends it nothing at all. */
export type Grace = number | "never";

/** What an attempt may take; null: as much as there is. */
export interface Limits {
  memory_bytes: number | null;
  pids: number | null;
  cpus: number | null;
}

/** What the person who enqueued the job decided about how it runs; `null` leaves it to the worker. */
export interface JobSettings extends Limits {
  retries: number;
  backoff: Backoff;
  retry_on: "any" | "lost";
  fatal_exit: readonly ExitRange[];
  timeout_ms: number | null;
  lease_ms: number | "auto" | null;
  /** At most one extension per; what a beat adds to the lease. */
  interval_ms: number | null;
  extension_ms: number | null;
  beat: Beat | null;
  /** Of a cancel, before what that says itself. */
  grace_ms: Grace | null;
  /** The line that is run when it has failed for good. */
  on_failed: string | null;
  /** The attempt by which the job failed that this one is about: it is what that one's `on_failed` asked for. */
  hook: { readonly job: number; readonly attempt: number } | null;
  /** So much of its priority it got by waiting, from workers that let jobs age. */
  aged: number;
  pty: boolean;
  log_limit_bytes: number;
  output_limit_bytes: number;
}

export const DEFAULT_SETTINGS: JobSettings = {
  retries: 3,
  backoff: DEFAULT_BACKOFF,
  retry_on: "any",
  fatal_exit: [],
  timeout_ms: null,
  lease_ms: null,
  interval_ms: null,
  extension_ms: null,
  beat: null,
  grace_ms: null,
  on_failed: null,
  hook: null,
  aged: 0,
  pty: false,
  log_limit_bytes: 16 * 1024 * 1024,
  output_limit_bytes: 1024 * 1024,
  memory_bytes: null,
  pids: null,
  cpus: null,
};

/** How the newest attempt ended; all null before the first one has. */
export interface Result {
  cause: Cause | null;
  exit_code: number | null;
  error: string | null;
  output: string | null;
}

/** What bounds its start is part of it: `limits` it has joined, `needs` of resources. */
export interface Job extends Gate {
  id: number;
  state: JobState;
  queue: string;
  task: string | null;
  key: string | null;
  priority: number;
  argv: readonly string[];
  input: Uint8Array | null;
  cwd: string;
  env: Readonly<Record<string, string>>;
  settings: JobSettings;
  /** Grants so far; the newest one is the fence of every write by the holder. */
  token: number;
  /** Attempts that count against the retries since the job was enqueued or retried by a person. */
  failures: number;
  result: Result;
  progress: number | null;
  message: string | null;
  /** Why the job is where it is, when a state alone does not say it. */
  reason: string | null;
  created_at_ms: number;
  run_at_ms: number;
  started_at_ms: number | null;
  last_beat_at_ms: number | null;
  /** What of it can't be read where it is stored; the rest is as far as it can be told. Such a job never runs. */
  damaged?: string;
}

type Given = "argv" | "queue" | "task" | "key" | "priority" | "input" | "cwd" | "env" | "settings" | keyof Gate;

/** A job as it is asked for: what `enqueue` takes. */
export interface NewJob extends Pick<Job, Given> {
  if_exists: "skip" | "fail" | "replace";
  /** Not before this moment; `null`: at once. */
  run_at_ms: number | null;
  delay_ms: number;
  after: readonly number[];
  after_any: readonly number[];
  after_failed: readonly number[];
  /** Every job of these tasks that there is when it is enqueued. */
  after_task: readonly string[];
}

export const INPUT_LIMIT_BYTES = 1024 * 1024;
export const DEFAULT_QUEUE = "default";

export function isFinished(state: JobState): state is Finished {
  return state.name === "completed" || state.name === "failed" || state.name === "cancelled";
}

/** How the reason of a job goes on that was cancelled because of one that it waits for. */
export const WAITED_FOR = ", which it waits for, ";

/** Nobody cancelled it: it could not run any more because of this job. Null: it is not so. */
export function doomedBy(state: StateName, reason: string | null): number | null {
  const [, parent, rest] = /^job (\d+)(.*)$/s.exec(reason ?? "") ?? [];
  return state === "cancelled" && rest?.startsWith(WAITED_FOR) ? Number(parent) : null;
}

export type ShownState = StateName | "cancelling" | "retrying";

/** The state's name as it is shown: says more than the stored one where a person would ask. */
export function shownState(job: Pick<Job, "state" | "token">): ShownState {
  if (job.state.name === "running" && job.state.cancel_requested_at_ms !== null) return "cancelling";
  if (job.state.name === "scheduled" && job.token > 0) return "retrying";
  return job.state.name;
}

export function retriesLeft(job: Pick<Job, "settings" | "failures">): number {
  return Math.max(0, job.settings.retries - job.failures);
}
