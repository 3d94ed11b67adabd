/**
 * Jobs and ends of attempts for tests: everything has a harmless default, a test names only what it is about.
 */

import { DEFAULT_SETTINGS, type Job, type JobSettings, type JobState, type NewJob } from "../../src/core/job.ts";
import type { Cause } from "../../src/core/job.ts";
import type { AttemptEnd } from "../../src/core/transition.ts";

/** Delays can be calculated in the head: 1 s, 2 s, 4 s…, with nothing left to chance. */
const PLAIN_BACKOFF = { first_ms: 1_000, factor: 2, max_ms: 600_000, jitter: 0 };

export type JobOverrides = Partial<Omit<NewJob, "settings">> & { settings?: Partial<JobSettings> };

export function settings(overrides: Partial<JobSettings> = {}): JobSettings {
  return { ...DEFAULT_SETTINGS, backoff: PLAIN_BACKOFF, ...overrides };
}

export function newJob(overrides: JobOverrides = {}): NewJob {
  return {
    argv: ["true"],
    queue: "default",
    task: null,
    key: null,
    if_exists: "skip",
    priority: 0,
    input: null,
    cwd: "/",
    env: {},
    run_at_ms: null,
    delay_ms: 0,
    after: [],
    after_any: [],
    after_failed: [],
    after_task: [],
    limits: [],
    needs: {},
    ...overrides,
    settings: settings(overrides.settings),
  };
}

/** A job as a store would have it, in the state given. */
export function jobIn(
  state: JobState,
  overrides: Partial<Omit<Job, "settings" | "state">> & { settings?: Partial<JobSettings> } = {},
): Job {
  return {
    id: 1,
    state,
    queue: "default",
    task: null,
    key: null,
    priority: 0,
    argv: ["true"],
    input: null,
    cwd: "/",
    env: {},
    token: 0,
    failures: 0,
    result: { cause: null, exit_code: null, error: null, output: null },
    progress: null,
    message: null,
    reason: null,
    created_at_ms: 0,
    run_at_ms: 0,
    started_at_ms: null,
    last_beat_at_ms: null,
    limits: [],
    needs: {},
    ...overrides,
    settings: settings(overrides.settings),
  };
}

const EXIT_CODES: Partial<Record<Cause, number>> = { success: 0, exit: 1, not_found: 127, not_executable: 126 };

export function end(cause: Cause, overrides: Partial<AttemptEnd> = {}): AttemptEnd {
  return {
    cause,
    exit_code: EXIT_CODES[cause] ?? null,
    signal: cause === "signal" ? "SIGKILL" : null,
    error: cause === "success" ? null : `ended by ${cause}`,
    output: null,
    last_line: null,
    beats: 0,
    ...overrides,
  };
}
