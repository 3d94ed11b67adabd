/**
 * The flags that describe a job, for every command that makes one (the rows of core/job_fields.ts as flags), and the job
 * that such flags and the words of the line describe, but for what takes a look elsewhere: see new_job.ts.
 */

import process from "node:process";
import type { Env } from "../config/location.ts";
import { LeaseError } from "../core/errors.ts";
import type { NewJob } from "../core/job.ts";
import { draftJob } from "../core/draft.ts";
import { JOB_FIELD_NAMES, jobField } from "../core/job_fields.ts";
import type { FieldContext, JOB_FIELDS, JobFieldName } from "../core/job_fields.ts";
import { continueTrace } from "../core/trace_context.ts";
import { readValue, type Choice, type Value } from "../core/values.ts";
import { lazyFs, lazyPath } from "../platform/platform.ts";
import { flagName, type FlagDef } from "./flags.ts";

type FlaggedName = Exclude<JobFieldName, "argv">;
type FlagOf<V> =
  V extends Choice<infer T>
    ? FlagDef & { type: "enum"; options: readonly T[] }
    : V extends Value<boolean>
      ? FlagDef & { type: "boolean" }
      : FlagDef & { type: "string"; value: V };

type JobFlags = { [K in FlaggedName]: FlagOf<(typeof JOB_FIELDS)[K]["value"]> };

function flagOf(name: JobFieldName): FlagDef[] {
  const { value, flag } = jobField(name);
  if (flag === null) return [];
  if ("options" in value) return [{ type: "enum", options: (value as Choice<string>).options, ...flag }];
  return value.hint === "" ? [{ type: "boolean", ...flag }] : [{ type: "string", value, ...flag }];
}

/** What `enqueue` and `run` let a person say about a job. */
export const JOB_FLAGS = Object.fromEntries(
  JOB_FIELD_NAMES.flatMap((name) => flagOf(name).map((flag) => [name, flag])),
) as JobFlags;

/** Flags of jobs that may be given more than once. */
export const JOB_LISTS = [
  "env",
  "after",
  "after_any",
  "after_failed",
  "after_task",
  "limit",
  "need",
] as const satisfies readonly JobFieldName[];

/** What was given for JOB_FLAGS, read; what is missing was not. */
export type JobArgs = { readonly [K in JobFieldName]?: unknown };
/** The texts of those that may be given more than once. */
export type JobLists = { readonly [K in JobFieldName]?: readonly string[] };

export function plainJob(
  args: JobArgs,
  lists: JobLists,
  words: readonly string[],
  env: Env,
  elsewhere: Pick<FieldContext, "moment" | "input"> = NOWHERE,
): NewJob {
  checkBytes([...Object.values(args), ...(lists.env ?? []), ...words], "/proc/self/cmdline", "the command line");
  const job = draftJob(folderOf(args.cwd as string | undefined));
  const context: FieldContext = { env, folder: () => job.cwd, ...elsewhere };
  for (const name of JOB_FIELD_NAMES) {
    const { value, repeatable, set } = jobField(name);
    const flag = name === "shell" ? "-c" : `--${flagName(name)}`;
    const list = lists[name] ?? [];
    const given = repeatable && list.length > 0 ? readValue(value, list.join(","), flag) : args[name];
    if (given !== undefined) set(job, given, flag, context);
  }
  checkBytes(Object.values(job.env), "/proc/self/environ", "a variable of --env");
  continueTrace(job, env);
  if (args.shell === undefined) job.argv = words;
  else if (words.length > 0) {
    throw new LeaseError("usage", `-c takes the whole line; "${words[0]}" is one word too many (quote the line)`);
  }
  return job;
}

function unavailable(): never {
  throw new LeaseError("usage", "this takes more than the line itself");
}
const NOWHERE = { moment: unavailable, input: unavailable };

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
