/** `lease run`: a job in the foreground. Queued, run here or followed, its output and its exit code passed on. */

import { fstatSync } from "node:fs";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { calibrate, DEFAULT_KILL_GRACE_MS } from "../core/calibration.ts";
import { checkNewJob } from "../core/check_job.ts";
import { LeaseError } from "../core/errors.ts";
import { isFinished, type Job, type NewJob } from "../core/job.ts";
import type { Report } from "../core/report.ts";
import { Foreground } from "../foreground/foreground.ts";
import { observed } from "../observe/observed.ts";
import { VERSION } from "../platform/build_info.ts";
import { systemClock, systemRandom } from "../platform/clock.ts";
import type { TerminalSize } from "../platform/platform.ts";
import type { DoneState, Store } from "../store/store.ts";
import { jobJson, jsonLine } from "../view/json.ts";
import { commandText, quote, visible, withoutPassword } from "../view/text.ts";
import { sentenceRelative } from "../view/time.ts";
import { command } from "../cli/command.ts";
import { section } from "../cli/flags.ts";
import { isTerminal, withStore, type Io } from "../cli/io.ts";
import { JOB_FLAGS, JOB_LISTS } from "../cli/job_flags.ts";
import { JobOutput } from "../cli/job_output.ts";
import { newJob } from "../cli/new_job.ts";
import { onSignals, signalCode } from "../cli/signals.ts";
import { exitCodeOf, tellWhyWaiting, whyNotHere, whyWaiting } from "../cli/waiting.ts";

/** Whoever says one of these thinks of a job that fails, not only of one that is lost. */
const RETRY_FLAGS = ["retries", "backoff", "fatal_exit"] as const;
/** How long what is left to print may take when we were told to end: a reader that stands still must not keep us. */
const LAST_WORDS_MS = 1_000;

