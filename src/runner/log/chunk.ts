/**
 * Log chunks as the store keeps them: entries one behind the other, each with its stream and time, compressed where
 * that is worth it. The first byte says which.
 */

import { platform } from "#platform";
import type { LogChunk } from "../../core/records.ts";
import type { Stream } from "../../platform/platform.ts";

export interface LogEntry {
  stream: Stream;
  at_ms: number;
  /** Position of the first byte in all that the attempt printed. */
  start: number;
  bytes: Uint8Array;
}

const HEADER_BYTES = 13;
const PLAIN = 0;
const DEFLATED = 1;
const WORTH_DEFLATING_BYTES = 512;

export function encodeChunk(entries: readonly LogEntry[]): Uint8Array {
  const size = entries.reduce((sum, entry) => sum + HEADER_BYTES + entry.bytes.length, 1);
  const plain = new Uint8Array(size);
  const view = new DataView(plain.buffer);
  let at = 1;
  for (const { stream, at_ms, bytes } of entries) {
    view.setUint8(at, stream === "stdout" ? 1 : 2);
    view.setFloat64(at + 1, at_ms);
    view.setUint32(at + 9, bytes.length);
    plain.set(bytes, at + HEADER_BYTES);
    at += HEADER_BYTES + bytes.length;
  }
  plain[0] = PLAIN;
  if (size < WORTH_DEFLATING_BYTES) return plain;
  const deflated = platform.deflate(plain.subarray(1));
  const packed = new Uint8Array(deflated.length + 1);
  packed[0] = DEFLATED;
  packed.set(deflated, 1);
  return packed;
}

/** More than any chunk that we write: its entries are of at most 256 KiB in all, and none is empty. */
const MOST_PLAIN_BYTES = 8 * 1024 * 1024;

/** What can be read of it: a store may bring anything. */
export function decodeChunk(chunk: LogChunk): LogEntry[] {
  const plain = plainOf(chunk.data);
  const view = new DataView(plain.buffer, plain.byteOffset, plain.byteLength);
  const entries: LogEntry[] = [];
  let start = chunk.start;
  for (let at = 0; at + HEADER_BYTES <= plain.length;) {
    const end = at + HEADER_BYTES + view.getUint32(at + 9);
    const at_ms = view.getFloat64(at + 1);
    if (end > plain.length || !(Math.abs(at_ms) <= LATEST_MS)) break;
    const bytes = plain.subarray(at + HEADER_BYTES, end);
    const stream = view.getUint8(at) === 1 ? "stdout" : "stderr";
    entries.push({ stream, at_ms, start, bytes });
    start += bytes.length;
    at = end;
  }
  return entries;
}

/** The end of the year 9999. */
const LATEST_MS = 253_402_300_799_999;
const NOTHING = new Uint8Array(0);

function plainOf(data: Uint8Array): Uint8Array {
  const body = data.subarray(1);
  if (data[0] === PLAIN) return body;
  try {
    return data[0] === DEFLATED ? platform.inflate(body, MOST_PLAIN_BYTES) : NOTHING;
  } catch {
    return NOTHING;
  }
}
