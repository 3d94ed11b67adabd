/**
 * What a job printed, kept for the store: which stream, when, and the bytes as they were. Bounded: the first quarter of
 * the limit and the newest three quarters stay, and positions tell how much is missing between them.
 */

import type { LogChunk } from "../../core/records.ts";
import type { Stream } from "../../platform/platform.ts";
import { encodeChunk, type LogEntry } from "./chunk.ts";

/** Raw bytes that go into one chunk: small enough to compress without a pause that anyone notices. */
const CHUNK_BYTES = 256 * 1024;
/** So many at least make up the limit. */
const PIECES = 4;
const LEAST_PIECE_BYTES = 256;

/** A piece of memory for what was printed. Full-sized ones are used again: a flood must not leave a trail of garbage. */
interface Block {
  bytes: Uint8Array;
  used: number;
  /** Entries that lie in it. */
  entries: number;
}

interface HeldEntry extends LogEntry {
  block: Block;
}

const FIRST_BLOCK_BYTES = 1024;

export class LogCapture {
  readonly head_bytes: number;
  readonly #limit_bytes: number;
  /** What is kept is kept in pieces and chunks of this size at the most: a small limit needs small ones. */
  readonly #piece_bytes: number;
  #entries: HeldEntry[] = [];
  #first = 0;
  #waiting_bytes = 0;
  #total = 0;
  #block: Block | null = null;
  #free: Uint8Array[] = [];

  constructor(limit_bytes: number) {
    this.head_bytes = Math.floor(limit_bytes / 4);
    this.#limit_bytes = limit_bytes;
    this.#piece_bytes = Math.max(LEAST_PIECE_BYTES, Math.min(CHUNK_BYTES, Math.floor(limit_bytes / PIECES)));
  }

  /** Everything the attempt has printed so far, kept or not. */
  get total(): number {
    return this.#total;
  }

  get waiting(): boolean {
    return this.#first < this.#entries.length;
  }

  /** Chunks that lie wholly between the head and this position are no longer wanted. */
  get keep_from(): number {
    return Math.max(this.head_bytes, this.#total - (this.#limit_bytes - this.head_bytes));
  }

  add(stream: Stream, bytes: Uint8Array, at_ms: number): void {
    if (this.#limit_bytes === 0) {
      this.#total += bytes.length;
      return;
    }
    // One read may bring any amount; the limit must hold for it as well.
    for (let at = 0; at < bytes.length; at += this.#piece_bytes)
      this.#addPiece(stream, bytes.subarray(at, at + this.#piece_bytes), at_ms);
  }

  #addPiece(stream: Stream, bytes: Uint8Array, at_ms: number): void {
    const block = this.#room(bytes.length);
    const copy = block.bytes.subarray(block.used, block.used + bytes.length);
    copy.set(bytes);
    block.used += bytes.length;
    block.entries += 1;
    this.#entries.push({ stream, at_ms, start: this.#total, bytes: copy, block });
    this.#total += bytes.length;
    this.#waiting_bytes += bytes.length;
    // Some more than is kept may wait, so that a flood of small pieces is not sifted at each of them.
    if (this.#waiting_bytes > this.#limit_bytes * 1.25) this.#dropUnwanted();
  }

  /** The oldest that is not yet stored, as one chunk of at most so many bytes; null when all is. */
  take(most_bytes = this.#piece_bytes): LogChunk | null {
    if (this.#waiting_bytes > this.#limit_bytes) this.#dropUnwanted();
    const taken: HeldEntry[] = [];
    let bytes = 0;
    this.#divideFirst(most_bytes);
    for (let entry = this.#entries[this.#first]; entry !== undefined; entry = this.#entries[this.#first]) {
      const previous = taken.at(-1);
      const follows = previous === undefined || previous.start + previous.bytes.length === entry.start;
      if (!follows || (taken.length > 0 && bytes + entry.bytes.length > most_bytes)) break;
      taken.push(entry);
      bytes += entry.bytes.length;
      this.#first += 1;
    }
    this.#waiting_bytes -= bytes;
    this.#compact();
    const first = taken[0];
    if (first === undefined) return null;
    const data = encodeChunk(taken);
    for (const { block } of taken) this.#release(block);
    return { start: first.start, bytes, data };
  }

  /** Forgets what waits, but for so much of its end; answers how much it was. */
  skip(but_bytes: number): number {
    const before = this.#waiting_bytes;
    while (this.#waiting_bytes > but_bytes) {
      this.#divideFirst(this.#waiting_bytes - but_bytes);
      const entry = this.#entries[this.#first++] as HeldEntry;
      this.#waiting_bytes -= entry.bytes.length;
      this.#release(entry.block);
    }
    this.#compact();
    return before - this.#waiting_bytes;
  }

  /** So that the first is not larger. */
  #divideFirst(most_bytes: number): void {
    const entry = this.#entries[this.#first];
    if (entry === undefined || entry.bytes.length <= most_bytes) return;
    const { start, bytes } = entry;
    const rest = { ...entry, start: start + most_bytes, bytes: bytes.subarray(most_bytes) };
    entry.block.entries += 1;
    this.#entries.splice(this.#first, 1, { ...entry, bytes: bytes.subarray(0, most_bytes) }, rest);
  }

  /** Forgets what lies between head and tail and nobody has stored yet. */
  #dropUnwanted(): void {
    const from = this.keep_from;
    const wanted: HeldEntry[] = [];
    let bytes = 0;
    for (let i = this.#first; i < this.#entries.length; i++) {
      const entry = this.#entries[i] as HeldEntry;
      if (entry.start >= this.head_bytes && entry.start + entry.bytes.length <= from) this.#release(entry.block);
      else {
        wanted.push(entry);
        bytes += entry.bytes.length;
      }
    }
    this.#entries = wanted;
    this.#first = 0;
    this.#waiting_bytes = bytes;
  }

  /** A block with room for so much. Blocks grow, because most jobs print little. */
  #room(bytes: number): Block {
    const current = this.#block;
    if (current !== null && current.used + bytes <= current.bytes.length) return current;
    if (current !== null && current.entries === 0) this.#recycle(current);
    const usual = current === null ? FIRST_BLOCK_BYTES : Math.min(current.bytes.length * 4, CHUNK_BYTES);
    const size = Math.max(usual, bytes);
    const used_before = size <= CHUNK_BYTES ? this.#free.pop() : undefined;
    this.#block = { bytes: used_before ?? new Uint8Array(size), used: 0, entries: 0 };
    return this.#block;
  }

  #release(block: Block): void {
    block.entries -= 1;
    if (block.entries === 0 && block !== this.#block) this.#recycle(block);
  }

  #recycle(block: Block): void {
    if (block.bytes.length === CHUNK_BYTES) this.#free.push(block.bytes);
  }

  #compact(): void {
    if (this.#first < 1_024 && this.#first < this.#entries.length) return;
    this.#entries = this.#entries.slice(this.#first);
    this.#first = 0;
  }
}
