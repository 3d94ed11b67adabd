/** What can be done to jobs that wait or run, as a program says it. */

import { changesOf, FIXED_FIELDS, type JobChanges } from "../core/changes.ts";
import { LeaseError } from "../core/errors.ts";
import { toNewJob, type JobOptions } from "./job.ts";

export interface CancelJobs {
  reason?: string;
  /** Between TERM and KILL of a program, or before a handler is left behind: `"30s"`, or `"never"`. */
  grace?: string;
  /** With all that waits for them, in whatever way. */
  cascade?: boolean;
}

type Editable = Omit<JobOptions, (typeof FIXED_FIELDS)[number]>;

/** What of jobs that wait can be changed, as it is said of new ones; null: as if it had never been said. */
export type JobEdits = { [K in keyof Editable]: Editable[K] | null };

export function toChanges(edits: JobEdits, now_ms: () => number): JobChanges {
  const given = edits as Readonly<Record<string, unknown>>;
  const fixed = FIXED_FIELDS.find((name) => given[name] !== undefined);
  if (fixed !== undefined) throw new LeaseError("usage", `${fixed} of a job can't be changed: enqueue another`);
  const said = Object.fromEntries(Object.entries(edits).filter(([, value]) => value !== null)) as JobOptions;
  const changes = changesOf(toNewJob({ ...said, argv: ["true"] }, now_ms), (name) => given[name] !== undefined);
  if (Object.keys(changes).length > 0) return changes;
  throw new LeaseError("usage", "edit what of them? Name it, such as { priority: 10 }");
}
