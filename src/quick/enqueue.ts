/** The plainest `lease enqueue`, from its words to the id of the job. */

import process from "node:process";
import { findConfig, nonEmpty, storeLocation, type Env } from "../config/location.ts";
import { PATH_LIMIT_BYTES, checkNewJob } from "../core/check_job.ts";
import { draftJob } from "../core/draft.ts";
import { readDuration } from "../core/duration.ts";
import { DEFAULT_SETTINGS, type NewJob } from "../core/job.ts";
import { wantsTraces } from "../core/trace_context.ts";
import type { QuickFiles } from "../platform/platform.ts";
import { quickEnqueue } from "../store/quick.ts";
import { isSetOutside, quickLine, type QuickLine, type QuickWrite } from "./line.ts";

/** The flags it understands, each by the name of its field. A line with any other one, also one that is added some day, is the whole command's. */
export const ENQUEUE_FLAGS: Readonly<Record<string, string>> = {
  "-c": "shell",
  "--shell": "shell",
  "-q": "queue",
  "--queue": "queue",
  "-t": "task",
  "--task": "task",
  "-k": "key",
  "--key": "key",
  "-p": "priority",
  "--priority": "priority",
  "--delay": "delay",
  "--retries": "retries",
  "--timeout": "timeout",
  "--lease": "lease",
  "--after": "after",
  "--store": "store",
};

export function enqueueQuickly(files: QuickFiles, words: readonly string[], env: Env): QuickWrite | null {
  const is_traced = (env["TRACEPARENT"] ?? "") !== "" || wantsTraces(env);
  const line = is_traced || isSetOutside(env, "EN") ? null : quickLine(words, ENQUEUE_FLAGS);
  if (line === null || findConfig(undefined, env, (path) => files.stat(path) !== null) !== null) return null;
  const job = describe(line);
  if (job === null) return null;
  if (!isPlainlyRight(line, job)) checkNewJob(job);
  const store = storeLocation(line.values["store"] ?? nonEmpty(env["LEASE_STORE"]), env);
  return () => {
    const id = quickEnqueue(files, store, job, Date.now());
    return id === null ? null : `${id}\n`;
  };
}

/** No text has more than three bytes for each of its units. */
const SHORT = PATH_LIMIT_BYTES / 3;

/** Where there are no names to check, and nothing can be too long: most lines, and to look closer takes longer than to read them. */
function isPlainlyRight({ values }: QuickLine, { argv, cwd }: NewJob): boolean {
  for (const name in values) if (name !== "store") return false;
  return argv.length > 0 && argv[0] !== "" && argv.length < SHORT && argv.join().length < SHORT && cwd.length < SHORT;
}

/** Of fewer digits than any bound that there is. */
const NUMBER = /^\d{1,6}$/;
const ID = /^[1-9]\d{0,14}$/;

function describe({ values, rest, behind_dashes }: QuickLine): NewJob | null {
  const job = draftJob(process.cwd());
  const { shell, queue, task = null, key = null, after } = values;
  if (shell === undefined) job.argv = rest;
  else if (shell.trim() !== "" && rest.length === 0) job.argv = ["sh", "-c", shell];
  else return null;
  // There may be something to say about it.
  if (!behind_dashes && rest.some((word, index) => index > 0 && word.startsWith("-"))) return null;
  job.task = task;
  job.key = key;
  if (queue !== undefined) job.queue = queue;
  const delay_ms = timeOf(values["delay"], 0);
  const priority = numberOf(values["priority"], 0);
  const parents = after === undefined ? [] : after.split(",");
  const settings = settingsOf(values);
  if (delay_ms === null || priority === null || settings === null || !parents.every((id) => ID.test(id))) return null;
  job.delay_ms = delay_ms;
  job.priority = priority;
  job.settings = settings;
  if (after !== undefined) job.after = [...new Set(parents.map(Number))];
  return job;
}

/** Those of a default job as they are: by that it is known to be one. */
function settingsOf({ retries, timeout, lease }: QuickLine["values"]): NewJob["settings"] | null {
  if (retries === undefined && timeout === undefined && lease === undefined) return DEFAULT_SETTINGS;
  const tried = numberOf(retries, DEFAULT_SETTINGS.retries);
  const timeout_ms = timeout === undefined ? null : timeOf(timeout, 0);
  const lease_ms = lease === undefined || lease === "auto" ? (lease ?? null) : timeOf(lease, 0);
  if (tried === null || (timeout !== undefined && timeout_ms === null) || (lease !== undefined && lease_ms === null))
    return null;
  return { ...DEFAULT_SETTINGS, retries: tried, timeout_ms, lease_ms };
}

function numberOf(text: string | undefined, usual: number): number | null {
  if (text === undefined) return usual;
  return NUMBER.test(text) ? Number(text) : null;
}

function timeOf(text: string | undefined, usual_ms: number): number | null {
  if (text === undefined) return usual_ms;
  const read = readDuration(text);
  return "value" in read ? read.value : null;
}
