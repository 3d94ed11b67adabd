/** What the flags and words of a command line say about a job, but for what takes a look elsewhere: see new_job.ts. */

import process from "node:process";
import {
  parseBackoff,
  parseBytes,
  parseEnv,
  parseExitRanges,
  parseIds,
  parseInteger,
  parseLease,
} from "../config/values.ts";
import type { Env } from "../config/location.ts";
import { parseDuration } from "../core/duration.ts";
import { LeaseError } from "../core/errors.ts";
import { DEFAULT_QUEUE, DEFAULT_SETTINGS } from "../core/job.ts";
import type { JobSettings, NewJob } from "../core/job.ts";
import { lazyFs, lazyPath } from "../platform/lazy.ts";
import type { JOB_FLAGS, JOB_LISTS } from "./job_flags.ts";

type ListName = (typeof JOB_LISTS)[number];

/** What was given for JOB_FLAGS. */
export type JobArgs = { [K in Exclude<keyof typeof JOB_FLAGS, ListName>]: string | boolean | undefined } & {
  if_exists: NewJob["if_exists"];
  retry_on: JobSettings["retry_on"];
  beat: JobSettings["beat"] | undefined;
  pty: boolean;
};

export type JobLists = Record<ListName, string[]>;

/** Everything but --input and --at. */
export function plainJob(args: JobArgs, lists: JobLists, words: readonly string[], current: Env): NewJob {
  const text = (name: keyof JobArgs) => args[name] as string | undefined;
  checkBytes([...Object.values(args), ...lists.env, ...words], "/proc/self/cmdline", "the command line");
  const priority = text("priority");
  const delay = text("delay");
  const env = Object.assign({}, ...lists.env.map((text_) => parseEnv(text_, "--env", current)));
  checkBytes(Object.values(env), "/proc/self/environ", "a variable of --env");
  return {
    argv: argvOf(text("shell"), words),
    queue: text("queue") ?? DEFAULT_QUEUE,
    task: text("task") ?? null,
    key: text("key") ?? null,
    if_exists: args.if_exists,
    priority: priority === undefined ? 0 : parseInteger(priority, "--priority"),
    input: null,
    cwd: folderOf(text("cwd")),
    env,
    settings: settingsOf(args),
    run_at_ms: null,
    delay_ms: delay === undefined ? 0 : parseDuration(delay, "--delay"),
    after: parseIds(lists.after, "--after"),
    after_any: parseIds(lists.after_any, "--after-any"),
  };
}

function argvOf(shell: string | undefined, words: readonly string[]): readonly string[] {
  if (shell === undefined) return words;
  if (words.length > 0) {
    throw new LeaseError("usage", `-c takes the whole line; "${words[0]}" is one word too many (quote the line)`);
  }
  if (shell.trim() === "") throw new LeaseError("usage", "-c is empty: write the shell line behind it");
  return ["sh", "-c", shell];
}

/** What stands for bytes that are not UTF-8 once the runtime has read them. */
const REPLACEMENT = "\uFFFD";

/**
 * The job would be made of other bytes than were given: another key, another input. The kernel still has them as they
 * were, in `path`.
 */
function checkBytes(values: readonly unknown[], path: string, name: string): void {
  if (!values.some((value) => typeof value === "string" && value.includes(REPLACEMENT))) return;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(lazyFs().readFileSync(path));
  } catch {
    throw new LeaseError("invalid_job", `${name} is not valid UTF-8: pass such data by --input @FILE`);
  }
}

function folderOf(cwd: string | undefined): string {
  try {
    const here = process.cwd();
    return cwd === undefined ? here : lazyPath().resolve(here, cwd);
  } catch {
    throw new LeaseError("usage", "the working folder does not exist any more: go to another, or name one with --cwd");
  }
}

function settingsOf(args: JobArgs): JobSettings {
  const given = <T>(name: keyof JobArgs, parse: (text: string, name: string) => T, usual: T): T => {
    const text = args[name] as string | undefined;
    return text === undefined ? usual : parse(text, `--${name.replaceAll("_", "-")}`);
  };
  return {
    retries: given(
      "retries",
      (text, name) => parseInteger(text, name, { min: 0, max: 1_000_000 }),
      DEFAULT_SETTINGS.retries,
    ),
    backoff: given("backoff", parseBackoff, DEFAULT_SETTINGS.backoff),
    retry_on: args.retry_on,
    fatal_exit: given("fatal_exit", parseExitRanges, DEFAULT_SETTINGS.fatal_exit),
    timeout_ms: given<number | null>("timeout", parseDuration, null),
    lease_ms: given<JobSettings["lease_ms"]>("lease", parseLease, null),
    beat: args.beat ?? null,
    pty: args.pty,
    log_limit_bytes: given("log_limit", parseBytes, DEFAULT_SETTINGS.log_limit_bytes),
    output_limit_bytes: given("output_limit", parseBytes, DEFAULT_SETTINGS.output_limit_bytes),
  };
}