export default command({
  meta: { name: "run", description: "Run a job here, or follow the one that runs, and end with its code" },
  args: {
    ...JOB_FLAGS,
    if_exists: {
      ...JOB_FLAGS.if_exists,
      description: "When a live job has the key: follow it, fail, or take its place",
    },
    retry_on: {
      ...JOB_FLAGS.retry_on,
      description: "Retry after any failure, or only when whoever ran it was lost",
      fallback: "lost; any with --retries, --backoff or --fatal-exit",
    },
    ...section("In the foreground", {
      if_done: {
        type: "enum",
        options: ["skip", "rerun", "rerun-failed"],
        default: "rerun-failed",
        description: "When the newest job with the key has ended: answer from it, run again, or do so if it failed",
      },
      remote: { type: "boolean", description: "Leave it to a worker, and only follow" },
      json: { type: "boolean", description: "In the end print the job as JSON on stderr" },
    }),
  },
  repeat: JOB_LISTS,
  rest: "command",
  examples: [
    ["lease run -- make test", "as a job: with its log, its lease and its record"],
    ['lease run --key "$CI_JOB" -- ./test.sh', "a CI step that survives its runner"],
    ["lease run --remote -q gpu -- ./train.sh", "on whatever worker serves the queue"],
  ],
  notes: [
    "With --key: a live job with that key is followed from the beginning of its log; one that nobody runs yet, or whose runner died, is run here; of one that has completed the log is printed again. One that failed or was cancelled is run anew; with --if-done skip a failure is an answer as well.",
    "Standard input, where that is a file or a pipe, is the job's own when it runs here; with --remote it is read to its end first, up to 1 MiB, and kept with the job. What it prints on stdout and stderr stays apart, byte for byte; with --pty everything is stdout.",
    "What fails is not run again unless --retries says so; what is lost is, three times.",
    {
      title: "Signals",
      rows: [
        [
          "INT (Ctrl-C)",
          "cancels the job if it runs here (TERM, --grace, KILL); from that of somebody else it detaches",
        ],
        ["TERM, HUP", "with --key gives the job back, to be taken over by the next run; without cancels it"],
        ["again", "does not wait for the job"],
      ],
    },
  ],
  exit_codes: [
    ["own", "the job's, 128+n when signal n ended it"],
    ["1", "it was cancelled, lost too often or silent for too long"],
    ["124, 126, 127", "its time was over; it can't be executed; it was not found"],
    ["125", "lease itself failed"],
    ["129, 130, 143", "we were told to end before the job had"],
  ],
  run: async ({ args, lists, rest, given, io }) => {
    const { key = null } = args;
    for (const name of ["if_exists", "if_done"] as const) {
      if (!given.has(name) || key !== null) continue;
      throw new LeaseError("usage", `--${name.replace("_", "-")} says what to do about a --key: give that as well`);
    }
    const retry_on = args.retry_on ?? (RETRY_FLAGS.some((name) => args[name] !== undefined) ? "any" : "lost");
    const lends_stdin = args.input === undefined && rest.length > 0 && isFileOrPipe(0);
    const input = args.remote && lends_stdin ? "-" : args.input;
    const job = await newJob({ ...args, input, retry_on }, lists, rest, io);
    const wanted = job.argv.length === 0 && job.input === null && key !== null ? null : job;
    if (wanted !== null) checkNewJob(wanted);
    const { lease_ms } = job.settings;
    const times = calibrate({ lease_ms: typeof lease_ms === "number" ? lease_ms : null });
    const kill_grace_ms = DEFAULT_KILL_GRACE_MS;
    return withStore(args, io, { create: true }, async ({ store, store_url, abandon }) => {
      const signals = new Signals();
      const output = new JobOutput(() => signals.end("SIGPIPE"));
      const plain = reporter(io, args.verbose, signals);
      const watched = await observed({ store, report: plain, version: VERSION, metrics: null, env: io.env });
      const { report, tells_beats } = watched;
      const ground = { store: watched.store, store_url, clock: systemClock, random: systemRandom, version: VERSION };
      const print = output.print.bind(output);
      const lent = { inherits_stdin: lends_stdin && !args.remote, terminal: isTerminal(1) ? OUR_TERMINAL : null };
      const foreground = new Foreground({
        ...ground,
        report,
        tells_beats,
        times,
        kill_grace_ms,
        remote: args.remote,
        foreground: lent,
        adopts: true,
        print,
      });
      let taken = true;
      try {
        const asked = find(store, foreground, { key, wanted, answers: ANSWERS[args.if_done] }, report);
        const id = await signals.unlessLeaving(asked);
        taken = id !== null;
        if (id === null) return leave(signals, abandon, report);
        signals.tell((signal) => stop(signal, foreground, output, key));
        const why = args.remote ? whyWaiting : whyNotHere;
        const told = tellWhyWaiting(store, id, (text) => report("info", text), why);
        const end = await foreground.follow(id).finally(told);
        await Promise.race([output.flushed(), ...(signals.first === null ? [] : [sleep(LAST_WORDS_MS)])]);
        if (output.error !== null) throw output.error;
        if (args.json) io.stderr(jsonLine(jobJson(end)));
        const back = wayBack(id, { key, remote: args.remote, store: given.has("store") ? args.store : undefined });
        return await conclude(store, end, signals.first, back, report);
      } finally {
        signals.release();
        if (taken) await foreground.end();
        await watched.end();
      }
    });
  },
});

function stop(signal: Signal, foreground: Foreground, output: JobOutput, key: string | null): void {
  output.release();
  // Nobody can come back to a job without a key: it would run again, unasked for.
  if (signal === "SIGINT" || signal === "SIGPIPE" || key === null) foreground.cancel(CANCEL_REASONS[signal]);
  else foreground.giveBack();
}

/** Nothing is queued, and nothing is waited for. */
function leave({ first }: Signals, abandon: () => void, report: Report): number {
  abandon();
  report("info", "left: the store, which others hold, has not taken the job");
  return signalCode(first ?? "SIGINT");
}

/** A command that comes back to the job. */
function wayBack(id: number, said: { key: string | null; remote: boolean; store: string | undefined }): string {
  const { key, remote, store } = said;
  const where = store === undefined ? "" : ` --store ${quote(withoutPassword(store))}`;
  if (key === null) return `lease logs${where} -f ${id}`;
  return `lease run${where}${remote ? " --remote" : ""} --key ${quote(key)}`;
}

/** The job to see through: the one of the key, or a new one. With `wanted` null there must be one already. */
async function find(
  store: Store,
  foreground: Foreground,
  { key, wanted, answers }: { key: string | null; wanted: NewJob | null; answers: readonly DoneState[] },
  report: Report,
): Promise<number> {
  // Who brings no command only wants to know how it ended.
  const isAnswer = ({ state }: Job) => (wanted === null ? ANSWERS.skip : answers).some((name) => name === state.name);
  const [newest] = key === null ? [] : await store.list({ key, limit: 1, newest_first: true });
  if (newest !== undefined && isAnswer(newest)) return replay(newest, wanted, report);
  if (wanted === null) {
    if (newest !== undefined && !isFinished(newest.state)) return newest.id;
    throw new LeaseError("usage", `there is no job with key ${key}, and no command to make one: write it after --`);
  }
  const { id, created } = await foreground.enqueue(wanted, { done_answers: answers });
  const [live] = created ? [] : await store.jobs([id]);
  if (live && isAnswer(live)) return replay(live, wanted, report);
  if (live) noteOtherCommand(live, wanted, report);
  if (live?.state.name === "running" && !foreground.own) {
    report("info", `job ${id} with key ${key} is run by ${live.state.holder}; following it`);
  }
  return id;
}

