/**
 * Everything that can be said about a job when it is made, one row per field. The name is that of the flag (`retry_on`
 * for `--retry-on`), of the JSON and of lease.toml. From these rows come the flags and their help, JSON Lines, lease.toml
 * and its variables, the library's `enqueue`, completions, and what `inspect` says of a job's settings; so a new field
 * is a row here and what it means.
 */

import type { JobDraft } from "./draft.ts";
import { formatDuration } from "./duration.ts";
import { LeaseError } from "./errors.ts";
import { BEATS, DEFAULT_QUEUE, type JobSettings } from "./job.ts";
import { DEFAULT_BACKOFF, type Backoff, type ExitRange } from "./retry.ts";
import { LIMITS, NEEDS } from "./plan_values.ts";
import { TASKS } from "./value_lists.ts";
import * as values from "./values.ts";
import type { Value } from "./values.ts";

/** What a field may have to ask of the world around it. */
export interface FieldContext {
  env: Readonly<Record<string, string | undefined>>;
  /** An absolute path for one that may be relative. */
  folder: (path: string) => string;
  /** `name` is what an error calls the field. */
  moment: (text: string, name: string) => number;
  input: (text: string, name: string) => Uint8Array;
}

/** How the command line and help have it. */
interface FieldFlag {
  alias?: string;
  description: string;
  /** What holds when it is not given, in words. */
  fallback?: string;
  section?: string;
}

export interface JobField<T = unknown> {
  value: Value<T>;
  /** Null: the words of the command line say it. */
  flag: FieldFlag | null;
  /** May come from a variable or lease.toml: not what makes one job different from the next. */
  configurable: boolean;
  /** The flag may be given more than once; together they are one list, by commas. */
  repeatable: boolean;
  /** `name` is what an error calls the field. */
  set: (job: JobDraft, value: T, name: string, context: FieldContext) => void;
  setting?: Setting;
}

/** A field that is one of the job's settings, with what people read about it. */
interface Setting {
  name: keyof JobSettings;
  wording: (settings: JobSettings) => string;
}

interface Row<T> extends FieldFlag {
  value: Value<T>;
  configurable?: boolean;
  repeatable?: boolean;
}

function field<T, V extends Value<T>>(
  { value, configurable = false, repeatable = false, ...flag }: Row<T> & { value: V },
  set: JobField<T>["set"],
): JobField<T> & { value: V } {
  return { value, flag, configurable, repeatable, set };
}

function setting<K extends keyof JobSettings, V extends Value<NonNullable<JobSettings[K]>>>(
  name: K,
  row: Row<NonNullable<JobSettings[K]>> & { value: V },
  wording: (value: JobSettings[K]) => string,
): JobField<NonNullable<JobSettings[K]>> & { value: V } {
  const set = (job: JobDraft, value: NonNullable<JobSettings[K]>) => {
    (job.settings as Pick<JobSettings, K>)[name] = value;
  };
  const made = field<NonNullable<JobSettings[K]>, V>({ configurable: true, section: RUNNING, ...row }, set);
  return { ...made, setting: { name, wording: (settings) => wording(settings[name]) } };
}

function retriesWording(retries: number): string {
  return retries === 0 ? "no retries" : `${retries} ${retries === 1 ? "retry" : "retries"}`;
}

function backoffWording({ first_ms, factor, max_ms, jitter }: Backoff): string {
  if (max_ms === 0) return "backoff none";
  const growth = factor === 1 ? "" : ` ×${factor} to ${formatDuration(max_ms)}`;
  const spread = jitter === DEFAULT_BACKOFF.jitter ? "" : ` ±${Math.round(jitter * 100)} %`;
  return `backoff ${formatDuration(first_ms)}${growth}${spread}`;
}

