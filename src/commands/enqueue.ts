/** `lease enqueue`: flags and words → one job → its id, alone, on stdout. */

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import process from "node:process";
import {
  parseBackoff,
  parseBytes,
  parseEnv,
  parseExitRanges,
  parseIds,
  parseInteger,
  parseLease,
} from "../config/values.ts";
import { parseDuration } from "../core/duration.ts";
import { LeaseError, errorText } from "../core/errors.ts";
import { BEATS, DEFAULT_QUEUE, DEFAULT_SETTINGS, INPUT_LIMIT_BYTES } from "../core/job.ts";
import type { JobSettings, NewJob } from "../core/job.ts";
import { checkNewJob } from "../core/new_job.ts";
import type { Io } from "./cli/define.ts";
import { command } from "./cli/define.ts";
import { readStdin, withStore } from "./context.ts";

const RUNNING = "How it runs";
const ORDER = "When it runs";

const FLAGS = {
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
    description: "Variables to take along; others come from the worker",
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

type Args = { [K in Exclude<keyof typeof FLAGS, "env">]: string | boolean | undefined } & {
  if_exists: NewJob["if_exists"];
  retry_on: JobSettings["retry_on"];
  beat: JobSettings["beat"] | undefined;
  pty: boolean;
};

export default command({
  meta: { name: "enqueue", description: "Queue a command and print its id" },
  args: FLAGS,
  repeat: ["env", "after", "after_any"],
  rest: "command",
  examples: [
    ["lease enqueue -- ./build.sh release", "runs exactly these words, no shell"],
    ["lease enqueue -c 'make 2>&1 | tee out.log'", "runs a shell line"],
    ["lease enqueue -q mail --input @letter.txt -- bob@example.com", "for the workers of queue mail"],
    ["lease enqueue --key nightly --lease 20m --retries 1 -- ./backup.sh", "one at a time, silent for up to 20m"],
  ],
  notes: [
    "Prints only the id, so that `id=$(lease enqueue -- …)` works. The working folder is recorded.",
    {
      title: "Exit codes",
      rows: [
        ["0", "the id is on disk"],
        ["1", "with --if-exists fail: a live job has the key"],
        ["125", "the store could not be used"],
      ],
    },
  ],
  run: async ({ args, lists, rest, io }) => {
    const job = await newJob(args as unknown as Args, lists, rest, io);
    // Also here, so that a job that will be refused does not make a store.
    checkNewJob(job);
    const [queued] = await withStore(args, io, { create: true }, ({ store }) => store.enqueue([job]));
    io.stdout(`${queued?.id}\n`);
    return 0;
  },
});

type Lists = { env: string[]; after: string[]; after_any: string[] };

async function newJob(args: Args, lists: Lists, words: readonly string[], io: Io): Promise<NewJob> {
  const text = (name: keyof Args) => args[name] as string | undefined;
  const priority = text("priority");
  const delay = text("delay");
  return {
    argv: argvOf(text("shell"), words),
    queue: text("queue") ?? DEFAULT_QUEUE,
    task: text("task") ?? null,
    key: text("key") ?? null,
    if_exists: args.if_exists,
    priority: priority === undefined ? 0 : parseInteger(priority, "--priority"),
    input: await inputOf(text("input")),
    cwd: folderOf(text("cwd")),
    env: parseEnv(lists.env.join(","), "--env", io.env),
    settings: settingsOf(args),
    run_at_ms: null,
    delay_ms: delay === undefined ? 0 : parseDuration(delay, "--delay"),
    after: parseIds(lists.after, "--after"),
    after_any: parseIds(lists.after_any, "--after-any"),
  };
}

function argvOf(shell: string | undefined, words: readonly string[]): readonly string[] {
  if ([shell ?? "", ...words].some((word) => word.includes(REPLACEMENT))) refuseBrokenText();
  if (shell === undefined) return words;
  if (words.length > 0) {
    throw new LeaseError("usage", `-c takes the whole line; "${words[0]}" is one word too many (quote the line)`);
  }
  if (shell.trim() === "") throw new LeaseError("usage", "-c is empty: write the shell line behind it");
  return ["sh", "-c", shell];
}

/** What stands for bytes that are not UTF-8 once the runtime has read them. */
const REPLACEMENT = "\uFFFD";

/** The command would be run with other bytes than were given. The kernel still has them as they were. */
function refuseBrokenText(): void {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(readFileSync("/proc/self/cmdline"));
  } catch {
    throw new LeaseError("invalid_job", "the command is not valid UTF-8: pass such data by --input @FILE");
  }
}

function folderOf(cwd: string | undefined): string {
  try {
    return resolve(process.cwd(), cwd ?? "");
  } catch {
    throw new LeaseError("usage", "the working folder does not exist any more: go to another, or name one with --cwd");
  }
}

async function inputOf(input: string | undefined): Promise<Uint8Array | null> {
  if (input === undefined) return null;
  if (input === "-") return readStdin(INPUT_LIMIT_BYTES);
  if (!input.startsWith("@")) return new TextEncoder().encode(input);
  try {
    return readFileSync(input.slice(1));
  } catch (error) {
    throw new LeaseError("usage", `--input ${input} can't be read: ${errorText(error)}`);
  }
}

function settingsOf(args: Args): JobSettings {
  const given = <T>(name: keyof Args, parse: (text: string, name: string) => T, usual: T): T => {
    const text = args[name] as string | undefined;
    return text === undefined ? usual : parse(text, `--${name.replaceAll("_", "-")}`);
  };
  return {
    retries: given(
      "retries",
      (text, name) => parseInteger(text, name, { min: 0, max: 1_000_000 }),
      DEFAULT_SETTINGS.retries,
    ),
    backoff: given("backoff", parseBackoff, DEFAULT_SETTINGS.backoff),
    retry_on: args.retry_on,
    fatal_exit: given("fatal_exit", parseExitRanges, DEFAULT_SETTINGS.fatal_exit),
    timeout_ms: given<number | null>("timeout", parseDuration, null),
    lease_ms: given<JobSettings["lease_ms"]>("lease", parseLease, null),
    beat: args.beat ?? null,
    pty: args.pty,
    log_limit_bytes: given("log_limit", parseBytes, DEFAULT_SETTINGS.log_limit_bytes),
    output_limit_bytes: given("output_limit", parseBytes, DEFAULT_SETTINGS.output_limit_bytes),
  };
}
