/** Jobs as the library shows and takes them: the names of the JSON, with input and output as what they say. */

import { LeaseError } from "../core/errors.ts";
import { DEFAULT_SETTINGS, type Job, type NewJob } from "../core/job.ts";
import { draftJob, type JobDraft } from "../core/draft.ts";
import type { JobFieldName } from "../core/job_fields.ts";
import { jobOfObject } from "../config/job_json.ts";
import { parseAt } from "../config/at.ts";
import { resolve } from "node:path";
import process from "node:process";
import { jobJson, type attemptJson, type checkpointJson } from "../view/json.ts";

/** What a job works on or results in, where nobody says more about it. */
// oxlint-disable-next-line typescript/no-explicit-any -- a handler's job.input.pages needs no ceremony
export type Untyped = any;

/** A value that JSON can hold. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json };

/** Fields that are described below; whatever else `lease enqueue` takes is taken as its JSON says it. */
type Described =
  | "argv shell input queue task key if_exists priority delay at after after_any after_failed after_task limit need"
  | "retries backoff retry_on fatal_exit timeout lease interval extension beat grace on_failed pty memory pids cpus cwd env"
  | "log_limit output_limit";
type Words<Text extends string> = Text extends `${infer Word} ${infer Rest}` ? Word | Words<Rest> : Text;
type OtherField = Exclude<JobFieldName, Words<Described>>;

/**
 * A job to enqueue. Names, values and defaults are those of `lease enqueue`'s flags and of its JSON Lines; times are
 * texts such as `"30s"`. It needs an `input` (for a handler), an `argv` (for a worker that runs programs), or both.
 *
 * @example
 * ```ts
 * await queue.enqueue({ queue: "mail", input: { to: "a@b.example" }, key: "welcome-7", retries: 3 });
 * await queue.enqueue({ argv: ["./build.sh", "release"], timeout: "1h" });
 * ```
 */
export interface JobOptions extends Partial<
  Record<OtherField, string | number | boolean | readonly (string | number)[]>
> {
  /** The command, word by word; no shell. */
  argv?: readonly string[];
  /** A line for `sh -c`, instead of `argv`. */
  shell?: string;
  /**
   * What the job works on: text and bytes as they are, anything else as JSON. A handler gets it back in `job.input`,
   * a program on its standard input.
   */
  input?: Json | Uint8Array | object;
  /** The queue that it waits in; `default` unless told. */
  queue?: string;
  /** A label to find, wait for and cancel it by. */
  task?: string;
  /** At most one live job has this key. */
  key?: string;
  /** When a live job has the key: `skip` answers with that one (the default), `fail`, or `replace` it. */
  if_exists?: "skip" | "fail" | "replace";
  /** Higher goes first; 0 unless told. */
  priority?: number;
  /** Not before this time has passed: `"10m"`. */
  delay?: string;
  /** Not before then: `"18:30"`, or RFC 3339. */
  at?: string;
  /** Only when these jobs have completed. */
  after?: number | string | readonly number[];
  /** Only when these have ended, however. */
  after_any?: number | string | readonly number[];
  /** Only when these have failed. */
  after_failed?: number | string | readonly number[];
  /** Only when every job that has this task now has completed. */
  after_task?: string | readonly string[];
  /** Limits that it counts against, besides that of its queue. */
  limit?: string | readonly string[];
  /** What it needs of the machine: `{ gpu: 1, mem: "8G" }`, or as the flag has it, `"gpu,mem=8G"`. */
  need?: string | readonly string[] | Readonly<Record<string, number | string>>;
  /** Runs after the first; 3 unless told. */
  retries?: number;
  /** Pause before a retry: `"1s..10m"` (doubling, the default), `"fixed:30s"`, `"none"`. */
  backoff?: string;
  /** Retry after any failure, or only when the worker was lost. */
  retry_on?: "any" | "lost";
  /** Exit codes not to retry: `"2,64-78"`, or a list. */
  fatal_exit?: string | number | readonly number[];
  /** Hard limit of one attempt; none unless told. */
  timeout?: string;
  /** How long it may be silent before it counts as hung; the worker's unless told. `auto` learns it. */
  lease?: string;
  /** At most one extension of its lease per interval; a tenth of the lease unless told. */
  interval?: string;
  /** What a beat adds to its lease, at most the lease; all of it unless told. */
  extension?: string;
  /** Between telling it to stop and ending it; the worker's unless told. `"never"` is for cancels only. */
  grace?: string;
  /** A line for `sh -c` that is queued when it has failed for good, with `LEASE_FAILED_*` about it. */
  on_failed?: string;
  /** What proves that it works; the worker's unless told. */
  beat?: "output" | "stdout" | "timer" | "manual";
  /** Give a program a terminal. */
  pty?: boolean;
  /** Most memory of a program, where control groups can hold it to that: `"512MiB"`. */
  memory?: string | number;
  /** Most processes of a program. */
  pids?: number;
  /** Most processors of a program: 0.5 is half of one. */
  cpus?: number;
  /** Working folder of a program; the current one unless told. */
  cwd?: string;
  /** Variables of a program. */
  env?: string | Readonly<Record<string, string>>;
  /** Log to keep per attempt: `"16MiB"` (the default), or bytes. */
  log_limit?: string | number;
  /** Result to keep: `"1MiB"` (the default), or bytes. */
  output_limit?: string | number;
}

