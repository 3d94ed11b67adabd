/** The last lines of an attempt that nobody can be asked about any more, from what of its log reached the store. */

import type { LogChunk } from "../core/records.ts";
import { LAST_LINES, Tail } from "../runner/log/tail.ts";
import { decodeChunk } from "../runner/log/capture.ts";

export function lastLines(chunks: readonly LogChunk[]): string[] {
  if (chunks.length === 0) return [];
  const tail = new Tail();
  for (const chunk of chunks) for (const { bytes } of decodeChunk(chunk)) tail.add(bytes);
  return tail.lines(LAST_LINES);
}
