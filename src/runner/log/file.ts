/**
 * A log as a plain file, whole and readable without us: the first line is the command, the last one how it ended. It is
 * written only where nobody else could have put something in its place: a link that leads to a file of ours, a file that
 * they can read, a pipe that nobody reads from.
 */

import { closeSync, constants, fchmodSync, fstatSync, ftruncateSync, mkdirSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { LeaseError } from "../../core/errors.ts";

export class LogFile {
  readonly #onFailure: (error: unknown) => void;
  /** Null: it could not be made or written any more. */
  #fd: number | null = null;
  #at_line_start = true;

  /** What goes wrong is told once and ends the file: no reason not to run the job, whose log the store has as well. */
  constructor(
    folder: string,
    job: number,
    attempt: number,
    argv: readonly string[],
    onFailure: (error: unknown) => void = () => {},
  ) {
    this.#onFailure = onFailure;
    try {
      this.#fd = inLogFolder(folder, (path) => openFile(join(path, `${job}.${attempt}.log`)));
    } catch (error) {
      onFailure(error);
    }
    this.#write(new TextEncoder().encode(`$ ${argv.map(quote).join(" ")}\n`));
  }

  write(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#write(bytes);
    this.#at_line_start = bytes[bytes.length - 1] === 10;
  }

  close(how: string): void {
    this.#write(new TextEncoder().encode(`${this.#at_line_start ? "" : "\n"}[${how}]\n`));
    this.#end();
  }

  #write(bytes: Uint8Array): void {
    if (this.#fd === null) return;
    try {
      for (let at = 0; at < bytes.length;) at += writeSync(this.#fd, bytes, at);
    } catch (error) {
      this.#end();
      this.#onFailure(error);
    }
  }

  #end(): void {
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
  }
}

/** Refuses a folder that is not for us alone to write. What else is wrong with it is told when there is a log to write. */
export function checkLogFolder(folder: string): void {
  try {
    inLogFolder(folder, () => null);
  } catch (error) {
    if (error instanceof LeaseError) throw error;
  }
}

/** Calls with a path by which it stays the folder that was looked at, whatever its name leads to by then. */
function inLogFolder<T>(folder: string, work: (path: string) => T): T {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const fd = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    const { uid, mode } = fstatSync(fd);
    const foreign = uid !== process.getuid?.() && uid !== 0;
    if (foreign || (mode & 0o022) !== 0) {
      const what = foreign ? "belongs to another user" : "can be written by others";
      const fix = foreign ? "name a folder of your own" : `chmod go-w ${folder}`;
      throw new LeaseError("usage", `--log-dir ${folder} ${what}, who could lead logs elsewhere: ${fix}`);
    }
    return work(process.platform === "linux" ? `/proc/self/fd/${fd}` : folder);
  } finally {
    closeSync(fd);
  }
}

/** Neither what a link leads to, nor waiting for somebody at the other end of a pipe. */
const SAFELY = constants.O_WRONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** A new file, or the one that an earlier job of that number left there, if it is ours. */
function openFile(path: string): number {
  try {
    return openSync(path, SAFELY | constants.O_CREAT | constants.O_EXCL, 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  const fd = openSync(path, SAFELY);
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile() || stats.uid !== process.getuid?.() || stats.nlink !== 1)
      throw new Error("there is something of that name that is not a log of ours");
    fchmodSync(fd, 0o600);
    ftruncateSync(fd);
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
