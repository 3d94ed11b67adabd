/**
 * Rows ↔ records, the same for every engine.
 *
 * A store is a file or a database that others can write, so nothing in a row is taken on trust: columns of JSON are
 * parsed here, numbers are ones that can be reckoned with, times ones that can be shown, and words ones that are known.
 * Reading never fails. Of a row that is not as it should be, what can be told is told: a job says in `damaged` and as its
 * error what could not be read, and is never run; the others have something harmless in place of it.
 *
 * A column says twice what it must be: as a schema, which also knows what is wrong, and as a test by hand, because a
 * schema takes longer for a row than the engine. The test only ever says yes to what the schema accepts; a test of ours
 * holds the two against each other.
 */

import * as v from "valibot";
import {
  CAUSES,
  DEFAULT_SETTINGS,
  STATE_NAMES,
  isFinished,
  type Job,
  type JobState,
  type StateName,
} from "../../core/job.ts";
import { OPEN_GATE, readGate } from "../../core/gate.ts";
import { once } from "../../core/once.ts";
import { conclude, type Learned } from "../../core/learning.ts";
import {
  FENCES,
  type AttemptRecord,
  type Checkpoint,
  type ProcessIdentity,
  type WorkerRecord,
} from "../../core/records.ts";
import type { SqlRow, SqlValue } from "../../platform/platform.ts";
import { gateColumn, resourcesSchema } from "./bounds.ts";
import {
  RowTable,
  finite,
  given,
  grants,
  int,
  intOrNull,
  natural,
  numberIn,
  orNull,
  parsed,
  string,
  stringOrNull,
  time,
  timeOrNull,
  variables,
  wordOf,
  type ColumnValues,
  type RowColumn,
} from "./cells.ts";
import { LEASE_AUTO, LONGEST_LEASE_MS } from "./columns.ts";
import { SETTINGS } from "./settings.ts";

const causeOrNull = orNull(wordOf(CAUSES, "lost"));

const textList = once(() => v.array(given()));
const gapCounts = once(() => v.record(v.string(), v.pipe(finite(), v.minValue(0))));

/** The columns of a job that are JSON. */
export const JOB_JSON = {
  argv: parsed(textList, []),
  settings: orNull(parsed(SETTINGS, {})),
  env: orNull(parsed(variables, {})),
};

const folder: RowColumn<string> = {
  schema: given,
  test: (value) => typeof value === "string" && !value.includes("\0"),
  instead: "/",
};

/** The others, but for its input, which is bytes or not there. */
export const JOB_COLUMNS = {
  id: int,
  state: wordOf(STATE_NAMES, "failed"),
  queue: string,
  priority: int,
  run_at_ms: time,
  token: grants,
  failures: grants,
  retries: natural,
  lease_ms: orNull(numberIn(0, LONGEST_LEASE_MS)),
  holder: stringOrNull,
  expires_at_ms: timeOrNull,
  cancel_requested_at_ms: timeOrNull,
  created_at_ms: time,
  started_at_ms: timeOrNull,
  finished_at_ms: timeOrNull,
  last_beat_at_ms: timeOrNull,
  task: stringOrNull,
  key: stringOrNull,
  cwd: folder,
  progress: orNull<number>({ schema: finite, test: Number.isFinite, instead: 0 }),
  message: stringOrNull,
  cause: causeOrNull,
  exit_code: intOrNull,
  error: stringOrNull,
  output: stringOrNull,
  reason: stringOrNull,
  gate: gateColumn,
};

const ATTEMPT = new RowTable({
  attempt: int,
  worker: string,
  host: string,
  lease_ms: int,
  started_at_ms: time,
  ended_at_ms: timeOrNull,
  cause: causeOrNull,
  exit_code: intOrNull,
  signal: stringOrNull,
  error: stringOrNull,
  last_line: stringOrNull,
  beats: natural,
  fence: orNull(wordOf(FENCES, "group")),
  cpu_ms: orNull(natural),
  memory_bytes: orNull(natural),
  self_beats: natural,
  extensions: natural,
  extension_failures: natural,
  extension_refusals: natural,
});

/** Pid 0 is nobody's: whether it lives can't be told. */
const PROCESS = new RowTable({ boot_id: string, pid: natural, pid_started: natural });

