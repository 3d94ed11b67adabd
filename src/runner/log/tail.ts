/**
 * Counts lines in a stream of bytes and remembers the last few, in bounded memory whatever a job prints: a line of a
 * gigabyte is as cheap as a gigabyte of lines. LF, CR and CR LF each end a line; what a job flushed without ending it
 * counts as one, because it proves just as well that the job works.
 */

import type { LogChunk } from "../../core/records.ts";
import { decodeChunk } from "./chunk.ts";

const LF = 10;
const CR = 13;
const TAIL_BYTES = 8 * 1024;
const FIRST_TAIL_BYTES = 256;
const LINE_LIMIT = 500;
/** So many the audit trail keeps. */
export const LAST_LINES = 10;

export class LineCounter {
  #after_cr = false;

  /** How many lines this piece ends, at least one for any bytes at all. */
  count(bytes: Uint8Array): number {
    let lines = 0;
    let after_cr = this.#after_cr;
    // An index loop: this runs over every byte that every job prints.
    for (let i = 0; i < bytes.length; i++) {
      const byte = bytes[i];
      if (byte === LF) {
        if (!after_cr) lines += 1;
        after_cr = false;
      } else if (byte === CR) {
        lines += 1;
        after_cr = true;
      } else after_cr = false;
    }
    this.#after_cr = after_cr;
    return Math.max(lines, bytes.length > 0 ? 1 : 0);
  }
}

const NOTHING = new Uint8Array(0);

/** The newest few kilobytes of what was printed, for "last line" and the audit trail. */
export class Tail {
  #buffer = NOTHING;
  #size = 0;

  add(piece: Uint8Array): void {
    const fresh = piece.length > TAIL_BYTES ? piece.subarray(piece.length - TAIL_BYTES) : piece;
    if (this.#size + fresh.length > this.#buffer.length) this.#makeRoom(fresh.length);
    this.#buffer.set(fresh, this.#size);
    this.#size += fresh.length;
  }

  addChunk(chunk: LogChunk): void {
    for (const { bytes } of decodeChunk(chunk)) this.add(bytes);
  }

  /** Grows up to twice what is kept, so that the old half is given up only now and then, and without any garbage. */
  #makeRoom(bytes: number): void {
    const kept = Math.min(this.#size, Math.max(0, TAIL_BYTES - bytes));
    const least = Math.max(FIRST_TAIL_BYTES, this.#size + bytes);
    const wanted = Math.min(2 * TAIL_BYTES, Math.max(2 * this.#buffer.length, least));
    if (this.#buffer.length < wanted) {
      const grown = new Uint8Array(wanted);
      grown.set(this.#buffer.subarray(0, this.#size));
      this.#buffer = grown;
    }
    if (this.#size + bytes <= this.#buffer.length) return;
    this.#buffer.copyWithin(0, this.#size - kept, this.#size);
    this.#size = kept;
  }

  lastLine(): string | null {
    return this.lines(1)[0] ?? null;
  }

  /** The last `most` lines that say something, oldest first. */
  lines(most: number): string[] {
    // Many jobs are over before they have said anything.
    if (this.#size === 0) return [];
    const lines = new TextDecoder()
      .decode(this.#buffer.subarray(Math.max(0, this.#size - TAIL_BYTES), this.#size))
      .split(/[\r\n]+/);
    const spoken = lines.filter((line) => line.trim() !== "").slice(-most);
    return spoken.map((line) => (line.length > LINE_LIMIT ? `${line.slice(0, LINE_LIMIT)}…` : line));
  }
}
