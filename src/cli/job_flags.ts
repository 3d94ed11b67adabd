/** The flags that describe a job, for every command that makes one. */

import { BEATS, DEFAULT_QUEUE } from "../core/job.ts";

const RUNNING = "How it runs";
const ORDER = "When it runs";

/** What `enqueue` and `run` let a person say about a job. */
export const JOB_FLAGS = {
  shell: { type: "string", alias: "c", valueHint: "LINE", description: "Run this line by sh -c instead of a command" },
  queue: { type: "string", alias: "q", valueHint: "NAME", description: "Queue to put it in", fallback: DEFAULT_QUEUE },
  task: { type: "string", alias: "t", valueHint: "NAME", description: "Label to find, wait for and cancel it by" },
  input: { type: "string", valueHint: "TEXT|@FILE|-", description: "What the job reads on its standard input" },
  key: { type: "string", alias: "k", valueHint: "KEY", description: "At most one live job has this key" },
  if_exists: {
    type: "enum",
    options: ["skip", "fail", "replace"],
    default: "skip",
    description: "When a live job has the key: print its id, fail, or take its place",
  },
  priority: {
    type: "string",
    alias: "p",
    valueHint: "N",
    description: "Higher goes first",
    fallback: "0",
    section: ORDER,
  },
  delay: { type: "string", valueHint: "TIME", description: "Not before this time has passed", section: ORDER },
  at: {
    type: "string",
    valueHint: "MOMENT",
    description: "Not before then: 18:30, tomorrow 9:00, 2026-12-24 18:00, or RFC 3339",
    section: ORDER,
  },
  after: { type: "string", valueHint: "IDS", description: "Only when these jobs have completed", section: ORDER },
  after_any: { type: "string", valueHint: "IDS", description: "Only when these have ended, however", section: ORDER },
  retries: { type: "string", valueHint: "N", description: "Runs after the first", fallback: "3", section: RUNNING },
  backoff: {
    type: "string",
    valueHint: "TIMES",
    description: "Pause before a retry, doubled each time: 1s, 1s..10m, fixed:30s, none",
    fallback: "1s..10m",
    section: RUNNING,
  },
  retry_on: {
    type: "enum",
    options: ["any", "lost"],
    default: "any",
    description: "Retry after any failure, or only when the worker was lost",
    section: RUNNING,
  },
  fatal_exit: { type: "string", valueHint: "CODES", description: "Exit codes not to retry: 2,64-78", section: RUNNING },
  lease: {
    type: "string",
    valueHint: "TIME|auto",
    description: "How long it may be silent before it counts as hung; auto learns it from earlier runs",
    fallback: "the worker's, 5m",
    section: RUNNING,
  },
  beat: {
    type: "enum",
    options: BEATS,
    description: "What proves that it works: any line, a line on stdout, just living, or `lease beat`",
    fallback: "the worker's, output",
    section: RUNNING,
  },
  timeout: {
    type: "string",
    valueHint: "TIME",
    description: "Hard limit of one run",
    fallback: "none",
    section: RUNNING,
  },
  pty: {
    type: "boolean",
    description: "Give it a terminal, so that it does not buffer what it prints",
    section: RUNNING,
  },
  cwd: { type: "string", valueHint: "FOLDER", description: "Working folder", fallback: "this one", section: RUNNING },
  env: {
    type: "string",
    valueHint: "A,B=1",
    description: "Variables to take along, a comma in a value as \\,; others come from the worker",
    section: RUNNING,
  },
  log_limit: {
    type: "string",
    valueHint: "SIZE",
    description: "Log to keep per run",
    fallback: "16MiB",
    section: RUNNING,
  },
  output_limit: {
    type: "string",
    valueHint: "SIZE",
    description: "Result ($LEASE_OUTPUT) to keep",
    fallback: "1MiB",
    section: RUNNING,
  },
} as const;

/** Flags of jobs that may be given more than once. */
export const JOB_LISTS = ["env", "after", "after_any"] as const;
