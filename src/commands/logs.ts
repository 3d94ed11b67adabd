/** `lease logs`: what a job printed, and what it prints while it runs. */

import { LeaseError } from "../core/errors.ts";
import { isFinished } from "../core/job.ts";
import type { Job } from "../core/job.ts";
import { LogReader } from "../foreground/log_reader.ts";
import { COUNT, readIds } from "../core/values.ts";
import type { Store } from "../store/store.ts";
import { LogText, logJson, prefixed, STAMPED } from "../view/log.ts";
import { TerminalFilter } from "../view/terminal_filter.ts";
import { visible } from "../view/text.ts";
import { command } from "../cli/command.ts";
import { valueFlag } from "../cli/flags.ts";
import { withStore, type Io } from "../cli/io.ts";
import { exitCodeOf, repeat, tellWhyWaiting, whyWaiting } from "../cli/waiting.ts";

const PACE = { every_ms: 500, pause_ms: 0 } as const;
/** Ctrl-C just ends it: there is nothing to put in order. */
const NEVER = new Promise<never>(() => {});
const MOST_LOGS = 1_000;

export default command({
  meta: { name: "logs", description: "Show what a job printed" },
  args: {
    follow: { type: "boolean", alias: "f", description: "Go on until the job has ended" },
    attempt: valueFlag(COUNT, "Of this attempt", { fallback: "the newest" }),
    stream: { type: "enum", options: ["stdout", "stderr", "both"], default: "both", description: "Only this stream" },
    timestamps: { type: "boolean", description: "Begin each line with when it was printed" },
    lines: valueFlag(COUNT, "Only the last lines of what has been printed", { alias: "n" }),
    exit_status: { type: "boolean", description: "End with the job's exit code, as lease wait does" },
    raw: { type: "boolean", description: "Every byte as it was printed, also those that a terminal obeys" },
    json: { type: "boolean", description: "Print each line as an object: job, attempt, stream, at, text" },
  },
  rest: "words",
  operands: "ID…",
  operand_values: { completer: "ids" },
  examples: [
    ["lease logs 7", "both streams in the order in which they came"],
    ["lease logs -f 7", "and what follows, through its retries, until it has ended"],
    ["lease logs -n 20 7-9", "the last lines of three jobs, each behind its id"],
    ["lease logs 7 --attempt 1 --stream stderr --timestamps", "what the first attempt complained about, and when"],
  ],
  exit_codes: [
    ["1", "there is no such job or attempt"],
    ["other", "with --exit-status: the code of the job, or of the first that did not complete; 1 if it has not ended"],
  ],
  run: async ({ args, rest, io }) => {
    const ids = readIds(rest, "logs");
    if (ids.length === 0) throw new LeaseError("usage", "logs of which job? Name its id");
    if (ids.length > MOST_LOGS) throw new LeaseError("usage", `logs of ${ids.length} jobs? Name at most ${MOST_LOGS}`);
    const { attempt = null, lines = null } = args;
    return withStore(args, io, { create: false }, async ({ store }) => {
      const width = Math.max(...ids.map((id) => String(id).length));
      const printers: JobLog[] = [];
      for (const id of ids) {
        const prefix = ids.length > 1 ? `${String(id).padStart(width)} | ` : null;
        const { stream, timestamps, json } = args;
        const filtered = io.is_tty && !args.raw && !json;
        const job = await jobOf(store, id, attempt);
        printers.push(new JobLog(store, job, { stream, timestamps, json, filtered, prefix, attempt }, io));
      }
      for (const printer of printers) await printer.begin(lines);
      if (args.follow) {
        const waiting = printers.map((printer) => printer.tellWhyWaiting());
        await repeat(store, NEVER, PACE, async () => {
          const over: boolean[] = [];
          for (const printer of printers) over.push(await printer.readOn());
          return over.every(Boolean) ? 0 : null;
        });
        for (const told of waiting) told();
      }
      for (const printer of printers) await printer.end(args.follow);
      return args.exit_status ? exitStatus(store, ids) : 0;
    });
  },
});

interface LogOptions {
  stream: "stdout" | "stderr" | "both";
  timestamps: boolean;
  json: boolean;
  /** For a terminal, which must not obey what a job printed. */
  filtered: boolean;
  prefix: string | null;
  /** Null: the newest, and those that follow. */
  attempt: number | null;
}

