/**
 * A log as a plain file, whole and readable without us: the first line is the command, the last one how it ended.
 */

import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";

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
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      this.#fd = openSync(join(folder, `${job}.${attempt}.log`), "w", 0o600);
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

function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
