/**
 * A log as a plain file, whole and readable without us: the first line is the command, the last one how it ended.
 */

import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";

export class LogFile {
  readonly #fd: number;
  readonly #onFailure: (error: unknown) => void;
  #at_line_start = true;
  #failed = false;

  /** Throws when it can't be made; what goes wrong later is told to `onFailure` once, and ends the file. */
  constructor(
    folder: string,
    job: number,
    attempt: number,
    argv: readonly string[],
    onFailure: (error: unknown) => void = () => {},
  ) {
    this.#onFailure = onFailure;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    this.#fd = openSync(join(folder, `${job}.${attempt}.log`), "w", 0o600);
    writeSync(this.#fd, `$ ${argv.map(quote).join(" ")}\n`);
  }

  write(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#write(bytes);
    this.#at_line_start = bytes[bytes.length - 1] === 10;
  }

  close(how: string): void {
    this.#write(new TextEncoder().encode(`${this.#at_line_start ? "" : "\n"}[${how}]\n`));
    closeSync(this.#fd);
  }

  #write(bytes: Uint8Array): void {
    if (this.#failed) return;
    try {
      for (let at = 0; at < bytes.length;) at += writeSync(this.#fd, bytes, at);
    } catch (error) {
      this.#failed = true;
      this.#onFailure(error);
    }
  }
}

/** Null when none is wanted, or it can't be made: no reason not to run the job, whose log the store has as well. */
export function openLogFile(
  folder: string | null,
  job: number,
  attempt: number,
  argv: readonly string[],
  onFailure: (error: unknown) => void,
): LogFile | null {
  try {
    return folder === null ? null : new LogFile(folder, job, attempt, argv, onFailure);
  } catch (error) {
    onFailure(error);
    return null;
  }
}

function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