function rangesWording(ranges: readonly ExitRange[]): string {
  return ranges.map(([from, to]) => (from === to ? String(from) : `${from}-${to}`)).join(",");
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

export function bytesWording(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** power;
  return `${Number.isInteger(value) ? value : value.toFixed(1)} ${UNITS[power]}`;
}

const RUNNING = "How it runs";
const ORDER = "When it runs";

export const JOB_FIELDS = {
  argv: { ...field({ value: values.WORDS, description: "" }, (job, words) => (job.argv = words)), flag: null },
  shell: field(
    { value: values.textValue("LINE"), alias: "c", description: "Run this line by sh -c instead of a command" },
    (job, line, name) => {
      if (line.trim() === "") throw new LeaseError("usage", `${name} is empty: write the line to run`);
      job.argv = ["sh", "-c", line];
    },
  ),
  queue: field(
    { value: values.QUEUE, alias: "q", description: "Queue to put it in", fallback: DEFAULT_QUEUE, configurable: true },
    (job, queue) => (job.queue = queue),
  ),
  task: field(
    { value: values.TASK, alias: "t", description: "Label to find, wait for and cancel it by", configurable: true },
    (job, task) => (job.task = task),
  ),
  input: field(
    { value: values.textValue("TEXT|@FILE|-", "at_file"), description: "What the job reads on its standard input" },
    (job, text, name, context) => (job.input = context.input(text, name)),
  ),
  key: field(
    { value: values.KEY, alias: "k", description: "At most one live job has this key" },
    (job, key) => (job.key = key),
  ),
  if_exists: field(
    {
      value: values.choice(["skip", "fail", "replace"]),
      description: "When a live job has the key: print its id, fail, or take its place",
      fallback: "skip",
      configurable: true,
    },
    (job, answer) => (job.if_exists = answer),
  ),
  priority: field(
    {
      value: values.integer(),
      alias: "p",
      description: "Higher goes first",
      fallback: "0",
      section: ORDER,
      configurable: true,
    },
    (job, priority) => (job.priority = priority),
  ),
  delay: field(
    { value: values.DURATION, description: "Not before this time has passed", section: ORDER },
    (job, delay_ms) => {
      job.delay_ms = delay_ms;
      job.run_at_ms = null;
    },
  ),
  at: field(
    {
      value: values.textValue("MOMENT"),
      description: "Not before then: 18:30, tomorrow 9:00, 2026-12-24 18:00, or RFC 3339",
      section: ORDER,
    },
    (job, text, name, context) => {
      job.run_at_ms = context.moment(text, name);
      job.delay_ms = 0;
    },
  ),
  after: field(
    { value: values.PARENTS, description: "Only when these jobs have completed", section: ORDER, repeatable: true },
    (job, ids) => (job.after = ids),
  ),
  after_any: field(
    { value: values.PARENTS, description: "Only when these have ended, however", section: ORDER, repeatable: true },
    (job, ids) => (job.after_any = ids),
  ),
  after_failed: field(
    { value: values.PARENTS, description: "Only when these have failed for good", section: ORDER, repeatable: true },
    (job, ids) => (job.after_failed = ids),
  ),
  after_task: field(
    {
      value: TASKS,
      description: "Only when every job that this label has now has completed",
      section: ORDER,
      repeatable: true,
    },
    (job, tasks) => (job.after_task = tasks),
  ),
  limit: field(
    {
      value: LIMITS,
      description: "Only within this limit, which others may have joined as well: see lease limit",
      section: ORDER,
      configurable: true,
      repeatable: true,
    },
    (job, names) => (job.limits = names),
  ),
  need: field(
    {
      value: NEEDS,
      description: "Only where a worker has this free (--have): gpu, gpu=2, mem=8G",
      section: ORDER,
      configurable: true,
      repeatable: true,
    },
    (job, needs) => (job.needs = needs),
  ),
  retries: setting(
    "retries",
    { value: values.integer({ min: 0, max: 1_000_000 }), description: "Runs after the first", fallback: "3" },
    retriesWording,
  ),
  backoff: setting(
    "backoff",
    {
      value: values.BACKOFF,
      description: "Pause before a retry, doubled each time: 1s, 1s..10m, fixed:30s, none",
      fallback: "1s..10m",
    },
    backoffWording,
  ),
  retry_on: setting(
    "retry_on",
    {
      value: values.choice(["any", "lost"]),
      description: "Retry after any failure, or only when the worker was lost",
      fallback: "any",
    },
    (causes) => (causes === "lost" ? "retried only when its worker is lost" : "retried whatever the cause"),
  ),
  fatal_exit: setting(
    "fatal_exit",
    { value: values.EXIT_RANGES, description: "Exit codes not to retry: 2,64-78" },
    (ranges) => `exit ${rangesWording(ranges)} not retried`,
  ),
  timeout: setting(
    "timeout_ms",
    { value: values.DURATION, description: "Hard limit of one run", fallback: "none" },
    (ms) => `timeout ${ms === null ? "none" : formatDuration(ms)}`,
  ),
  lease: setting(
    "lease_ms",
    {
      value: values.LEASE,
      description: "How long it may be silent before it counts as hung; auto learns it from earlier runs",
      fallback: "the worker's, 5m",
    },
    (lease) => `lease ${typeof lease === "number" ? formatDuration(lease) : (lease ?? "of the worker")}`,
  ),
  interval: setting(
    "interval_ms",
    {
      value: values.DURATION,
      description: "At most one extension of its lease per",
      fallback: "a tenth of --extension",
    },
    (ms) => `interval ${ms === null ? "of the worker" : formatDuration(ms)}`,
  ),
  extension: setting(
    "extension_ms",
    {
      value: values.DURATION,
      description: "How long it may go on after each beat, the lease being what it has at first",
      fallback: "the lease",
    },
    (ms) => `extension ${ms === null ? "of the worker" : formatDuration(ms)}`,
  ),
  beat: setting(
    "beat",
    {
      value: values.choice(BEATS),
      description: "What proves that it works: any line, a line on stdout, just living, or `lease beat`",
      fallback: "the worker's, output",
    },
    (beat) => `beats by ${beat ?? "the worker's choice"}`,
  ),
  grace: setting(
    "grace_ms",
    {
      value: values.GRACE,
      description: "When it is told to end, the time before it is killed; never: a cancel sends it nothing",
      fallback: "the cancel's, or the worker's, 10s",
    },
    (grace) => `grace ${typeof grace === "number" ? formatDuration(grace) : (grace ?? "of the worker")}`,
  ),
  on_failed: setting(
    "on_failed",
    {
      value: values.LINE,
      description: "A line for sh -c to queue when it has failed for good; LEASE_FAILED_* tell it of the job",
      fallback: "none",
    },
    (line) => `when it fails: ${line ?? "nothing"}`,
  ),
  pty: setting(
    "pty",
    { value: values.SWITCH, description: "Give it a terminal, so that it does not buffer what it prints" },
    (pty) => (pty ? "on a terminal (pty)" : "no terminal"),
  ),
  cwd: field(
    { value: values.FOLDER, description: "Working folder", fallback: "this one", section: RUNNING },
    (job, folder, _name, context) => (job.cwd = context.folder(folder)),
  ),
  env: field(
    {
      value: values.ENV,
      description: "Variables to take along, a comma in a value as \\,; others come from the worker",
      section: RUNNING,
      configurable: true,
      repeatable: true,
    },
    (job, variables, name, { env }) => {
      const taken: Record<string, string> = { ...job.env };
      for (const [key, value] of Object.entries(variables)) {
        const text = value ?? (Object.hasOwn(env, key) ? env[key] : undefined);
        if (text === undefined)
          throw new LeaseError("usage", `${name} ${key} is not set here: set it, or write ${key}=…`);
        taken[key] = text;
      }
      job.env = taken;
    },
  ),
  memory: setting(
    "memory_bytes",
    { value: values.MEMORY, description: "Memory that all its processes may take, then they are killed" },
    (bytes) => (bytes === null ? "memory without limit" : `memory up to ${bytesWording(bytes)}`),
  ),
  pids: setting(
    "pids",
    { value: values.integer({ min: 1, max: 4_194_304 }), description: "Processes and threads that it may have" },
    (count) => (count === null ? "processes without limit" : `up to ${count} processes`),
  ),
  cpus: setting("cpus", { value: values.CPUS, description: "Processors that it may keep busy: 2, 0.5" }, (count) =>
    count === null ? "all processors" : `up to ${count} ${count === 1 ? "processor" : "processors"}`,
  ),
  log_limit: setting(
    "log_limit_bytes",
    { value: values.SIZE, description: "Log to keep per run", fallback: "16MiB" },
    (bytes) => `log up to ${bytesWording(bytes)}`,
  ),
  output_limit: setting(
    "output_limit_bytes",
    { value: values.SIZE, description: "Result ($LEASE_OUTPUT) to keep", fallback: "1MiB" },
    (bytes) => `output up to ${bytesWording(bytes)}`,
  ),
} as const;

export type JobFieldName = keyof typeof JOB_FIELDS;
export const JOB_FIELD_NAMES = Object.keys(JOB_FIELDS) as JobFieldName[];

/** The row of a field, where its value's type is known at run time only. */
export function jobField(name: JobFieldName): JobField {
  return JOB_FIELDS[name] as JobField;
}

/** What fields say together; `spell` is how an error calls one of them. */
export function checkTogether(given: (name: JobFieldName) => boolean, spell: (name: JobFieldName) => string): void {
  const both = (one: JobFieldName, other: JobFieldName, what: string) => {
    if (!given(one) || !given(other)) return;
    throw new LeaseError("usage", `${spell(one)} and ${spell(other)} both say ${what}: give one of them`);
  };
  both("argv", "shell", "what to run");
  both("at", "delay", "when");
  if (given("if_exists") && !given("key")) {
    const key = spell("key");
    throw new LeaseError("usage", `${spell("if_exists")} says what to do about a ${key}: give that as well`);
  }
}