/** A job as it is, by the names of its JSON; what is absent is null. Times are RFC 3339. */
export interface QueueJob<Input = Untyped, Output = Untyped> extends Omit<
  ReturnType<typeof jobJson>,
  "input" | "output"
> {
  /** What it was enqueued with: what the JSON says, where it is JSON, else the text. */
  input: Input;
  /** What its handler returned, or its program wrote as its result: what the JSON says, else the text. */
  output: Output | null;
}

/** A job with its history: every attempt, newest checkpoints first. */
export interface QueueJobDetail extends QueueJob {
  history: ReturnType<typeof attemptJson>[];
  checkpoints: ReturnType<typeof checkpointJson>[];
}

/** The job of a handler: what it is, and what its earlier attempts have left for it. */
export interface HandlerJob<Input = Untyped> extends QueueJob<Input> {
  /** The input as it was given, byte for byte; null: none. */
  bytes: Uint8Array | null;
  /** What the last `checkpoint(value)` of an earlier attempt noted; null: nothing. */
  checkpoint: Untyped;
}

export function toQueueJob(job: Job, reason?: string | null): QueueJob {
  const json = reason === undefined ? jobJson(job) : jobJson(job, reason);
  return Object.assign(json, { input: decoded(json.input), output: decoded(json.output) });
}

export function toHandlerJob(job: Job, checkpoint: string | null): HandlerJob {
  return Object.assign(toQueueJob(job, null), { bytes: job.input, checkpoint: decoded(checkpoint) });
}

/** What a text says, if it is JSON; else the text. */
function decoded(text: string | null): unknown {
  if (text === null || !/^\s*[-[{"\dtfn]/.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const encoder = new TextEncoder();

function inputBytes(input: unknown): Uint8Array {
  if (input instanceof Uint8Array) return input;
  if (typeof input === "string") return encoder.encode(input);
  const text = jsonOf(input);
  if (text === undefined) throw new LeaseError("usage", `input must be JSON, text or bytes, and is a ${typeof input}`);
  return encoder.encode(text);
}

function jsonOf(input: unknown): string | undefined {
  try {
    return JSON.stringify(input);
  } catch (error) {
    throw new LeaseError("usage", `input can't be written as JSON: ${String(error)}`, { cause: error });
  }
}

/** Checked by what the command line is checked by. */
export function toNewJob(options: JobOptions, now_ms: () => number): NewJob {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new LeaseError("usage", 'a job is an object: { queue: "mail", input: { … } }');
  }
  const { input, ...rest } = options;
  // As one object for all: what says nothing of settings need not be asked which it has.
  const defaults: JobDraft = { ...draftJob(process.cwd()), settings: DEFAULT_SETTINGS };
  if (input !== undefined && input !== null) defaults.input = inputBytes(input);
  return jobOfObject(rest as Readonly<Record<string, unknown>>, defaults, {
    env: process.env,
    folder: (path) => resolve(path),
    moment: (text, name) => parseAt(text, name, now_ms()),
    input: (text) => encoder.encode(text),
  });
}
