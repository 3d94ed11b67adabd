/**
 * Passes on what jobs print, byte for byte and in the order in which it came, to our own stdout and stderr. A reader
 * that is slow, or stands still, must not stop us from keeping a lease: writing waits elsewhere, and whoever prints
 * waits for it once too much is unwritten.
 */

import { Buffer } from "node:buffer";
import { write as writeFile } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Stream } from "../platform/platform.ts";

const FILES: Readonly<Record<Stream, number>> = { stdout: 1, stderr: 2 };
/** More than this and the job waits. */
const UNWRITTEN_BYTES = 1024 * 1024;
const PIECE_BYTES = 256 * 1024;
const FULL_PIPE_MS = 2;

function write(file: number, bytes: Uint8Array): Promise<number> {
  return new Promise((resolve, reject) => {
    writeFile(file, bytes, (error, written) => (error === null ? resolve(written) : reject(error)));
  });
}

interface Piece {
  stream: Stream;
  bytes: Uint8Array;
}

export class JobOutput {
  readonly #onBroken: () => void;
  #pieces: Piece[] = [];
  #size = 0;
  #writing: Promise<void> | null = null;
  #waiting: (() => void)[] = [];
  #may_wait = true;
  readonly #broken: Partial<Record<Stream, unknown>> = {};

  /** `onBroken` is called when nobody can read stdout any more. */
  constructor(onBroken: () => void) {
    this.#onBroken = onBroken;
  }

  /** What broke stdout; null: nothing did. */
  get error(): unknown {
    return this.#broken.stdout ?? null;
  }

  /** Takes a copy. A promise, when so much waits to be written that no more should be printed for now. */
  print(stream: Stream, bytes: Uint8Array): void | Promise<void> {
    if (stream in this.#broken || bytes.length === 0) return;
    this.#pieces.push({ stream, bytes: bytes.slice() });
    this.#size += bytes.length;
    this.#writing ??= this.#writeAll();
    if (this.#size < UNWRITTEN_BYTES || !this.#may_wait) return;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** From now on nobody is made to wait. */
  release(): void {
    this.#may_wait = false;
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  async flushed(): Promise<void> {
    while (this.#writing !== null) await this.#writing;
  }

  async #writeAll(): Promise<void> {
    // Later pieces of this turn of the event loop go along.
    await Promise.resolve();
    while (this.#pieces.length > 0) {
      const { stream, bytes } = this.#next();
      await this.#write(stream, bytes);
      this.#size -= bytes.length;
      if (this.#size < UNWRITTEN_BYTES) for (const resolve of this.#waiting.splice(0)) resolve();
    }
    this.#writing = null;
  }

  /** Neighbours of one stream as one piece. */
  #next(): Piece {
    const stream = this.#pieces[0]?.stream ?? "stdout";
    let [count, size] = [0, 0];
    for (const piece of this.#pieces) {
      if (piece.stream !== stream || (count > 0 && size + piece.bytes.length > PIECE_BYTES)) break;
      count += 1;
      size += piece.bytes.length;
    }
    const taken = this.#pieces.splice(0, count);
    if (taken.length === 1 && taken[0] !== undefined) return taken[0];
    return { stream, bytes: Buffer.concat(taken.map(({ bytes }) => bytes)) };
  }

  async #write(stream: Stream, bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length && !(stream in this.#broken);) {
      try {
        at += await write(FILES[stream], bytes.subarray(at));
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code === "EAGAIN") await sleep(FULL_PIPE_MS);
        else this.#break(stream, error, code);
      }
    }
  }

  #break(stream: Stream, error: unknown, code: string | undefined): void {
    // A stream that was closed from the start is one that nobody wanted.
    this.#broken[stream] = code === "EBADF" ? null : error;
    if (stream === "stdout" && code !== "EBADF") this.#onBroken();
  }
}
