/**
 * What is to run when a job has failed for good: a job like any other, queued in the write in which the other fails, so
 * that there is exactly one however often that write is tried. It never has a hook of its own.
 */

import { draftJob } from "./draft.ts";
import { DEFAULT_BACKOFF } from "./retry.ts";
import { DEFAULT_SETTINGS, type Job, type NewJob } from "./job.ts";
import type { Change } from "./transition.ts";

/** About a quarter of an hour, for a receiver that is down. */
const RETRIES = 10;
/** What goes into a variable must leave room for the others. */
const MOST_CHARACTERS = 8_192;

type Failing = Pick<Job, "id" | "queue" | "priority" | "cwd" | "env" | "settings">;

/** Null where the job goes on, none was asked for, or it is a hook itself. */
export function hookOf(job: Failing, change: Change, last_lines: readonly string[]): NewJob | null {
  const { on_failed, hook } = job.settings;
  if (change.state.name !== "failed" || on_failed === null || hook !== null) return null;
  const { cause, error } = change.result;
  return {
    ...draftJob(job.cwd),
    argv: ["sh", "-c", on_failed],
    queue: job.queue,
    priority: job.priority,
    env: {
      ...job.env,
      LEASE_FAILED_JOB: String(job.id),
      LEASE_FAILED_ATTEMPT: String(change.token),
      LEASE_FAILED_CAUSE: cause ?? "",
      LEASE_FAILED_ERROR: variable(error ?? ""),
      LEASE_FAILED_LAST_LINES: variable(last_lines.join("\n")),
    },
    settings: {
      ...DEFAULT_SETTINGS,
      retries: RETRIES,
      backoff: DEFAULT_BACKOFF,
      hook: { job: job.id, attempt: change.token },
    },
  };
}

/** The end of it is what tells most. */
function variable(text: string): string {
  return text.replaceAll("\0", "").slice(-MOST_CHARACTERS);
}
