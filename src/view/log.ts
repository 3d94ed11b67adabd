/**
 * A log as text. Bytes pass through as the job printed them; with timestamps or one stream only, lines are put together
 * per stream first, so that two streams never mix within a line.
 */

import { rfc3339 } from "./time.ts";

type Stream = "stdout" | "stderr";

interface Entry {
  stream: Stream;
  at_ms: number;
  bytes: Uint8Array;
}

const LF = 10;
/** A line longer than this is printed in pieces. */
const LINE_LIMIT_BYTES = 64 * 1024;

export class LogText {
  readonly #options: { stream: Stream | "both"; timestamps: boolean };
  readonly #write: (bytes: Uint8Array) => void;
  readonly #open = new Map<Stream, { at_ms: number; bytes: Uint8Array }>();
  #at_line_start = true;

  constructor(options: { stream: Stream | "both"; timestamps: boolean }, write: (bytes: Uint8Array) => void) {
    this.#options = options;
    this.#write = write;
  }

  add({ stream, at_ms, bytes }: Entry): void {
    if (this.#options.stream !== "both" && this.#options.stream !== stream) return;
    if (!this.#options.timestamps) return this.#print(bytes);
    const open = this.#open.get(stream);
    const joined = open === undefined ? bytes : join(open.bytes, bytes);
    let from = 0;
    for (let end = joined.indexOf(LF); end !== -1; end = joined.indexOf(LF, from)) {
      this.#line(from === 0 ? (open?.at_ms ?? at_ms) : at_ms, joined.subarray(from, end));
      from = end + 1;
    }
    const rest = joined.slice(from);
    this.#open.delete(stream);
    if (rest.length > LINE_LIMIT_BYTES) this.#line(at_ms, rest);
    else if (rest.length > 0)
      this.#open.set(stream, { at_ms: from === 0 ? (open?.at_ms ?? at_ms) : at_ms, bytes: rest });
  }

  /** So many bytes in between were not kept. */
  gap(bytes: number): void {
    this.end();
    this.#print(new TextEncoder().encode(`[… ${bytes} bytes were not kept …]\n`));
  }

  /** Nothing more comes: unfinished lines are printed, and the last one is ended. */
  end(): void {
    for (const { at_ms, bytes } of this.#open.values()) this.#line(at_ms, bytes);
    this.#open.clear();
    if (!this.#at_line_start) this.#print(new Uint8Array([LF]));
  }

  #line(at_ms: number, bytes: Uint8Array): void {
    const stamp = new TextEncoder().encode(`${rfc3339(at_ms)} `);
    this.#print(join(join(stamp, bytes), new Uint8Array([LF])));
  }

  #print(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#write(bytes);
    this.#at_line_start = bytes[bytes.length - 1] === LF;
  }
}

function join(a: Uint8Array, b: Uint8Array): Uint8Array {
  const joined = new Uint8Array(a.length + b.length);
  joined.set(a);
  joined.set(b, a.length);
  return joined;
}
