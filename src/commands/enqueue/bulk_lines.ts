/**
 * The lines of a source that may be larger than memory, in groups. A source that is not a plain file may take its time,
 * or never end; it is copied to a private file first, which has no name any more and so goes with this process.
 */

import {
  closeSync,
  createReadStream,
  existsSync,
  fstatSync,
  mkdtempSync,
  openSync,
  readSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { errorText, LeaseError } from "../../core/errors.ts";

export interface Source {
  /** As messages call it. */
  name: string;
  fd: number;
}

/** Lines in a row; `number` is that of the first, counted from 1. */
export interface LineGroup {
  number: number;
  lines: readonly string[];
}

const GROUP_BYTES = 256 * 1024;
/** More than any job that is accepted can take. */
const LINE_LIMIT_BYTES = 16 * 1024 * 1024;
const LF = 10;
const BOM = "\uFEFF";

/** `-` is standard input. */
export async function openSource(from: string): Promise<Source> {
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
    throw new LeaseError("usage", `--from ${from} can't be read: ${errorText(error)}`);
  }
}

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
    // With a position, so that what reads the file begins at its beginning.
    for (let at = 0; at < piece.length;) at += keep(fd, piece.subarray(at), size + at, parent);
    size += piece.length;
  }
  return fd;
}

function keep(fd: number, bytes: Uint8Array, position: number, folder: string): number {
  try {
    return writeSync(fd, bytes, 0, bytes.length, position);
  } catch (error) {
    const message = `the lines could not be kept in ${folder}: ${errorText(error)}; TMPDIR names another folder`;
    throw new LeaseError("store_full", message);
  }
}

export function closeSource({ fd }: Source): void {
  if (fd !== 0) closeSync(fd);
}

/** A last line without an end counts too. */
export function* groupsOf({ name, fd }: Source): Generator<LineGroup> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let buffer = new Uint8Array(GROUP_BYTES);
  let used = 0;
  let number = 1;
  for (;;) {
    if (used === buffer.length) buffer = larger(buffer, name, number);
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

function larger(buffer: Uint8Array<ArrayBuffer>, name: string, number: number): Uint8Array<ArrayBuffer> {
  if (buffer.length >= LINE_LIMIT_BYTES) {
    throw new LeaseError("invalid_line", `${name}:${number}: this line is longer than 16 MiB`);
  }
  const more = new Uint8Array(buffer.length * 2);
  more.set(buffer);
  return more;
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
  for (let from = 0; from < bytes.length; line++) {
    const lf = bytes.indexOf(LF, from);
    const end = lf === -1 ? bytes.length : lf + 1;
    try {
      decoder.decode(bytes.subarray(from, end));
    } catch {
      return line;
    }
    from = end;
  }
  return line;
}
