/**
 * A log as text. Bytes pass through as the job printed them; with timestamps or one stream only, lines are put together
 * per stream first, so that two streams never mix within a line.
 */

import { bytesText, jsonLine } from "./json.ts";
import { rfc3339 } from "./time.ts";

type Stream = "stdout" | "stderr";

interface Entry {
  stream: Stream;
  at_ms: number;
  bytes: Uint8Array;
}

/** How the lines of a log are shown; without one, bytes pass through as they came. */
export interface LogFormat {
  line: (stream: Stream, at_ms: number, bytes: Uint8Array) => Uint8Array;
  gap: (bytes: number) => string;
}

const encoder = new TextEncoder();
const gapText = (bytes: number): string => `[… ${bytes} bytes were not kept …]\n`;

export const STAMPED: LogFormat = {
  line: (_stream, at_ms, bytes) => join(join(encoder.encode(`${rfc3339(at_ms)} `), bytes), new Uint8Array([LF])),
  gap: gapText,
};

/** Each line behind the job that printed it, where several are shown. */
export function prefixed(prefix: string, format: LogFormat | null): LogFormat {
  const head = encoder.encode(prefix);
  const line = format?.line ?? ((_stream, _at_ms, bytes) => join(bytes, new Uint8Array([LF])));
  return {
    line: (stream, at_ms, bytes) => join(head, line(stream, at_ms, bytes)),
    gap: (bytes) => prefix + gapText(bytes),
  };
}

/** An object per line; bytes that are no UTF-8 become replacement characters. */
export function logJson(job: number, attempt: () => number): LogFormat {
  return {
    line: (stream, at_ms, bytes) => {
      const line = { job, attempt: attempt(), stream, at: rfc3339(at_ms), text: bytesText(bytes) };
      return encoder.encode(jsonLine(line));
    },
    gap: (bytes) => jsonLine({ job, attempt: attempt(), stream: null, at: null, text: null, bytes_not_kept: bytes }),
  };
}

const LF = 10;
/** A line longer than this is printed in pieces. */
const LINE_LIMIT_BYTES = 64 * 1024;

export class LogText {
  readonly #stream: Stream | "both";
  readonly #format: LogFormat | null;
  readonly #write: (bytes: Uint8Array) => void;
  readonly #open = new Map<Stream, { at_ms: number; bytes: Uint8Array }>();
  #at_line_start = true;

  constructor(options: { stream: Stream | "both"; format: LogFormat | null }, write: (bytes: Uint8Array) => void) {
    this.#stream = options.stream;
    this.#format = options.format;
    this.#write = write;
  }

  add({ stream, at_ms, bytes }: Entry): void {
    if (this.#stream !== "both" && this.#stream !== stream) return;
    if (this.#format === null) return this.#print(bytes);
    const open = this.#open.get(stream);
    const joined = open === undefined ? bytes : join(open.bytes, bytes);
    let begun_at_ms = open?.at_ms ?? at_ms;
    let from = 0;
    for (let end = joined.indexOf(LF); end !== -1; end = joined.indexOf(LF, from)) {
      this.#line(stream, begun_at_ms, joined.subarray(from, end));
      begun_at_ms = at_ms;
      from = end + 1;
    }
    const rest = joined.slice(from);
    this.#open.delete(stream);
    if (rest.length > LINE_LIMIT_BYTES) this.#line(stream, at_ms, rest);
    else if (rest.length > 0) this.#open.set(stream, { at_ms: begun_at_ms, bytes: rest });
  }

  /** So many bytes in between were not kept. */
  gap(bytes: number): void {
    this.end();
    this.#print(encoder.encode((this.#format?.gap ?? gapText)(bytes)));
  }

  /** Nothing more comes: unfinished lines are printed, and the last one is ended. */
  end(): void {
    for (const [stream, { at_ms, bytes }] of this.#open) this.#line(stream, at_ms, bytes);
    this.#open.clear();
    if (!this.#at_line_start) this.#print(new Uint8Array([LF]));
  }

  #line(stream: Stream, at_ms: number, bytes: Uint8Array): void {
    if (this.#format !== null) this.#print(this.#format.line(stream, at_ms, bytes));
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
