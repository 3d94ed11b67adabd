/**
 * Rows ↔ records, the same for every engine. Settings are stored as what differs from the defaults, so that a default job
 * costs no text.
 *
 * Reading never fails. Of a row that is not as it should be, what can be told is told: a job says in `damaged` and as its
 * error what could not be read, and is never run; the others have something harmless in place of it.
 */

import * as v from "valibot";
import { DEFAULT_SETTINGS, isFinished, type Job, type JobState, type StateName } from "../../core/job.ts";
import { conclude, type Learned } from "../../core/learning.ts";
import type { AttemptRecord, Checkpoint, ProcessIdentity, WorkerRecord } from "../../core/records.ts";
import type { SqlRow, SqlValue } from "../../platform/platform.ts";
import { LEASE_AUTO } from "./columns.ts";
import type { ColumnValues } from "./schemas.ts";
import { ATTEMPT, CHECKPOINT, JOB_COLUMNS, JOB_JSON, LEARNED, PROCESS, RowTable, WORKER } from "./schemas.ts";

/** How an error begins that says what of a row can't be read. */
export const DAMAGED = "damaged: ";

type Scalars = ColumnValues<typeof JOB_COLUMNS>;
type JsonColumns = ColumnValues<typeof JOB_JSON>;

const SCALARS = new RowTable(JOB_COLUMNS);
const JOB = new RowTable({ ...JOB_JSON, ...JOB_COLUMNS });

export function toJob(row: SqlRow): Job {
  const json = SCALARS.isReadable(row) ? readJson(row) : null;
  if (json !== null) return jobOf(row as unknown as Scalars, json, row["input"]);
  const { values, damage } = JOB.read(row);
  // An id and a token are what a job is found and fenced by, be they as odd as they will.
  const found = { ...values, id: Number(row["id"]), token: Number(row["token"]) };
  const job = jobOf(found, found, row["input"]);
  if (damage === null) return job;
  const damaged = `${DAMAGED}${damage}`;
  return { ...job, damaged, result: { ...job.result, error: damaged } };
}

/** Null when one of them can't be read. */
function readJson(row: SqlRow): JsonColumns | null {
  const argv = v.safeParse(JOB_JSON.argv.schema, row["argv"]);
  const settings = row["settings"] === null ? NOTHING : v.safeParse(JOB_JSON.settings.schema, row["settings"]);
  const env = row["env"] === null ? NOTHING : v.safeParse(JOB_JSON.env.schema, row["env"]);
  if (!argv.success || !settings.success || !env.success) return null;
  return { argv: argv.output, settings: settings.output, env: env.output };
}

const NOTHING = { success: true, output: null } as const;

function jobOf(columns: Scalars, json: JsonColumns, input: SqlValue | undefined): Job {
  return {
    id: columns.id,
    state: toState(columns),
    queue: columns.queue,
    task: columns.task,
    key: columns.key,
    priority: columns.priority,
    argv: json.argv,
    input: input instanceof Uint8Array ? input : null,
    cwd: columns.cwd,
    env: json.env ?? {},
    settings: {
      ...DEFAULT_SETTINGS,
      ...(json.settings as Partial<typeof DEFAULT_SETTINGS> | null),
      retries: columns.retries,
      lease_ms: columns.lease_ms === LEASE_AUTO ? "auto" : columns.lease_ms,
    },
    token: columns.token,
    failures: columns.failures,
    result: { cause: columns.cause, exit_code: columns.exit_code, error: columns.error, output: columns.output },
    progress: columns.progress,
    message: columns.message,
    reason: columns.reason,
    created_at_ms: columns.created_at_ms,
    run_at_ms: columns.run_at_ms,
    started_at_ms: columns.started_at_ms,
    last_beat_at_ms: columns.last_beat_at_ms,
  };
}

/** The tables' own checks see to it that a holder or an end is there where a state has one. */
function toState(columns: Scalars): JobState {
  const { state: name, run_at_ms } = columns;
  switch (name) {
    case "blocked":
      return { name };
    case "scheduled":
    case "pending":
      return { name, run_at_ms };
    case "running": {
      const { holder, expires_at_ms, cancel_requested_at_ms } = columns;
      return { name, holder: holder ?? "", expires_at_ms: expires_at_ms ?? 0, cancel_requested_at_ms };
    }
    default:
      return { name, finished_at_ms: columns.finished_at_ms ?? columns.created_at_ms };
  }
}

/** The columns of a job that a state decides: name, run_at_ms, finished_at_ms. */
export function stateColumns(state: JobState): [StateName, number | null, number | null] {
  if (isFinished(state)) return [state.name, null, state.finished_at_ms];
  return [state.name, "run_at_ms" in state ? state.run_at_ms : null, null];
}

export function toAttempt(row: SqlRow): AttemptRecord {
  const { values, damage } = ATTEMPT.read(row);
  const { attempt, cause, beats, exit_code, signal, last_line } = values;
  const error = damage === null ? values.error : `${DAMAGED}${damage}`;
  // One that has ended for a cause that can't be read has ended all the same.
  const ended = cause ?? (row["cause"] === null || damage === null ? null : "lost");
  return {
    attempt,
    token: attempt,
    worker: values.worker,
    host: values.host,
    process: toProcess(row),
    lease_ms: values.lease_ms,
    started_at_ms: values.started_at_ms,
    ended_at_ms: values.ended_at_ms,
    end: ended === null ? null : { cause: ended, exit_code, signal, error, output: null, last_line, beats },
    beats,
  };
}

export function toProcess(row: SqlRow): ProcessIdentity | null {
  const { values, damage } = PROCESS.read(row);
  return damage === null ? { boot_id: values.boot_id, pid: values.pid, pid_started: values.pid_started } : null;
}

export function toCheckpoint(row: SqlRow): Checkpoint {
  const { job_id: job, ...rest } = CHECKPOINT.read(row).values;
  return { job, ...rest };
}

export function toWorker(row: SqlRow): WorkerRecord {
  const { draining, ...rest } = WORKER.read(row).values;
  return { ...rest, draining: draining !== 0, process: toProcess(row) ?? PROCESS.instead };
}

/** One that can't be read has taught nothing: learning begins anew. */
export function toLearned(row: SqlRow): Learned | null {
  const { values, damage } = LEARNED.read(row);
  return damage === null ? conclude(values.runs, values.gaps) : null;
}

/** As a worker is saved. */
export const WORKER_COLUMNS: readonly string[] = Object.keys({ ...PROCESS.instead, ...WORKER.instead });

/** In the same order. */
export function workerColumns({ process, queues, draining, ...rest }: WorkerRecord): SqlValue[] {
  const texts = { queues: queues === null ? null : JSON.stringify(queues), draining: draining ? 1 : 0 };
  const columns: Readonly<Record<string, SqlValue>> = { ...rest, ...process, ...texts };
  return WORKER_COLUMNS.map((name) => columns[name] ?? null);
}
