/**
 * Rows ↔ records, the same for every engine. Settings are stored as what differs from the defaults, so that a default job costs no text.
 */

import { DEFAULT_SETTINGS, isFinished } from "../../core/job.ts";
import type { Cause, Job, JobSettings, JobState, StateName } from "../../core/job.ts";
import type { Attempt, Checkpoint, ProcessIdentity, WorkerRecord } from "../../core/records.ts";
import type { SqlRow, SqlValue } from "../../platform/platform.ts";

import { LEASE_AUTO } from "./columns.ts";

type Text = string | null;
type Int = number | null;

export function toJob(row: SqlRow): Job {
  return {
    id: row["id"] as number,
    state: toState(row),
    queue: row["queue"] as string,
    task: row["task"] as Text,
    key: row["key"] as Text,
    priority: row["priority"] as number,
    argv: JSON.parse(row["argv"] as string) as string[],
    input: (row["input"] ?? null) as Uint8Array | null,
    cwd: row["cwd"] as string,
    env: row["env"] === null ? {} : (JSON.parse(row["env"] as string) as Record<string, string>),
    settings: toSettings(row),
    token: row["token"] as number,
    failures: row["failures"] as number,
    result: {
      cause: row["cause"] as Cause | null,
      exit_code: row["exit_code"] as Int,
      error: row["error"] as Text,
      output: row["output"] as Text,
    },
    progress: row["progress"] as Int,
    message: row["message"] as Text,
    reason: row["reason"] as Text,
    created_at_ms: row["created_at_ms"] as number,
    run_at_ms: row["run_at_ms"] as number,
    started_at_ms: row["started_at_ms"] as Int,
    last_beat_at_ms: row["last_beat_at_ms"] as Int,
  };
}

function toState(row: SqlRow): JobState {
  const name = row["state"] as StateName;
  switch (name) {
    case "blocked":
      return { name };
    case "scheduled":
    case "pending":
      return { name, run_at_ms: row["run_at_ms"] as number };
    case "running":
      return {
        name,
        holder: row["holder"] as string,
        expires_at_ms: row["expires_at_ms"] as number,
        cancel_requested_at_ms: row["cancel_requested_at_ms"] as Int,
      };
    default:
      return { name, finished_at_ms: row["finished_at_ms"] as number };
  }
}

function toSettings(row: SqlRow): JobSettings {
  const lease_ms = row["lease_ms"] as Int;
  const own = { retries: row["retries"] as number, lease_ms: lease_ms === LEASE_AUTO ? ("auto" as const) : lease_ms };
  const rest = row["settings"] === null ? {} : (JSON.parse(row["settings"] as string) as Partial<JobSettings>);
  return { ...DEFAULT_SETTINGS, ...rest, ...own };
}

/** The columns of a job that a state decides: name, run_at_ms, finished_at_ms. */
export function stateColumns(state: JobState): [StateName, Int, Int] {
  if (isFinished(state)) return [state.name, null, state.finished_at_ms];
  return [state.name, "run_at_ms" in state ? state.run_at_ms : null, null];
}

export function toAttempt(row: SqlRow): Attempt {
  const cause = row["cause"] as Cause | null;
  const beats = row["beats"] as number;
  return {
    attempt: row["attempt"] as number,
    token: row["attempt"] as number,
    worker: row["worker"] as string,
    host: row["host"] as string,
    process: toProcess(row),
    lease_ms: row["lease_ms"] as number,
    started_at_ms: row["started_at_ms"] as number,
    ended_at_ms: row["ended_at_ms"] as Int,
    end:
      cause === null
        ? null
        : {
            cause,
            exit_code: row["exit_code"] as Int,
            signal: row["signal"] as Text,
            error: row["error"] as Text,
            output: null,
            last_line: row["last_line"] as Text,
            beats,
          },
    beats,
  };
}

export function toProcess(row: SqlRow): ProcessIdentity | null {
  if (row["pid"] === null || row["boot_id"] === null) return null;
  return {
    boot_id: row["boot_id"] as string,
    pid: row["pid"] as number,
    pid_started: row["pid_started"] as number,
  };
}

export function toCheckpoint(row: SqlRow): Checkpoint {
  return {
    id: row["id"] as number,
    job: row["job_id"] as number,
    task: row["task"] as Text,
    kind: row["kind"] as Checkpoint["kind"],
    token: row["token"] as number,
    at_ms: row["at_ms"] as number,
    text: row["text"] as string,
  };
}

export function toWorker(row: SqlRow): WorkerRecord {
  return {
    id: row["id"] as string,
    name: row["name"] as Text,
    host: row["host"] as string,
    process: toProcess(row) as ProcessIdentity,
    version: row["version"] as string,
    queues: row["queues"] === null ? null : (JSON.parse(row["queues"] as string) as string[]),
    task: row["task"] as Text,
    slots: row["slots"] as number,
    draining: row["draining"] !== 0,
    completed: row["completed"] as number,
    failed: row["failed"] as number,
    started_at_ms: row["started_at_ms"] as number,
    seen_at_ms: row["seen_at_ms"] as number,
    stopped_at_ms: row["stopped_at_ms"] as Int,
    ended: row["ended"] as WorkerRecord["ended"],
  };
}

export function workerColumns(worker: WorkerRecord): SqlValue[] {
  const { process } = worker;
  return [
    worker.id,
    worker.name,
    worker.host,
    process.boot_id,
    process.pid,
    process.pid_started,
    worker.version,
    worker.queues === null ? null : JSON.stringify(worker.queues),
    worker.slots,
    worker.started_at_ms,
    worker.seen_at_ms,
    worker.stopped_at_ms,
    worker.ended,
    worker.draining ? 1 : 0,
    worker.completed,
    worker.failed,
    worker.task,
  ];
}