/** What one job printed, and goes on to print. */
class JobLog {
  readonly #store: Store;
  readonly #job: Job;
  readonly #options: LogOptions;
  readonly #io: Io;
  readonly #text: LogText;
  readonly #log: LogReader;
  /** What a terminal has not been shown of a character that was cut. */
  readonly #flush: () => void;
  #over = false;
  #empty = true;

  constructor(store: Store, job: Job, options: LogOptions, io: Io) {
    this.#store = store;
    this.#job = job;
    this.#options = options;
    this.#io = io;
    const { stream, timestamps, json, filtered, prefix, attempt } = options;
    const plain = timestamps ? STAMPED : null;
    const shown = prefix === null ? plain : prefixed(prefix, plain);
    const format = json ? logJson(job.id, () => this.#log.attempt) : shown;
    const filter = filtered ? new TerminalFilter() : null;
    const write = (bytes: Uint8Array) => {
      this.#empty &&= bytes.length === 0;
      io.stdoutBytes(filter?.push(bytes) ?? bytes);
    };
    this.#text = new LogText({ stream, format }, write);
    this.#flush = () => void (filter !== null && io.stdoutBytes(filter.end()));
    this.#log = new LogReader({
      store,
      job: job.id,
      attempt: attempt ?? Math.max(job.token, 1),
      onEntry: (entry) => this.#text.add(entry),
      onGap: (bytes) => this.#text.gap(bytes),
    });
  }

  async begin(lines: number | null): Promise<void> {
    const { stream } = this.#options;
    if (lines !== null) await this.#log.turnToEnd(lines, (entry) => stream === "both" || entry.stream === stream);
    await this.#log.read();
  }

  tellWhyWaiting(): () => void {
    return tellWhyWaiting(this.#store, this.#job.id, (line) => this.#say(line));
  }

  /** True when nothing more can come. */
  async readOn(): Promise<boolean> {
    while (!this.#over) {
      const now = await jobOf(this.#store, this.#job.id, null);
      const { attempt: wanted } = this.#options;
      // Read the end of the log only after the end of the attempt was seen: nothing can come behind it.
      const over =
        isFinished(now.state) || now.token > this.#log.attempt || (wanted !== null && now.state.name !== "running");
      await this.#log.read();
      if (!over) return false;
      if (wanted !== null || now.token <= this.#log.attempt) {
        this.#over = true;
        this.#text.end();
      } else {
        this.#text.end();
        this.#log.turnTo(this.#log.attempt + 1);
      }
    }
    return true;
  }

  /** A job that has not begun has nothing to show, and that is not the same as one that printed nothing. */
  async end(followed: boolean): Promise<void> {
    this.#text.end();
    this.#flush();
    if (this.#job.token > 0 || isFinished(this.#job.state)) return this.#tellIfEmpty();
    if (followed) return;
    const { text } = await whyWaiting(this.#store, this.#job);
    this.#say(`nothing printed yet: ${text ?? `job ${this.#job.id} is ${this.#job.state.name}`}`);
  }

  /** A person who sees nothing wonders whether anything is wrong; in a pipe nothing is nothing. */
  #tellIfEmpty(): void {
    const { stream } = this.#options;
    if (!this.#empty || !this.#io.is_tty || this.#options.json) return;
    const what = this.#job.token === 0 ? "never ran" : `printed nothing${stream === "both" ? "" : ` on ${stream}`}`;
    this.#say(`job ${this.#job.id} ${what}${this.#job.token > 1 ? ` in attempt ${this.#log.attempt}` : ""}`);
  }

  #say(line: string): void {
    this.#io.stderr(`lease: ${visible(line)}\n`);
  }
}

async function jobOf(store: Store, id: number, attempt: number | null): Promise<Job> {
  const [job] = await store.jobs([id]);
  if (job === null || job === undefined) throw new LeaseError("no_such_job", `there is no job ${id}`);
  if (attempt === null || attempt <= job.token) return job;
  const often = job.token === 1 ? "once" : `${job.token} times`;
  throw new LeaseError("nothing_matched", `job ${id} has no attempt ${attempt}: it has run ${often}`);
}

const UNFINISHED = 1;

async function exitStatus(store: Store, ids: readonly number[]): Promise<number> {
  for (const job of await store.jobs(ids)) {
    const code = job !== null && isFinished(job.state) ? await exitCodeOf(store, job) : UNFINISHED;
    if (code !== 0) return code;
  }
  return 0;
}
