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
const LF = 10;

export class LogReader {
  readonly #options: LogReaderOptions;
  #attempt: number;
  #position = 0;
  /** What was printed before this is passed over. */
  #wanted_from = 0;

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
    this.#wanted_from = 0;
  }

  /** From here on only the last `lines` of what has been printed, and what follows; looks at no more than it takes. */
  async turnToEnd(lines: number, counts: (entry: LogEntry) => boolean): Promise<void> {
    const { store, job } = this.#options;
    const query = { job, attempt: this.#attempt, from: 0, limit: PAGE };
    // The end of the last line is not the beginning of another.
    let left = lines + 1;
    let last = true;
    for (let before = Number.MAX_SAFE_INTEGER; ;) {
      const chunks = await store.logs({ ...query, before });
      for (const entry of chunks.flatMap(decodeChunk).filter(counts).toReversed()) {
        if (last && entry.bytes.at(-1) !== LF) left -= 1;
        last = false;
        for (let at = entry.bytes.length; at > 0;) {
          at = entry.bytes.lastIndexOf(LF, at - 1);
          if (at === -1 || --left > 0) continue;
          this.#wanted_from = entry.start + at + 1;
          this.#position = chunks.findLast(({ start }) => start <= entry.start)?.start ?? 0;
          return;
        }
      }
      if (chunks.length < PAGE) return;
      before = chunks[0]?.start ?? 0;
    }
  }

  /** All that has been printed since. */
  async read(): Promise<void> {
    const { store, job, onEntry, onGap } = this.#options;
    for (;;) {
      const chunks = await store.logs({ job, attempt: this.#attempt, from: this.#position, limit: PAGE });
      for (const chunk of chunks) {
        if (chunk.start > this.#position) await onGap(chunk.start - this.#position);
        let missing = chunk.bytes;
        for (const entry of decodeChunk(chunk)) {
          missing -= entry.bytes.length;
          const skipped = Math.max(0, this.#wanted_from - entry.start);
          if (skipped < entry.bytes.length) await onEntry({ ...entry, bytes: entry.bytes.subarray(skipped) });
        }
        // It is damaged.
        if (missing > 0) await onGap(missing);
        this.#position = chunk.start + Math.max(1, chunk.bytes);
      }
      if (chunks.length < PAGE) return;
    }
  }
}
