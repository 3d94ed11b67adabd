/** Reads what an attempt printed out of the store, whoever runs it, each time from where it was left. */

import { decodeChunk, type LogEntry } from "../runner/log/chunk.ts";
import type { Store } from "../store/store.ts";

export interface LogReaderOptions {
  store: Store;
  job: number;
  attempt: number;
  /** What it returns is awaited before more is read. */
  onEntry: (entry: LogEntry) => void | Promise<void>;
  /** So many bytes were not kept. */
  onGap: (bytes: number) => void | Promise<void>;
}

const PAGE = 16;

export class LogReader {
  readonly #options: LogReaderOptions;
  #attempt: number;
  #position = 0;

  constructor(options: LogReaderOptions) {
    this.#options = options;
    this.#attempt = options.attempt;
  }

  get attempt(): number {
    return this.#attempt;
  }

  turnTo(attempt: number): void {
    this.#attempt = attempt;
    this.#position = 0;
  }

  /** All that has been printed since. */
  async read(): Promise<void> {
    const { store, job, onEntry, onGap } = this.#options;
    for (;;) {
      const chunks = await store.logs({ job, attempt: this.#attempt, from: this.#position, limit: PAGE });
      for (const chunk of chunks) {
        if (chunk.start > this.#position) await onGap(chunk.start - this.#position);
        for (const entry of decodeChunk(chunk)) await onEntry(entry);
        this.#position = chunk.start + chunk.bytes;
      }
      if (chunks.length < PAGE) return;
    }
  }
}