const CHECKPOINT = new RowTable({
  id: int,
  job_id: int,
  task: stringOrNull,
  kind: wordOf(["error", "progress"], "error"),
  token: int,
  at_ms: time,
  text: string,
});

/** One whose queues can't be read serves none, as far as can be told. */
const WORKER = new RowTable({
  id: string,
  name: stringOrNull,
  host: string,
  version: string,
  queues: { ...orNull(parsed(textList, [])), test: () => false, instead: [] },
  task: stringOrNull,
  commands_only: int,
  slots: natural,
  have: { ...orNull(parsed(resourcesSchema, {})), test: () => false },
  draining: int,
  completed: natural,
  failed: natural,
  started_at_ms: time,
  seen_at_ms: time,
  stopped_at_ms: timeOrNull,
  ended: orNull(wordOf(["clean", "dead"], "dead")),
});

const LEARNED = new RowTable({
  runs: natural,
  gaps: parsed(gapCounts, {}),
});

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
  const argv = row["argv"] === "[]" ? NO_WORDS : v.safeParse(JOB_JSON.argv.schema(), row["argv"]);
  const settings = row["settings"] === null ? NOTHING : v.safeParse(JOB_JSON.settings.schema(), row["settings"]);
  const env = row["env"] === null ? NOTHING : v.safeParse(JOB_JSON.env.schema(), row["env"]);
  if (!argv.success || !settings.success || !env.success) return null;
  return { argv: argv.output, settings: settings.output, env: env.output };
}

const NOTHING = { success: true, output: null } as const;
/** Of jobs that are a function's, and cost no parsing. */
const NO_WORDS = { success: true, output: Object.freeze([]) as unknown as string[] } as const;

function jobOf(columns: Scalars, json: JsonColumns, input: SqlValue | undefined): Job {
  return {
    id: columns.id,
    state: toState(columns),
    queue: columns.queue,
    task: columns.task,
    key: columns.key,
    priority: columns.priority,
    ...(readGate(columns.gate) ?? OPEN_GATE),
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
  const { attempt, cause, exit_code, signal, last_line } = values;
  const beats = values.beats + values.self_beats;
  const error = damage === null ? values.error : `${DAMAGED}${damage}`;
  // One that has ended for a cause that can't be read has ended all the same.
  const ended = cause ?? (row["cause"] === null || damage === null ? null : "lost");
  return {
    attempt,
    token: attempt,
    worker: values.worker,
    host: values.host,
    process: toProcess(row),
    fence: values.fence,
    cpu_ms: values.cpu_ms,
    memory_bytes: values.memory_bytes,
    lease_ms: values.lease_ms,
    started_at_ms: values.started_at_ms,
    ended_at_ms: values.ended_at_ms,
    end: ended === null ? null : { cause: ended, exit_code, signal, error, output: null, last_line, beats },
    beats,
    extensions: {
      attempts: values.extensions + values.extension_failures + values.extension_refusals,
      failures: values.extension_failures,
      refusals: values.extension_refusals,
    },
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
  const { draining, commands_only, have, ...rest } = WORKER.read(row).values;
  const flags = { draining: draining !== 0, commands_only: commands_only !== 0 };
  return { ...rest, ...flags, have: have ?? {}, process: toProcess(row) ?? PROCESS.instead };
}

/** One that can't be read has taught nothing: learning begins anew. */
export function toLearned(row: SqlRow): Learned | null {
  const { values, damage } = LEARNED.read(row);
  return damage === null ? conclude(values.runs, values.gaps) : null;
}

/** Of those that have ended: each `lease run` is a worker, and whoever lists them reads them all. */
export const ENDED_WORKERS_KEPT = 1_000;

/** As a worker is saved. */
export const WORKER_COLUMNS: readonly string[] = Object.keys({ ...PROCESS.instead, ...WORKER.instead });

/** In the same order. */
export function workerColumns({ process, queues, have, draining, commands_only, ...rest }: WorkerRecord): SqlValue[] {
  const texts = { queues: queues === null ? null : JSON.stringify(queues), have: JSON.stringify(have) };
  const flags = { draining: draining ? 1 : 0, commands_only: commands_only ? 1 : 0 };
  const columns: Readonly<Record<string, SqlValue>> = { ...rest, ...process, ...texts, ...flags };
  return WORKER_COLUMNS.map((name) => columns[name] ?? null);
}
