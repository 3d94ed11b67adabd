/**
 * `lease enqueue --from`: many jobs at once, all or none, from lines of JSON or of text. Reads, checks and writes as it
 * goes, so that memory stays small whatever the source; the store shows the jobs to others at the end only.
 */

import { closeSync, createReadStream, existsSync, fstatSync, mkdtempSync, openSync } from "node:fs";
import { readSync, rmSync, statSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { parseAt } from "../../config/at.ts";
import { jobOfLine } from "../../config/job_json.ts";
import { checkNewJob } from "../../core/check_job.ts";
import { errorText, LeaseError } from "../../core/errors.ts";
import { INPUT_LIMIT_BYTES, type NewJob } from "../../core/job.ts";
import { systemClock } from "../../platform/clock.ts";
import { fillPlaces, hasPlace } from "../../core/places.ts";
import { withStore, type Io, type StoreArgs } from "../../cli/io.ts";
import type { Traces } from "../../observe/traced.ts";
import { inputOf, readInput, unreadable } from "../../cli/new_job.ts";

interface BulkOptions {
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

export async function enqueueBulk(options: BulkOptions, args: StoreArgs, io: Io, traces: Traces): Promise<number> {
  const source = await openSource(options.from);
  try {
    const batches = new Batches(source, options.lines ? textReader(options) : jsonReader(options, io));
    const queued = await withStore(args, io, { create: true }, ({ store }) =>
      traces
        .store(store)
        .enqueueAll(batches, { hold_ms: holdOf(source) })
        .catch((error) => {
          throw batches.explain(error);
        }),
    );
    if (queued.ranges.length === 0) io.stderr(`lease: ${source.name} has no lines: nothing was queued\n`);
    printIds(queued.ranges, io);
    return 0;
  } finally {
    if (source.fd !== 0) closeSync(source.fd);
  }
}

/** Slower than any machine that we have seen: a short line is 20 bytes, and a million of them take four seconds. */
const BYTES_PER_MS = 1_000;
const LITTLE_BYTES = 256 * 1024;
const LONGEST_HOLD_MS = 10 * 60_000;

/** How long the store may be locked for that; a little is over before anybody notices. */
function holdOf({ fd }: Source): number {
  const { size } = fstatSync(fd);
  return size <= LITTLE_BYTES ? 0 : Math.min(LONGEST_HOLD_MS, 1_000 + Math.ceil(size / BYTES_PER_MS));
}

/** Null: nothing on this line. */
type Reader = (line: string) => NewJob | null;

class Batches implements AsyncIterable<readonly NewJob[]> {
  readonly #source: Source;
  readonly #batches: Generator<NewJob[]>;
  readonly #first: IteratorResult<NewJob[]>;
  /** The line of each job of the current batch, and which of all jobs is its first. */
  #numbers: number[] = [];
  #index = 0;

  constructor(source: Source, read: Reader) {
    this.#source = source;
    this.#batches = this.#read(read);
    // Read before there is a store: jobs that will be refused must not make one.
    this.#first = this.#batches.next();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<NewJob[]> {
    if (this.#first.done === false) yield this.#first.value;
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
        let job: NewJob | null;
        try {
          job = read(lines[i] ?? "");
        } catch (error) {
          throw this.#named(number + i, error, "invalid_line");
        }
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

  #named(number: number, error: unknown, code: LeaseError["code"]): LeaseError {
    return new LeaseError(code, `${this.#source.name}:${number}: ${errorText(error)}`, { cause: error });
  }
}

function jsonReader({ defaults }: BulkOptions, io: Io): Reader {
  const now_ms = systemClock.wall_ms();
  const here = process.cwd();
  const context = {
    env: io.env,
    folder: (path: string) => resolve(here, path),
    moment: (text: string, name: string) => parseAt(text, name, now_ms),
    input: (text: string, name: string) =>
      inputOf(text, (path) => readPlainFile(resolve(here, path), `${name} ${text}`)),
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

function textReader({ defaults, shell }: BulkOptions): Reader {
  const make = shell === undefined ? wordsMaker(defaults.argv) : shellMaker(shell);
  const { key } = defaults;
  if (key !== null && !hasPlace(key)) {
    throw new LeaseError("usage", `--key ${key} can have one live job, not one per line: write {} in it for the line`);
  }
  let number = 0;
  return (line) => {
    number += 1;
    const job = { ...defaults, argv: make(line, number), key: key === null ? null : fillPlaces(key, line, number) };
    checkNewJob(job);
    return job;
  };
}

type ArgvMaker = (line: string, number: number) => readonly string[];

function wordsMaker(words: readonly string[]): ArgvMaker {
  if (!words.some(hasPlace)) return (line) => [...words, line];
  return (line, number) => words.map((word) => fillPlaces(word, line, number));
}

/** In a shell line the text must stay one word, whatever is in it. */
function shellMaker(shell: string): ArgvMaker {
  const template = hasPlace(shell) ? shell : `${shell} {}`;
  const quoted = (text: string) => `'${text.replaceAll("'", String.raw`'\''`)}'`;
  return (line, number) => ["sh", "-c", fillPlaces(template, line, number, quoted)];
}

/** One per line. */
export function printIds(ranges: readonly (readonly [from: number, to: number])[], io: Io): void {
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

interface Source {
  /** As messages call it. */
  name: string;
  fd: number;
}

const GROUP_BYTES = 256 * 1024;
/** More than any job that is accepted can take. */
const LINE_LIMIT_BYTES = 16 * 1024 * 1024;
const LF = 10;
const BOM = "\uFEFF";

/** `-` is standard input. */
async function openSource(from: string): Promise<Source> {
  const name = from === "-" ? "stdin" : from;
  try {
    if (from === "-") {
      return { name, fd: fstatSync(0).isFile() ? 0 : await spool(process.stdin as AsyncIterable<Uint8Array>) };
    }
    const stats = statSync(from);
    if (stats.isDirectory()) throw new LeaseError("usage", `--from ${from} is a folder: name a file, or - for stdin`);
    if (stats.isFile()) return { name, fd: openSync(from, "r") };
    return { name, fd: await spool(createReadStream(from) as AsyncIterable<Uint8Array>) };
  } catch (error) {
    if (error instanceof LeaseError) throw error;
    throw unreadable(`--from ${from}`, error);
  }
}

/**
 * A source that is not a plain file may take its time, or never end; it is copied to a private file first, which has no
 * name any more and so goes with this process.
 */
async function spool(pieces: AsyncIterable<Uint8Array>): Promise<number> {
  // Where large things may lie: /tmp is often memory.
  const parent = process.env["TMPDIR"] ?? (existsSync("/var/tmp") ? "/var/tmp" : tmpdir());
  const folder = mkdtempSync(join(parent, "lease-spool-"));
  let fd: number;
  try {
    fd = openSync(join(folder, "lines"), "wx+", 0o600);
  } finally {
    rmSync(folder, { recursive: true });
  }
  let size = 0;
  for await (const piece of pieces) {
    try {
      // With a position, so that what reads the file begins at its beginning.
      for (let at = 0; at < piece.length;) at += writeSync(fd, piece, at, piece.length - at, size + at);
    } catch (error) {
      const message = `the lines could not be kept in ${parent}: ${errorText(error)}; TMPDIR names another folder`;
      throw new LeaseError("store_full", message);
    }
    size += piece.length;
  }
  return fd;
}

/**
 * The lines in groups, as there may be more than fit into memory; `number` is that of a group's first, counted from 1. A
 * last line without an end counts too.
 */
function* groupsOf({ name, fd }: Source): Generator<{ number: number; lines: readonly string[] }> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let buffer = new Uint8Array(GROUP_BYTES);
  let used = 0;
  let number = 1;
  for (;;) {
    if (used >= LINE_LIMIT_BYTES) {
      throw new LeaseError("invalid_line", `${name}:${number}: this line is longer than 16 MiB`);
    }
    if (used === buffer.length) buffer = new Uint8Array(buffer.buffer.transfer(2 * used));
    const more = readSync(fd, buffer, used, buffer.length - used, null);
    const over = more === 0;
    used += more;
    const end = over ? used : buffer.lastIndexOf(LF, used - 1) + 1;
    if (end > 0) {
      const bytes = buffer.subarray(0, end);
      const lines = decode(decoder, bytes, name, number).split("\n");
      if (bytes.at(-1) === LF) lines.pop();
      if (number === 1 && lines[0]?.startsWith(BOM)) lines[0] = lines[0].slice(1);
      yield { number, lines };
      number += lines.length;
      buffer.copyWithin(0, end, used);
      used -= end;
    }
    if (over) return;
  }
}

function decode(decoder: TextDecoder, bytes: Uint8Array, name: string, number: number): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw new LeaseError("invalid_line", `${name}:${number + brokenLine(decoder, bytes)}: this is not valid UTF-8`);
  }
}

/** Which of the lines can't be decoded, counted from 0. */
function brokenLine(decoder: TextDecoder, bytes: Uint8Array): number {
  let line = 0;
  try {
    for (let from = 0; from < bytes.length; line++) {
      const end = bytes.indexOf(LF, from) + 1 || bytes.length;
      decoder.decode(bytes.subarray(from, end));
      from = end;
    }
  } catch {
    // This is the one.
  }
  return line;
}
