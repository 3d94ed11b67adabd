/** What the flags and words of a command line say about a job, but for what takes a look elsewhere: see new_job.ts. */

import process from "node:process";
import type { Env } from "../config/location.ts";
import { LeaseError } from "../core/errors.ts";
import type { NewJob } from "../core/job.ts";
import { draftJob, JOB_FIELD_NAMES, jobField, type FieldContext, type JobFieldName } from "../core/job_fields.ts";
import { readValue } from "../core/values.ts";
import { lazyFs, lazyPath } from "../platform/platform.ts";

/** What was given for JOB_FLAGS, read; what is missing was not. */
export type JobArgs = { readonly [K in JobFieldName]?: unknown };
/** The texts of those that may be given more than once. */
export type JobLists = { readonly [K in JobFieldName]?: readonly string[] };

export type Elsewhere = Pick<FieldContext, "moment" | "input">;

export function plainJob(
  args: JobArgs,
  lists: JobLists,
  words: readonly string[],
  env: Env,
  elsewhere: Elsewhere = NOWHERE,
): NewJob {
  checkBytes([...Object.values(args), ...(lists.env ?? []), ...words], "/proc/self/cmdline", "the command line");
  const job = draftJob(folderOf(args.cwd as string | undefined));
  const context: FieldContext = { env, folder: () => job.cwd, ...elsewhere };
  for (const name of JOB_FIELD_NAMES) {
    const { value, repeatable, set } = jobField(name);
    const flag = name === "shell" ? "-c" : `--${name.replaceAll("_", "-")}`;
    const list = lists[name] ?? [];
    const given = repeatable && list.length > 0 ? readValue(value, list.join(","), flag) : args[name];
    if (given !== undefined) set(job, given, flag, context);
  }
  checkBytes(Object.values(job.env), "/proc/self/environ", "a variable of --env");
  if (args.shell === undefined) job.argv = words;
  else if (words.length > 0) {
    throw new LeaseError("usage", `-c takes the whole line; "${words[0]}" is one word too many (quote the line)`);
  }
  return job;
}

function unavailable(): never {
  throw new LeaseError("usage", "this takes more than the line itself");
}
const NOWHERE: Elsewhere = { moment: unavailable, input: unavailable };

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
