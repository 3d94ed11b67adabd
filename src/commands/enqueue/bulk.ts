/**
 * `lease enqueue --from`: many jobs at once, all or none, from lines of JSON or of text. Reads, checks and writes as it
 * goes, so that memory stays small whatever the source; the store shows the jobs to others at the end only.
 */

import { statSync } from "node:fs";
import process from "node:process";
import { resolve } from "node:path";
import { parseAt } from "../../config/at.ts";
import { jobOfLine } from "../../config/job_json.ts";
import type { FieldContext } from "../../core/job_fields.ts";
import { errorText, LeaseError } from "../../core/errors.ts";
import { INPUT_LIMIT_BYTES } from "../../core/job.ts";
import type { NewJob } from "../../core/job.ts";
import { checkNewJob } from "../../core/check_job.ts";
import { systemClock } from "../../platform/clock.ts";
import type { BulkEnqueued } from "../../store/store.ts";
import type { Source } from "./bulk_lines.ts";
import { closeSource, groupsOf, openSource } from "./bulk_lines.ts";
import { withStore, type Io } from "../../cli/io.ts";
import { inputOf, readInput } from "../../cli/new_job.ts";

export interface BulkOptions {
  from: string;
  /** One job per line of text, which takes the place of `{}`; else one per line of JSON. */
  lines: boolean;
  defaults: NewJob;
  /** The line of `-c`, whose `{}` is replaced by a quoted word. */
  shell: string | undefined;
}

/** A batch is full with so many jobs, or so much input. */
const BATCH_JOBS = 2_000;
const BATCH_BYTES = 4 * 1024 * 1024;
const PRINT_CHARACTERS = 64 * 1024;

type Args = Parameters<typeof withStore>[0];

export async function enqueueBulk(options: BulkOptions, args: Args, io: Io): Promise<number> {
  const source = await openSource(options.from);
  try {
    const batches = new Batches(source, options.lines ? textReader(options) : jsonReader(options, io));
    // Also here, so that jobs that will be refused do not make a store.
    batches.prepare();
    const queued = await withStore(args, io, { create: true }, ({ store }) =>
      store.enqueueAll(batches).catch((error) => {
        throw batches.explain(error);
      }),
    );
    printIds(queued, io);
    return 0;
  } finally {
    closeSource(source);
  }
}

/** Null: nothing on this line. */
type Reader = (line: string) => NewJob | null;

class Batches implements AsyncIterable<readonly NewJob[]> {
  readonly #source: Source;
  readonly #batches: Generator<NewJob[]>;
  #first: IteratorResult<NewJob[]> | null = null;
  /** The line of each job of the current batch, and which of all jobs is its first. */
  #numbers: number[] = [];
  #index = 0;

  constructor(source: Source, read: Reader) {
    this.#source = source;
    this.#batches = this.#read(read);
  }

  /** Reads the first batch. */
  prepare(): void {
    this.#first = this.#batches.next();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<NewJob[]> {
    if (this.#first?.done === false) yield this.#first.value;
    yield* this.#batches;
  }

  /** What the store had against a job, with the line that asked for it. */
  explain(error: unknown): unknown {
    if (!(error instanceof LeaseError) || error.index === null) return error;
    const number = this.#numbers[error.index - this.#index];
    return number === undefined ? error : this.#named(number, error, error.code);
  }

  *#read(read: Reader): Generator<NewJob[]> {
    let batch: NewJob[] = [];
    let bytes = 0;
    for (const { number, lines } of groupsOf(this.#source)) {
      for (let i = 0; i < lines.length; i++) {
        const job = this.#jobOf(read, lines[i] ?? "", number + i);
        if (job === null) continue;
        batch.push(job);
        this.#numbers.push(number + i);
        bytes += job.input?.length ?? 0;
        if (batch.length < BATCH_JOBS && bytes < BATCH_BYTES) continue;
        yield batch;
        this.#index += batch.length;
        [batch, this.#numbers, bytes] = [[], [], 0];
      }
    }
    if (batch.length > 0) yield batch;
  }

  #jobOf(read: Reader, line: string, number: number): NewJob | null {
    try {
      return read(line);
    } catch (error) {
      throw this.#named(number, error, "invalid_line");
    }
  }

  #named(number: number, error: unknown, code: LeaseError["code"]): LeaseError {
    return new LeaseError(code, `${this.#source.name}:${number}: ${errorText(error)}`, { cause: error });
  }
}

function jsonReader({ defaults }: BulkOptions, io: Io): Reader {
  const now_ms = systemClock.wall_ms();
  const here = process.cwd();
  const context: FieldContext = {
    env: io.env,
    folder: (path) => resolve(here, path),
    moment: (text, name) => parseAt(text, name, now_ms),
    input: (text, name) => inputOf(text, (path) => readPlainFile(resolve(here, path), `${name} ${text}`)),
  };
  return (line) => (line.trim() === "" ? null : jobOfLine(line, defaults, context));
}

/** The store is locked meanwhile: what might keep us waiting is refused. */
function readPlainFile(path: string, name: string): Uint8Array {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats !== undefined && !stats.isFile()) throw new LeaseError("usage", `${name} is not a plain file`);
  if (stats !== undefined && stats.size > INPUT_LIMIT_BYTES) {
    throw new LeaseError("usage", `${name} has ${stats.size} bytes, and the limit is 1 MiB: pass the file's name`);
  }
  return readInput(path, name);
}

const PLACE = "{}";

function textReader({ defaults, shell }: BulkOptions): Reader {
  const make = shell === undefined ? wordsMaker(defaults.argv) : shellMaker(shell);
  const { key } = defaults;
  if (key !== null && !key.includes(PLACE)) {
    throw new LeaseError("usage", `--key ${key} can have one live job, not one per line: write {} in it for the line`);
  }
  return (line) => {
    const job = { ...defaults, argv: make(line), key: key?.replaceAll(PLACE, () => line) ?? null };
    checkNewJob(job);
    return job;
  };
}

function wordsMaker(words: readonly string[]): (line: string) => readonly string[] {
  if (!words.some((word) => word.includes(PLACE))) return (line) => [...words, line];
  return (line) => words.map((word) => word.replaceAll(PLACE, () => line));
}

/** In a shell line the text must stay one word, whatever is in it. */
function shellMaker(shell: string): (line: string) => readonly string[] {
  const template = shell.includes(PLACE) ? shell : `${shell} ${PLACE}`;
  const quoted = (line: string) => `'${line.replaceAll("'", String.raw`'\''`)}'`;
  return (line) => ["sh", "-c", template.replaceAll(PLACE, () => quoted(line))];
}

function printIds({ ranges }: BulkEnqueued, io: Io): void {
  let text = "";
  for (const [from, to] of ranges) {
    for (let id = from; id <= to; id++) {
      text += `${id}\n`;
      if (text.length < PRINT_CHARACTERS) continue;
      io.stdout(text);
      text = "";
    }
  }
  io.stdout(text);
}