/** Which ends of a job are answers; a job that was cancelled has none to give. */
const ANSWERS = {
  skip: ["completed", "failed"],
  rerun: [],
  "rerun-failed": ["completed"],
} as const satisfies Record<string, readonly DoneState[]>;

/** Whoever changed the command and not the key would take an old result for that of the new one. */
function noteOtherCommand(job: Job, wanted: NewJob | null, report: Report): void {
  if (wanted === null || commandText(job) === commandText(wanted)) return;
  report("warn", `job ${job.id} with key ${job.key} has another command: ${commandText(job)}`);
}

function isFileOrPipe(fd: number): boolean {
  try {
    const stats = fstatSync(fd);
    return stats.isFile() || stats.isFIFO();
  } catch {
    return false;
  }
}

const OUR_TERMINAL: TerminalSize = {
  columns: () => process.stdout.columns,
  rows: () => process.stdout.rows,
  onChange(changed) {
    process.stdout.on("resize", changed);
    return () => process.stdout.off("resize", changed);
  },
};

function replay(job: Job, wanted: NewJob | null, report: Report): number {
  noteOtherCommand(job, wanted, report);
  const now_ms = systemClock.wall_ms();
  const ended = sentenceRelative(isFinished(job.state) ? job.state.finished_at_ms : now_ms, now_ms);
  report("info", `job ${job.id} with key ${job.key} ${job.state.name} ${ended}; its log:`);
  return job.id;
}

/** The exit code, and a line where that alone does not tell; `back` is a command that comes back to the job. */
async function conclude(store: Store, job: Job, signal: Signal | null, back: string, report: Report): Promise<number> {
  const { id, state } = job;
  if (!isFinished(state)) {
    if (state.name === "running") report("info", `left job ${id}, which goes on; come back with: ${back}`);
    else report("info", `left job ${id}, which is ${state.name}; go on with: ${back}`);
    return signalCode(signal ?? "SIGINT");
  }
  const why = job.reason === null ? "" : `: ${job.reason}`;
  if (state.name === "cancelled") report("info", `job ${id} was cancelled${why}`);
  if (state.name === "failed" && job.result.cause !== "exit") report("warn", `job ${id} failed: ${job.result.error}`);
  const interrupted = signal !== null && state.name === "cancelled";
  return interrupted ? signalCode(signal) : exitCodeOf(store, job);
}

/**
 * No log: remarks between what the job prints, as of any command. Quiet once the reader is gone: the end of a pipe is
 * nothing to complain about.
 */
function reporter(io: Io, verbose: boolean, signals: Signals): Report {
  return (level, message) => {
    if (signals.first !== "SIGPIPE" && (level !== "debug" || verbose)) io.stderr(`lease: ${visible(message)}\n`);
  };
}

const CANCEL_REASONS = {
  SIGINT: "interrupted",
  SIGTERM: "whoever ran it was told to end",
  SIGHUP: "whoever ran it lost its terminal",
  SIGPIPE: "nobody reads its output any more",
} as const;
type Signal = keyof typeof CANCEL_REASONS;

/** What we were told; kept until somebody listens. */
class Signals {
  first: Signal | null = null;
  readonly #leaving = Promise.withResolvers<null>();
  #listener: ((signal: Signal) => void) | null = null;
  /** No longer listens. */
  readonly release = onSignals(["SIGINT", "SIGTERM", "SIGHUP"], (signal) => this.end(signal));

  end(signal: Signal): void {
    if (this.first === null) void sleep(LAST_WORDS_MS).then(() => this.#leaving.resolve(null));
    this.first ??= signal;
    this.#listener?.(signal);
  }

  /** Null: we were told to end, and have waited for it as long as anybody would. */
  unlessLeaving<T>(asked: Promise<T>): Promise<T | null> {
    asked.catch(() => {});
    return Promise.race([asked, this.#leaving.promise]);
  }

  tell(listener: (signal: Signal) => void): void {
    this.#listener = listener;
    if (this.first !== null) listener(this.first);
  }
}
