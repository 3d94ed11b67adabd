/**
 * The plainest `lease enqueue` from its words to the id of the job, in one piece: scripts/build.ts bundles this file
 * alone, because what a start loads and links is most of what it costs. It says yes or nothing. A line that needs a
 * settings file, a clock on the wall, stdin or an error message is left to the whole command; so it must do nothing
 * that the whole command would not do again in the same way.
 */

import { platform } from "#platform";
import { findConfig, nonEmpty, storeLocation, type Env } from "../../config/location.ts";
import { isPlainVariable, type SHARED_SETTINGS, variableName } from "../../config/settings.ts";
import { LeaseError, errorText, type ErrorCode } from "../../core/errors.ts";
import type { NewJob } from "../../core/job.ts";
import { checkNewJob } from "../../core/check_job.ts";
import type { QuickFiles } from "../../platform/platform.ts";
import { quickEnqueue } from "../../store/quick.ts";
import { quickWords, type QuickGrammar } from "../../cli/quick_words.ts";
import { SHARED_FLAGS } from "../../cli/flags.ts";
import { JOB_FLAGS, plainJob } from "../../cli/job_flags.ts";
import { jobField } from "../../core/job_fields.ts";
import { wantsTraces } from "../../core/trace_context.ts";
import { readValue } from "../../core/values.ts";

/** The flags it understands. A line with any other one, also one that is added some day, is the whole command's. */
const UNDERSTOOD = [
  "shell",
  "queue",
  "task",
  "priority",
  "delay",
  "retries",
  "backoff",
  "retry_on",
  "fatal_exit",
  "lease",
  "beat",
  "timeout",
  "pty",
  "cwd",
  "env",
  "log_limit",
  "output_limit",
] as const satisfies (keyof typeof JOB_FLAGS)[];

export const QUICK_GRAMMAR: QuickGrammar = {
  flags: { ...Object.fromEntries(UNDERSTOOD.map((key) => [key, JOB_FLAGS[key]])), store: SHARED_FLAGS.store },
  repeat: ["env"],
  rest: "command",
  names: Object.keys({ ...JOB_FLAGS, ...SHARED_FLAGS }),
};
/** Read by the whole command; the store is all that is read here. */
const NOT_READ = ["color", "verbose", "config"] as const satisfies (keyof typeof SHARED_SETTINGS | "config")[];

/** What to print, and whether that is done; or what went wrong after it was too late to leave it to others. */
export type QuickAnswer = { text: string; printed: boolean } | { code: ErrorCode; message: string };

/** Null: nothing was done. Otherwise the process must end, by endAtOnce, without closing anything: see quickEnqueue. */
export function enqueueQuickly(words: readonly string[], env: Env): QuickAnswer | null {
  const files = platform.quickFiles();
  const plain = files === null ? null : describe(files, words, env);
  if (files === null || plain === null) return null;
  try {
    const id = quickEnqueue(files, plain.store, plain.job, Date.now());
    if (id === null) return null;
    const text = `${id}\n`;
    return { text, printed: files.isGiven(1) && files.write(1, new TextEncoder().encode(text)) === text.length };
  } catch (error) {
    return { code: error instanceof LeaseError ? error.code : "store_failed", message: errorText(error) };
  }
}

function describe(files: QuickFiles, words: readonly string[], env: Env): { store: string; job: NewJob } | null {
  if (isSet(env) || wantsTraces(env)) return null;
  try {
    const line = quickWords(QUICK_GRAMMAR, words);
    if (line === null) return null;
    const { args, lists, rest, behind_dashes } = line;
    // There may be something to say about it.
    if (!behind_dashes && rest.some((word, index) => index > 0 && word.startsWith("-"))) return null;
    if (typeof args["cwd"] === "string" && files.stat(args["cwd"]) === null) return null;
    if (findConfig(undefined, env, (path) => files.stat(path) !== null) !== null) return null;
    for (const name of UNDERSTOOD) {
      const text = args[name];
      if (typeof text === "string") args[name] = readValue(jobField(name).value, text, name);
    }
    const job = plainJob(args, lists, rest, env);
    checkNewJob(job);
    const chosen = (args["store"] as string | undefined) ?? nonEmpty(env["LEASE_STORE"]);
    return { store: storeLocation(chosen, env), job };
  } catch {
    return null;
  }
}

/** Also by a variable that may be a slip of one that counts here: the whole command says so. */
const SETS = /^LEASE_(?:EN[A-Z]*_|[A-Z]+$)/;

function isSet(env: Env): boolean {
  for (const name in env) if (SETS.test(name) && !isPlainVariable(name)) return true;
  return NOT_READ.some((key) => nonEmpty(env[variableName(null, key)]) !== undefined);
}

export function endAtOnce(code: number): void {
  platform.quickFiles()?.exit(code);
}
