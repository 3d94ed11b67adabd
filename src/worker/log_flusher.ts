/**
 * Carries what jobs print to the store: all jobs of a worker together, a few times a second, so that a chatty job costs
 * no more commits than a quiet one.
 *
 * A store elsewhere may be at the end of a slow line, and what is on its way there keeps beats waiting. So a write holds
 * what the last ones have shown to go in a moment, and when a job has ended its log is given a share of the lease that is
 * left: what has not gone by then is left out, but for the last lines. Its result matters more.
 */

import type { Clock } from "../core/clock.ts";
import type { LogChunk } from "../core/records.ts";
import type { Lease } from "../leasing/lease.ts";
import type { LogCapture } from "../runner/log/capture.ts";
import type { Store } from "../store/store.ts";
import type { LogWrite } from "../store/queries.ts";

const FLUSH_EVERY_MS = 200;
/** Of one job in one flush: a flood must not keep the others waiting. */
const CHUNKS_PER_FLUSH = 2;

/** In one write to a store elsewhere, of all jobs. */
const LEAST_BYTES = 2 * 1024;
const FIRST_BYTES = 4 * 1024;
const MOST_BYTES = 1024 * 1024;
/** Longer makes the next write smaller, less makes it larger. */
const SLOW_MS = 300;
const QUICK_MS = 100;

/** After the end of a job, at most so long, and no more than half of its lease. */
const LONGEST_REST_MS = 10_000;
const LAST_BYTES = 2 * 1024;

interface Source {
  lease: Lease;
  capture: LogCapture;
  /** That were seen so far. */
  beats: () => number;
  /** Taken from the capture, not yet accepted by the store. */
  unsaved: LogChunk[];
}

export class LogFlusher {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #sources = new Set<Source>();
  /** What may be written at once; null: as much as there is, since the store is here. */
  #room_bytes: number | null;
  #cancelTimer: (() => void) | null = null;
  #flushing = false;

  constructor(store: Store, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
    this.#room_bytes = store.shares_clock ? null : FIRST_BYTES;
  }

  /**
   * `wake` is to be called when the capture got something; `finish` submits the rest ahead of the settle, and answers
   * how many bytes had to be left out.
   */
  add(
    lease: Lease,
    capture: LogCapture,
    beats: () => number = () => 0,
  ): { wake: () => void; finish: () => Promise<number> } {
    const source: Source = { lease, capture, beats, unsaved: [] };
    this.#sources.add(source);
    return { wake: () => this.#schedule(), finish: () => this.#finish(source) };
  }

  #schedule(): void {
    if (this.#cancelTimer !== null || this.#flushing) return;
    this.#cancelTimer = this.#clock.after(FLUSH_EVERY_MS, () => {
      this.#cancelTimer = null;
      void this.#flush();
    });
  }

  async #flush(): Promise<void> {
    this.#flushing = true;
    const printing = [...this.#sources].filter(isWaiting);
    const share = this.#shareOf(printing.length);
    const sources = printing.filter((source) => takeSome(source, share));
    try {
      if (sources.length > 0) await this.#write(sources);
      for (const source of sources) source.unsaved = [];
    } catch {
      // The store is in trouble; whoever extends leases reports that. The chunks are still here and go next time.
    }
    this.#flushing = false;
    if ([...this.#sources].some(isWaiting)) this.#schedule();
  }

  #shareOf(count: number): number {
    return this.#room_bytes === null ? Infinity : Math.max(LEAST_BYTES / 2, Math.floor(this.#room_bytes / count));
  }

  async #write(sources: readonly Source[]): Promise<void> {
    const room = this.#room_bytes;
    const begun_ms = this.#clock.mono_ms();
    const resize = (factor: number) => {
      if (room !== null) this.#room_bytes = Math.min(MOST_BYTES, Math.max(LEAST_BYTES, room * factor));
    };
    try {
      await this.#store.appendLogs(sources.map(toWrite));
    } catch (error) {
      resize(0.5);
      throw error;
    }
    const took_ms = this.#clock.mono_ms() - begun_ms;
    const bytes = sources.reduce((sum, { unsaved }) => sum + sizeOf(unsaved), 0);
    if (took_ms > SLOW_MS) resize(0.5);
    // What is small goes quickly anywhere, and proves nothing.
    else if (took_ms < QUICK_MS && room !== null && bytes >= room / 2) resize(2);
  }

  /**
   * Submits the rest; small logs go into the very commit of the settle that follows. To be called again when that one
   * failed: what was not taken is still here.
   */
  async #finish(source: Source): Promise<number> {
    this.#sources.delete(source);
    const rest_ms = Math.min(LONGEST_REST_MS, source.lease.remaining() / 2);
    const until_ms = this.#room_bytes === null ? Infinity : this.#clock.mono_ms() + rest_ms;
    let left_out = 0;
    while (takeSome(source, this.#shareOf(1))) {
      if (source.capture.waiting && this.#clock.mono_ms() > until_ms) {
        left_out += sizeOf(source.unsaved) + source.capture.skip(LAST_BYTES);
        source.unsaved = [];
        continue;
      }
      const saved = this.#write([source]).then(() => {
        source.unsaved = [];
      });
      if (source.capture.waiting) await saved;
      else {
        // Not awaited: the settle joins its commit, and fails with it.
        saved.catch(() => {});
        break;
      }
    }
    return left_out;
  }
}

function isWaiting({ capture, unsaved }: Source): boolean {
  return capture.waiting || unsaved.length > 0;
}

function sizeOf(chunks: readonly LogChunk[]): number {
  return chunks.reduce((sum, { bytes }) => sum + bytes, 0);
}

function takeSome(source: Source, most_bytes: number): boolean {
  for (let left = most_bytes - sizeOf(source.unsaved); left > 0 && source.unsaved.length < CHUNKS_PER_FLUSH;) {
    const chunk = left === Infinity ? source.capture.take() : source.capture.take(left);
    if (chunk === null) break;
    left -= chunk.bytes;
    source.unsaved.push(chunk);
  }
  return source.unsaved.length > 0;
}

function toWrite({ lease, capture, beats, unsaved }: Source): LogWrite {
  return {
    id: lease.job.id,
    token: lease.token,
    beats: beats(),
    chunks: unsaved,
    head_bytes: capture.head_bytes,
    keep_from: capture.keep_from,
  };
}
