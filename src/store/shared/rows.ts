/**
 * Rows ↔ records, the same for every engine. Settings are stored as what differs from the defaults, so that a default job
 * costs no text.
 *
 * Reading never fails. Of a row that is not as it should be, what can be told is told: a job says in `damaged` and as its
 * error what could not be read, and is never run; the others have something harmless in place of it.
 */

import * as v from "valibot";
import type { Job, JobState, StateName } from "../../core/job.ts";
import { DEFAULT_SETTINGS, isFinished } from "../../core/job.ts";
import type { Learned } from "../../core/learning.ts";
import { conclude } from "../../core/learning.ts";
import type { Attempt, Checkpoint, ProcessIdentity, WorkerRecord } from "../../core/records.ts";
import type { SqlRow, SqlValue } from "../../platform/platform.ts";
import { LEASE_AUTO } from "./columns.ts";
import { ATTEMPT, CHECKPOINT, JOB, JOB_JSON, LEARNED, PROCESS, WORKER } from "./schemas.ts";
import { isSound } from "./sound.ts";

/** How an error begins that says what of a row can't be read. */
export const DAMAGED = "damaged: ";

type Int = number | null;
type Columns<E extends v.ObjectEntries> = v.InferOutput<v.ObjectSchema<E, undefined>>;

interface Read<E extends v.ObjectEntries> {
  columns: Columns<E>;
  /** What is wrong with the row; null when nothing is. */
  damage: string | null;
}

/** `instead` has what stands for a column that can't be read. */
function read<E extends v.ObjectEntries>(
  schema: v.ObjectSchema<E, undefined>,
  row: SqlRow,
  instead: Columns<E>,
): Read<E> {
  const all = v.safeParse(schema, row);
  if (all.success) return { columns: all.output, damage: null };
  const columns: Record<string, unknown> = { ...instead };
  for (const [name, entry] of Object.entries(schema.entries)) {
    const one = v.safeParse(entry as v.GenericSchema, row[name]);
    if (one.success) columns[name] = one.output;
  }
  return { columns: columns as Columns<E>, damage: damageOf(all.issues[0]) };
}

/** Without the value: that may be a secret, and of any length. */
function damageOf(issue: v.BaseIssue<unknown>): string {
  const where = v.getDotPath(issue) ?? "the row";
  if (issue.type === "parse_json") return `${where} is not JSON`;
  if (issue.type === "picklist") return `${where} is none that is known`;
  return issue.kind === "schema" ? `${where} is not of type ${issue.expected}` : `${where} is out of range`;
}

/** A small fact that is kept as JSON; null when there is none, or none that can be read. */
export function fromJson<S extends v.GenericSchema>(schema: S, text: unknown): v.InferOutput<S> | null {
  const found = v.safeParse(v.pipe(v.string(), v.parseJson(), schema), text);
  return found.success ? found.output : null;
}

type JobColumns = v.InferOutput<typeof JOB>;
type JsonColumns = Pick<JobColumns, keyof typeof JOB_JSON>;
type Scalars = Omit<JobColumns, keyof typeof JOB_JSON>;

const NO_JOB: JobColumns = {
  id: 0,
  state: "failed",
  queue: "",
  priority: 0,
  run_at_ms: 0,
  token: 0,
  failures: 0,
  retries: 0,
  lease_ms: null,
  holder: null,
  expires_at_ms: null,
  cancel_requested_at_ms: null,
  created_at_ms: 0,
  started_at_ms: null,
  finished_at_ms: null,
  last_beat_at_ms: null,
  task: null,
  key: null,
  argv: [],
  cwd: "",
  settings: null,
  env: null,
  progress: null,
  message: null,
  cause: null,
  exit_code: null,
  error: null,
  output: null,
  reason: null,
};

export function toJob(row: SqlRow): Job {
  const json = isSound(row) ? readJson(row) : null;
  if (json !== null) return jobOf(row as unknown as Scalars, json, row["input"]);
  // An id and a token are what a job is found and fenced by, be they as odd as they will.
  const { columns, damage } = read(JOB, row, { ...NO_JOB, id: Number(row["id"]), token: Number(row["token"]) });
  const job = jobOf(columns, columns, row["input"]);
  if (damage === null) return job;
  const damaged = `${DAMAGED}${damage}`;
  return { ...job, damaged, result: { ...job.result, error: damaged } };
}

/** Null when one of them can't be read. */
function readJson(row: SqlRow): JsonColumns | null {
  const argv = v.safeParse(JOB_JSON.argv, row["argv"]);
  const settings = row["settings"] === null ? NOTHING : v.safeParse(JOB_JSON.settings, row["settings"]);
  const env = row["env"] === null ? NOTHING : v.safeParse(JOB_JSON.env, row["env"]);
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
export function stateColumns(state: JobState): [StateName, Int, Int] {
  if (isFinished(state)) return [state.name, null, state.finished_at_ms];
  return [state.name, "run_at_ms" in state ? state.run_at_ms : null, null];
}

const NO_ATTEMPT: v.InferOutput<typeof ATTEMPT> = {
  attempt: 0,
  worker: "",
  host: "",
  lease_ms: 0,
  started_at_ms: 0,
  ended_at_ms: null,
  cause: null,
  exit_code: null,
  signal: null,
  error: null,
  last_line: null,
  beats: 0,
};

export function toAttempt(row: SqlRow): Attempt {
  const { columns, damage } = read(ATTEMPT, row, NO_ATTEMPT);
  const { attempt, cause, beats, exit_code, signal, last_line } = columns;
  const error = damage === null ? columns.error : `${DAMAGED}${damage}`;
  // One that has ended for a cause that can't be read has ended all the same.
  const ended = cause ?? (row["cause"] === null || damage === null ? null : "lost");
  return {
    attempt,
    token: attempt,
    worker: columns.worker,
    host: columns.host,
    process: toProcess(row),
    lease_ms: columns.lease_ms,
    started_at_ms: columns.started_at_ms,
    ended_at_ms: columns.ended_at_ms,
    end: ended === null ? null : { cause: ended, exit_code, signal, error, output: null, last_line, beats },
    beats,
  };
}

export function toProcess(row: SqlRow): ProcessIdentity | null {
  const found = v.safeParse(PROCESS, row);
  return found.success ? found.output : null;
}

export function toCheckpoint(row: SqlRow): Checkpoint {
  const instead = { id: 0, job_id: 0, task: null, kind: "error" as const, token: 0, at_ms: 0, text: "" };
  const { job_id: job, ...rest } = read(CHECKPOINT, row, instead).columns;
  return { job, ...rest };
}

/** Serves no queue, as far as can be told. */
const NO_WORKER: v.InferOutput<typeof WORKER> = {
  id: "",
  name: null,
  host: "",
  version: "",
  queues: [],
  task: null,
  slots: 0,
  draining: 0,
  completed: 0,
  failed: 0,
  started_at_ms: 0,
  seen_at_ms: 0,
  stopped_at_ms: null,
  ended: null,
};

/** Pid 0 is nobody's: whether it lives can't be told. */
const NO_PROCESS: ProcessIdentity = { boot_id: "", pid: 0, pid_started: 0 };

export function toWorker(row: SqlRow): WorkerRecord {
  const { draining, ...rest } = read(WORKER, row, NO_WORKER).columns;
  return { ...rest, draining: draining !== 0, process: toProcess(row) ?? NO_PROCESS };
}

/** One that can't be read has taught nothing: learning begins anew. */
export function toLearned(row: SqlRow): Learned | null {
  const found = v.safeParse(LEARNED, row);
  return found.success ? conclude(found.output.runs, found.output.gaps) : null;
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
