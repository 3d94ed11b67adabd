/**
 * A log as a plain file, whole and readable without us: the first line is the command, the last one how it ended.
 */

import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";

export class LogFile {
  readonly #fd: number;
  #at_line_start = true;

  constructor(folder: string, job: number, attempt: number, argv: readonly string[]) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    this.#fd = openSync(join(folder, `${job}.${attempt}.log`), "w", 0o600);
    writeSync(this.#fd, `$ ${argv.map(quote).join(" ")}\n`);
  }

  write(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    writeSync(this.#fd, bytes);
    this.#at_line_start = bytes[bytes.length - 1] === 10;
  }

  close(ending: string): void {
    writeSync(this.#fd, `${this.#at_line_start ? "" : "\n"}[${ending}]\n`);
    closeSync(this.#fd);
  }
}

function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
