/** The last lines of an attempt that nobody can be asked about any more, from what of its log reached the store. */

import { LAST_LINES, Tail } from "../runner/lines.ts";
import { decodeChunk } from "../runner/log.ts";
import type { Store } from "../store/store.ts";

/** A chunk holds what was printed in some tenths of a second; a few make up enough lines. */
const CHUNKS = 3;

export async function lastLines(store: Store, job: number, attempt: number): Promise<string[]> {
  const chunks = await store.logs({ job, attempt, from: 0, limit: CHUNKS, newest: true });
  const tail = new Tail();
  for (const chunk of chunks) for (const { bytes } of decodeChunk(chunk)) tail.add(bytes);
  return tail.lines(LAST_LINES);
}
