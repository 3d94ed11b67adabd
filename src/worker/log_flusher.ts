/**
 * Carries what jobs print to the store: all jobs of a worker together, a few times a second, so that a chatty job costs
 * no more commits than a quiet one.
 */

import type { Clock } from "../core/clock.ts";
import type { LogChunk } from "../core/records.ts";
import type { Lease } from "../leasing/lease.ts";
import type { LogCapture } from "../runner/log/capture.ts";
import type { LogWrite, Store } from "../store/store.ts";

const FLUSH_EVERY_MS = 200;
/** Of one job in one flush: a flood must not keep the others waiting. */
const CHUNKS_PER_FLUSH = 2;

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
  #cancelTimer: (() => void) | null = null;
  #flushing = false;

  constructor(store: Store, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** `wake` is to be called when the capture got something; `finish` submits the rest ahead of the settle. */
  add(
    lease: Lease,
    capture: LogCapture,
    beats: () => number = () => 0,
  ): { wake: () => void; finish: () => Promise<void> } {
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
    const sources = [...this.#sources].filter((source) => takeSome(source, CHUNKS_PER_FLUSH));
    try {
      if (sources.length > 0) await this.#store.appendLogs(sources.map(toWrite));
      for (const source of sources) source.unsaved = [];
    } catch {
      // The store is in trouble; whoever extends leases reports that. The chunks are still here and go next time.
    }
    this.#flushing = false;
    if ([...this.#sources].some(({ capture, unsaved }) => capture.waiting || unsaved.length > 0)) this.#schedule();
  }

  /**
   * Submits the rest; small logs go into the very commit of the settle that follows. To be called again when that one
   * failed: what was not taken is still here.
   */
  async #finish(source: Source): Promise<void> {
    this.#sources.delete(source);
    while (takeSome(source, CHUNKS_PER_FLUSH)) {
      const saved = this.#store.appendLogs([toWrite(source)]).then(() => {
        source.unsaved = [];
      });
      if (source.capture.waiting) await saved;
      else {
        // Not awaited: the settle joins its commit, and fails with it.
        saved.catch(() => {});
        return;
      }
    }
  }
}

function takeSome(source: Source, most: number): boolean {
  while (source.unsaved.length < most) {
    const chunk = source.capture.take();
    if (chunk === null) break;
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
