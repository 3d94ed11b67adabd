/**
 * What the rows of a store must be to be read. A store is a file or a database that others can write, so nothing in a row
 * is taken on trust: columns of JSON are parsed here, numbers are ones that can be reckoned with, times ones that can be
 * shown, and words ones that are known.
 */

import * as v from "valibot";
import { BEATS, CAUSES, STATE_NAMES } from "../../core/job.ts";
import { LONGEST_LEASE_MS, MOST_GRANTS } from "./columns.ts";

/** The last millisecond that a Date can show. */
export const LATEST_MS = 8_640_000_000_000_000;

const text = v.string();
const textOrNull = v.nullable(text);
const int = v.pipe(v.number(), v.safeInteger());
const intOrNull = v.nullable(int);
const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0), v.maxValue(MOST_GRANTS - 1));
const natural = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const time = v.pipe(v.number(), v.integer(), v.minValue(-LATEST_MS), v.maxValue(LATEST_MS));
const timeOrNull = v.nullable(time);
const finite = v.pipe(v.number(), v.finite());
const lease = v.nullable(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(LONGEST_LEASE_MS)));
const causeOrNull = v.nullable(v.picklist(CAUSES));

const json = v.pipe(v.string(), v.parseJson());

/** What differs from the defaults; what a newer version adds is left out. */
const settings = v.partial(
  v.object({
    backoff: v.object({ first_ms: finite, factor: finite, max_ms: finite, jitter: finite }),
    retry_on: v.picklist(["any", "lost"]),
    fatal_exit: v.array(v.tuple([int, int])),
    timeout_ms: v.nullable(finite),
    beat: v.nullable(v.picklist(BEATS)),
    pty: v.boolean(),
    log_limit_bytes: finite,
    output_limit_bytes: finite,
  }),
);

/** The columns of a job that are JSON. */
export const JOB_JSON = {
  argv: v.pipe(json, v.array(text)),
  settings: v.nullable(v.pipe(json, settings)),
  env: v.nullable(v.pipe(json, v.record(text, text))),
};

/** A job's columns, but for its input, which is bytes or not there. */
export const JOB = v.object({
  ...JOB_JSON,
  id: int,
  state: v.picklist(STATE_NAMES),
  queue: text,
  priority: int,
  run_at_ms: time,
  token: count,
  failures: count,
  retries: natural,
  lease_ms: lease,
  holder: textOrNull,
  expires_at_ms: timeOrNull,
  cancel_requested_at_ms: timeOrNull,
  created_at_ms: time,
  started_at_ms: timeOrNull,
  finished_at_ms: timeOrNull,
  last_beat_at_ms: timeOrNull,
  task: textOrNull,
  key: textOrNull,
  cwd: text,
  progress: v.nullable(finite),
  message: textOrNull,
  cause: causeOrNull,
  exit_code: intOrNull,
  error: textOrNull,
  output: textOrNull,
  reason: textOrNull,
});

export const ATTEMPT = v.object({
  attempt: int,
  worker: text,
  host: text,
  lease_ms: int,
  started_at_ms: time,
  ended_at_ms: timeOrNull,
  cause: causeOrNull,
  exit_code: v.optional(intOrNull, null),
  signal: v.optional(textOrNull, null),
  error: v.optional(textOrNull, null),
  last_line: v.optional(textOrNull, null),
  beats: natural,
});

export const PROCESS = v.object({ boot_id: text, pid: natural, pid_started: natural });

export const CHECKPOINT = v.object({
  id: int,
  job_id: int,
  task: textOrNull,
  kind: v.picklist(["error", "progress"]),
  token: int,
  at_ms: time,
  text,
});

export const WORKER = v.object({
  id: text,
  name: textOrNull,
  host: text,
  version: text,
  queues: v.nullable(v.pipe(json, v.array(text))),
  task: textOrNull,
  slots: natural,
  draining: int,
  completed: natural,
  failed: natural,
  started_at_ms: time,
  seen_at_ms: time,
  stopped_at_ms: timeOrNull,
  ended: v.nullable(v.picklist(["clean", "dead"])),
});

export const LEARNED = v.object({
  runs: natural,
  gaps: v.pipe(json, v.record(text, v.pipe(finite, v.minValue(0)))),
});

// Small facts about the store as a whole.

const total = v.optional(natural, 0);

export const RECOVERY_TOTALS = v.object({
  expired_found: total,
  recovered: total,
  failed: total,
  cancelled: total,
  checkpoints_created: total,
  orphans_killed: total,
  errors: total,
  last_at_ms: time,
});

export const LAST_TRIM = v.object({ id: v.optional(natural), keep: v.optional(natural) });

export const CLOCK_SEEN = v.object({
  boot_id: text,
  booted_at_ms: finite,
  suspends: finite,
  jumped_at_ms: v.nullable(finite),
});
