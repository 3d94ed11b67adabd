/**
 * The plainest `lease enqueue` from its words to the id of the job, in one piece: scripts/build.ts bundles this file
 * alone, because what a start loads and links is most of what it costs. It says yes or nothing. A line that needs a
 * settings file, a clock on the wall, stdin or an error message is left to the whole command; so it must do nothing
 * that the whole command would not do again in the same way.
 */

import { platform } from "#platform";
import { findConfig } from "../config/find.ts";
import { nonEmpty, storeLocation, type Env } from "../config/location.ts";
import { type SHARED_SETTINGS, variableName } from "../config/settings.ts";
import { LeaseError, errorText, type ErrorCode } from "../core/errors.ts";
import type { NewJob } from "../core/job.ts";
import { checkNewJob } from "../core/new_job.ts";
import type { QuickFiles } from "../platform/platform.ts";
import { quickEnqueue } from "../store/quick.ts";
import { scan } from "./cli/scan.ts";
import { SHARED_FLAGS } from "./cli/shared.ts";
import { JOB_FLAGS, JOB_LISTS } from "./job_flags.ts";
import { plainJob, type JobArgs, type JobLists } from "./plain_job.ts";

const GRAMMAR = {
  name: "lease enqueue",
  // Not --from and --lines: what is unknown here is known to the whole command.
  flags: { ...JOB_FLAGS, ...SHARED_FLAGS },
  repeat: JOB_LISTS,
  rest: "command",
} as const;
/** What they say takes more than this file has. */
const ELSEWHERE = [
  "input",
  "at",
  "key",
  "if_exists",
  "after",
  "after_any",
] as const satisfies (keyof typeof JOB_FLAGS)[];
/** Read by the whole command; the store is all that is read here. */
const SETTINGS = variableName("enqueue", "");
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
    return { text, printed: files.write(1, new TextEncoder().encode(text)) === text.length };
  } catch (error) {
    return { code: error instanceof LeaseError ? error.code : "store_failed", message: errorText(error) };
  }
}

function describe(files: QuickFiles, words: readonly string[], env: Env): { store: string; job: NewJob } | null {
  if (isSet(env)) return null;
  try {
    const { args, lists, rest, given } = scan(GRAMMAR, words);
    if (args["help"] === true || ELSEWHERE.some((name) => given.has(name))) return null;
    const config = args["config"] as string | undefined;
    if (findConfig(config, env, (path) => files.stat(path) !== null) !== null) return null;
    const job = plainJob(args as unknown as JobArgs, lists as JobLists, rest, env);
    checkNewJob(job);
    const chosen = (args["store"] as string | undefined) ?? nonEmpty(env["LEASE_STORE"]);
    return { store: storeLocation(chosen, env), job };
  } catch {
    return null;
  }
}

function isSet(env: Env): boolean {
  for (const name in env) if (name.startsWith(SETTINGS)) return true;
  return NOT_READ.some((key) => nonEmpty(env[variableName(null, key)]) !== undefined);
}

export function endAtOnce(code: number): void {
  platform.quickFiles()?.exit(code);
}
