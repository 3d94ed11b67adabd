/**
 * Where a role's log goes: stderr, which nobody waits for. A person may stop a terminal (Ctrl-S) for as long as they like,
 * and a worker that waited in its write would lose its leases meanwhile: what a stopped terminal does not take is dropped,
 * counted, and the count is said when it goes on.
 */

import { closeSync, constants, openSync, writeSync } from "node:fs";
import process from "node:process";
import { once } from "../core/once.ts";
import { isTerminal } from "./io.ts";

interface LogStream {
  /** False when it was dropped; what is only drawn, and soon drawn again, is nothing that anybody misses. */
  write(text: string, drawn?: "drawn"): boolean;
}

/** At a terminal by a description of our own: made not to wait, that of stderr would be so for all who share it. */
export const logStream = once((): LogStream => (isTerminal(2) ? atTerminal() : null) ?? PLAIN);

const PLAIN: LogStream = { write: (text) => process.stderr.write(text) };

function atTerminal(): LogStream | null {
  try {
    const fd = openSync("/proc/self/fd/2", constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    process.once("exit", () => closeSync(fd));
    return new TerminalLog((bytes) => writeSync(fd, bytes));
  } catch {
    return null;
  }
}

const encoder = new TextEncoder();

function notShown(count: number): string {
  const what = count === 1 ? "1 line of the log is" : `${count} lines of the log are`;
  return `\r\n${what} not shown: this terminal was stopped\r\n`;
}

export class TerminalLog implements LogStream {
  /** Answers how much was taken; throws EAGAIN when nothing is. */
  readonly #take: (bytes: Uint8Array) => number;
  /** Of a text that was taken in part: nothing else may come between. */
  #rest: Uint8Array = new Uint8Array(0);
  #dropped = 0;

  constructor(take: (bytes: Uint8Array) => number) {
    this.#take = take;
  }

  write(text: string, drawn?: "drawn"): boolean {
    this.#rest = this.#send(this.#rest);
    if (this.#rest.length > 0) return this.#drop(drawn);
    const said = this.#dropped === 0 ? "" : notShown(this.#dropped);
    const all = encoder.encode(said + text);
    const left = this.#send(all);
    if (left.length === all.length) return this.#drop(drawn);
    this.#rest = left;
    this.#dropped = 0;
    return true;
  }

  #drop(drawn?: "drawn"): false {
    if (drawn === undefined) this.#dropped += 1;
    return false;
  }

  /** What is left of it. */
  #send(bytes: Uint8Array): Uint8Array {
    let left = bytes;
    try {
      while (left.length > 0) left = left.subarray(this.#take(left));
    } catch {
      // Stopped, or gone: nobody reads it.
    }
    return left;
  }
}
