/** The flags that describe a job, for every command that makes one: the rows of core/job_fields.ts as flags. */

import { JOB_FIELD_NAMES, jobField, type JOB_FIELDS, type JobFieldName } from "../core/job_fields.ts";
import type { Choice, Value } from "../core/values.ts";
import type { FlagDef } from "./flags.ts";

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
export const JOB_LISTS = ["env", "after", "after_any"] as const satisfies readonly JobFieldName[];
