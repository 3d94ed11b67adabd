/** A job that is being put together: what it is when nobody has said anything about it. */

import { DEFAULT_QUEUE, DEFAULT_SETTINGS, type JobSettings, type NewJob } from "./job.ts";

type Writable<T> = { -readonly [K in keyof T]: T[K] };

export interface JobDraft extends Writable<NewJob> {
  settings: Writable<JobSettings>;
}

export function draftJob(cwd: string): JobDraft {
  return {
    argv: [],
    queue: DEFAULT_QUEUE,
    task: null,
    key: null,
    if_exists: "skip",
    priority: 0,
    input: null,
    cwd,
    env: {},
    settings: { ...DEFAULT_SETTINGS },
    run_at_ms: null,
    delay_ms: 0,
    after: [],
    after_any: [],
    after_failed: [],
    after_task: [],
    limits: [],
    needs: {},
  };
}
