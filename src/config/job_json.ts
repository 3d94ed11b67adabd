/**
 * A job as JSON → a job. The names are those of a job's JSON and of the flags (`retry_on` for `--retry-on`); a value is
 * what the flag takes, as text, or the JSON that says the same (a number, a list of ids, an object of variables). What
 * is left out, or null, is as in `defaults`. Unknown names are refused.
 */

import { checkNewJob } from "../core/check_job.ts";
import type { JobDraft } from "../core/draft.ts";
import { LeaseError, errorText } from "../core/errors.ts";
import type { NewJob } from "../core/job.ts";
import { checkTogether, JOB_FIELD_NAMES, jobField, type FieldContext, type JobField } from "../core/job_fields.ts";
import { nearest } from "../core/nearest.ts";
import { readJson } from "../core/values.ts";

const FIELDS: ReadonlyMap<string, JobField> = new Map(JOB_FIELD_NAMES.map((name) => [name, jobField(name)]));

/** The job that a line of JSON describes, checked; `defaults` are what the command line said. */
export function jobOfLine(line: string, defaults: NewJob, context: FieldContext): NewJob {
  return jobOfObject(parsed(line), defaults, context);
}

export function jobOfObject(
  object: Readonly<Record<string, unknown>>,
  defaults: NewJob,
  context: FieldContext,
): NewJob {
  const job: JobDraft = { ...defaults };
  for (const name in object) {
    const { value, setting, set } = FIELDS.get(name) ?? unknownName(name);
    const given = object[name];
    if (given === null || given === undefined) continue;
    // Copied only when they are written: most lines say nothing about them.
    if (setting !== undefined && job.settings === defaults.settings) job.settings = { ...defaults.settings };
    set(job, readJson(value, given, name), name, context);
  }
  const has = (name: string) => object[name] !== undefined && object[name] !== null;
  checkTogether(
    (name) => (name === "key" ? job.key !== null : has(name)),
    (name) => name,
  );
  if (job.argv.length === 0 && job.input === null)
    refuse(
      'there is no command: give its words, "argv": ["echo", "hi"], or a "shell" line, or an "input" for a handler',
    );
  checkNewJob(job);
  return job;
}

function parsed(line: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    const lines = line.trimStart().startsWith("{") ? "" : "; for a job per line of text, add --lines";
    return refuse(`this is not JSON: ${errorText(error).replace(/^JSON Parse error: /, "")}${lines}`);
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  return refuse('a line is one JSON object: {"argv": ["echo", "hi"]}');
}

function unknownName(name: string): never {
  const meant = nearest(name, JOB_FIELD_NAMES);
  const hint = meant === null ? `use ${JOB_FIELD_NAMES.join(", ")}` : `did you mean ${meant}?`;
  return refuse(`there is no name ${JSON.stringify(name)}; ${hint}`);
}

function refuse(message: string): never {
  throw new LeaseError("usage", message);
}
