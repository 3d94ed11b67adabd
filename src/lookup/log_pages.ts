/** What an attempt printed, a page at a time: from its end, on from a position, back from one, or all of it. */

import type { LogChunk } from "../core/records.ts";
import { decodeChunk, type LogEntry } from "../runner/log/chunk.ts";
import type { Glance } from "../store/store.ts";

/** So many pieces are read; a piece is what was printed in a fraction of a second, up to 256 KiB. */
const PAGE = 64;
const PAGE_BYTES = 512 * 1024;
const WHOLE_PAGE = 16;

export interface LogPlace {
  job: number;
  attempt: number;
  /** On from here. */
  from?: number;
  /** Or back from here; neither: the end. */
  before?: number;
}

export interface LogPage {
  entries: LogEntry[];
  /** Where the page begins and ends in all that was printed. */
  start: number;
  next: number;
}

export async function logPage(store: Glance, { job, attempt, from, before }: LogPlace): Promise<LogPage> {
  const backwards = { from: 0, before: before ?? Number.MAX_SAFE_INTEGER };
  const found = await store.logs({ job, attempt, limit: PAGE, ...(from === undefined ? backwards : { from }) });
  const chunks = from === undefined ? upTo(PAGE_BYTES, found.toReversed()).toReversed() : upTo(PAGE_BYTES, found);
  const first = chunks[0];
  const last = chunks.at(-1);
  const nowhere = from ?? before ?? 0;
  return {
    entries: chunks.flatMap(decodeChunk),
    start: first?.start ?? nowhere,
    next: last === undefined ? nowhere : last.start + last.bytes,
  };
}

/** The first ones, at least one, that are no more than that together. */
function upTo(limit_bytes: number, chunks: readonly LogChunk[]): LogChunk[] {
  let room = limit_bytes;
  return chunks.filter(({ bytes }, index) => (room -= bytes) >= 0 || index === 0);
}

/** Whatever is left of it, in order; what was not kept is said. */
export async function* wholeLog(store: Pick<Glance, "logs">, job: number, attempt: number): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  let from = 0;
  for (;;) {
    const chunks = await store.logs({ job, attempt, from, limit: WHOLE_PAGE });
    for (const chunk of chunks) {
      if (chunk.start > from) yield encoder.encode(`\n[… ${chunk.start - from} bytes were not kept …]\n`);
      for (const { bytes } of decodeChunk(chunk)) yield bytes;
      from = chunk.start + chunk.bytes;
    }
    if (chunks.length < WHOLE_PAGE) return;
  }
}
