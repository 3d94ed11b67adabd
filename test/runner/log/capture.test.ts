import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import type { LogChunk } from "../../../src/core/records.ts";
import { LogCapture } from "../../../src/runner/log/capture.ts";
import { decodeChunk, type LogEntry } from "../../../src/runner/log/chunk.ts";

/** What one chunk holds at most, unless a single piece is larger. */
const CHUNK_BYTES = 256 * 1024;

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const text = (entry: LogEntry): string => new TextDecoder().decode(entry.bytes);

function takeAll(capture: LogCapture): LogChunk[] {
  const chunks: LogChunk[] = [];
  for (let chunk = capture.take(); chunk; chunk = capture.take()) chunks.push(chunk);
  return chunks;
}

/** What a job prints, byte by byte: any piece of it tells where it belongs. */
function printed(start: number, length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => ((start + i) * 2_654_435_761) >>> 24);
}

describe("a log that is captured", () => {
  test("keeps stream, time, bytes and order", () => {
    const capture = new LogCapture(1_000);
    capture.add("stdout", bytes("out\n"), 1_000);
    capture.add("stderr", bytes("err\n"), 1_001.5);
    capture.add("stdout", bytes("more"), 1_002);
    const [chunk] = takeAll(capture);
    expect(chunk).toMatchObject({ start: 0, bytes: 12 });
    const entries = decodeChunk(chunk!);
    expect(entries.map((entry) => [entry.stream, entry.at_ms, entry.start, text(entry)])).toEqual([
      ["stdout", 1_000, 0, "out\n"],
      ["stderr", 1_001.5, 4, "err\n"],
      ["stdout", 1_002, 8, "more"],
    ]);
  });

  test("has nothing to give before anything was printed, and after all of it was taken", () => {
    const capture = new LogCapture(1_000);
    expect([capture.waiting, capture.take(), capture.total]).toEqual([false, null, 0]);
    capture.add("stdout", bytes("a"), 0);
    expect(capture.waiting).toBe(true);
    capture.take();
    expect([capture.waiting, capture.take(), capture.total]).toEqual([false, null, 1]);
  });

  test("goes on counting positions from chunk to chunk", () => {
    const capture = new LogCapture(1_000);
    const starts: number[] = [];
    for (const word of ["one", "two", "three"]) {
      capture.add("stdout", bytes(word), 0);
      starts.push(capture.take()!.start);
    }
    expect([starts, capture.total]).toEqual([[0, 3, 6], 11]);
  });

  test("is given in chunks that are small enough to compress without a pause", () => {
    const capture = new LogCapture(16 * 1024 * 1024);
    for (let piece = 0; piece < 40; piece++) capture.add("stdout", new Uint8Array(60_000), 0);
    const chunks = takeAll(capture);
    expect(Math.max(...chunks.map((chunk) => chunk.bytes))).toBeLessThanOrEqual(CHUNK_BYTES);
    expect(chunks.reduce((sum, chunk) => sum + chunk.bytes, 0)).toBe(40 * 60_000);
  });

  test("passes on a piece that is larger than a chunk in several, with nothing lost between them", () => {
    const capture = new LogCapture(16 * 1024 * 1024);
    const large = printed(0, CHUNK_BYTES * 2 + 1);
    capture.add("stdout", large, 0);
    const entries = takeAll(capture).flatMap(decodeChunk);
    expect(entries.map(({ start, bytes: { length } }) => [start, length])).toEqual([
      [0, CHUNK_BYTES],
      [CHUNK_BYTES, CHUNK_BYTES],
      [CHUNK_BYTES * 2, 1],
    ]);
    expect(Buffer.concat(entries.map((entry) => entry.bytes)).equals(large)).toBe(true);
  });

  test("keeps to its limit when one piece brings more than that", () => {
    const capture = new LogCapture(4 * CHUNK_BYTES);
    capture.add("stdout", printed(0, CHUNK_BYTES * 40), 0);
    const kept = takeAll(capture).reduce((sum, chunk) => sum + chunk.bytes, 0);
    expect(kept).toBeLessThanOrEqual(5 * CHUNK_BYTES);
  });

  test("keeps a copy: the bytes are somebody else's buffer", () => {
    const capture = new LogCapture(1_000);
    const buffer = bytes("before");
    capture.add("stdout", buffer, 0);
    buffer.fill(0);
    expect(text(decodeChunk(capture.take()!)[0]!)).toBe("before");
  });

  test("takes no note of an empty piece, which would take the position of the next", () => {
    const capture = new LogCapture(1_000);
    capture.add("stdout", new Uint8Array(0), 0);
    expect(capture.waiting).toBe(false);
  });
});

describe("chunks", () => {
  const entries = fc.array(
    fc.record({
      stream: fc.constantFrom("stdout" as const, "stderr" as const),
      at_ms: fc.double({ min: 0, max: 4e12, noNaN: true }),
      bytes: fc.uint8Array({ minLength: 1, maxLength: 400 }),
    }),
    { minLength: 1, maxLength: 30 },
  );

  test("give back exactly what was put in, compressed or not", () => {
    fc.assert(
      fc.property(entries, fc.integer({ min: 0, max: 1e9 }), (printedEntries, skipped) => {
        const capture = new LogCapture(1e9);
        if (skipped % 2 === 1) {
          capture.add("stdout", new Uint8Array(skipped % 1_000), 0);
          takeAll(capture);
        }
        const from = capture.total;
        for (const { stream, bytes: piece, at_ms } of printedEntries) capture.add(stream, piece, at_ms);
        const decoded = takeAll(capture).flatMap(decodeChunk);
        let start = from;
        for (const [index, entry] of printedEntries.entries()) {
          expect(decoded[index]).toEqual({ ...entry, start });
          start += entry.bytes.length;
        }
        expect(decoded).toHaveLength(printedEntries.length);
      }),
    );
  });

  test("of text are much smaller than the text", () => {
    const capture = new LogCapture(1e9);
    for (let line = 0; line < 1_000; line++) capture.add("stdout", bytes(`line ${line} of the build\n`), line);
    const chunk = capture.take()!;
    expect(chunk.data.length).toBeLessThan(chunk.bytes / 2);
  });
});

const LIMIT = 4_000;

describe("a log over its limit", () => {
  test("keeps the first quarter and the newest three quarters, and positions tell what is missing", () => {
    const capture = new LogCapture(LIMIT);
    for (let piece = 0; piece < 200; piece++) capture.add("stdout", printed(piece * 100, 100), 0);
    expect([capture.total, capture.head_bytes, capture.keep_from]).toEqual([20_000, 1_000, 17_000]);
    const chunks = takeAll(capture);
    expect(chunks.map(({ start, bytes: length }) => [start, start + length])).toEqual([
      [0, 1_000],
      [17_000, 18_000],
      [18_000, 19_000],
      [19_000, 20_000],
    ]);
    for (const entry of chunks.flatMap(decodeChunk)) {
      expect(entry.bytes).toEqual(printed(entry.start, entry.bytes.length));
    }
  });

  test("is kept to it when it is small and all comes at once", () => {
    const capture = new LogCapture(4_000);
    capture.add("stdout", printed(0, 100_000), 0);
    const kept = takeAll(capture).reduce((sum, chunk) => sum + chunk.bytes, 0);
    expect(kept).toBeGreaterThanOrEqual(4_000);
    expect(kept).toBeLessThanOrEqual(5_000);
  });

  test("is not kept at all when nobody wants it", () => {
    const capture = new LogCapture(0);
    capture.add("stdout", printed(0, 100_000), 0);
    expect([capture.total, capture.waiting, takeAll(capture)]).toEqual([100_000, false, []]);
  });

  test("is complete as long as it is below the limit", () => {
    const capture = new LogCapture(LIMIT);
    for (let piece = 0; piece < 40; piece++) capture.add("stdout", printed(piece * 100, 100), 0);
    const chunks = takeAll(capture);
    expect(chunks.map(({ start }) => start)).toEqual([0, LIMIT / 4, LIMIT / 2, (3 * LIMIT) / 4]);
    expect(chunks.reduce((sum, chunk) => sum + chunk.bytes, 0)).toBe(LIMIT);
    expect(capture.keep_from).toBe(1_000);
  });

  test("of nothing keeps nothing", () => {
    const capture = new LogCapture(0);
    for (let piece = 0; piece < 10; piece++) capture.add("stdout", bytes("noise"), 0);
    expect([capture.waiting, capture.total]).toEqual([false, 50]);
  });

  test("never takes more than the limit and a piece of memory, while nobody stores anything", () => {
    const capture = new LogCapture(LIMIT);
    const pieces = fc.array(fc.integer({ min: 1, max: 900 }), { minLength: 50, maxLength: 300 });
    fc.assert(
      fc.property(pieces, (lengths) => {
        for (const length of lengths) capture.add("stdout", new Uint8Array(length), 0);
        const kept = takeAll(capture).reduce((sum, chunk) => sum + chunk.bytes, 0);
        expect(kept).toBeLessThanOrEqual(LIMIT + 2 * 900);
      }),
      { numRuns: 20 },
    );
  });

  test("ends up in the store with its head and its tail, however often it was stored on the way", () => {
    const course = fc.array(
      fc.oneof(
        {
          weight: 5,
          arbitrary: fc.record({ do: fc.constant("print" as const), size: fc.integer({ min: 1, max: 300 }) }),
        },
        { weight: 1, arbitrary: fc.record({ do: fc.constant("store" as const), size: fc.constant(0) }) },
      ),
      { maxLength: 150 },
    );
    fc.assert(
      fc.property(course, (steps) => {
        const capture = new LogCapture(LIMIT);
        let stored: LogChunk[] = [];
        const store = (): void => {
          const chunk = capture.take();
          if (chunk) stored.push(chunk);
          // As the store is told to: LogWrite.
          stored = stored.filter(
            ({ start, bytes: length }) => start < capture.head_bytes || start + length > capture.keep_from,
          );
        };
        for (const step of steps) {
          if (step.do === "store") store();
          else capture.add("stdout", printed(capture.total, step.size), 0);
        }
        while (capture.waiting) store();
        expectWhole(capture, stored.flatMap(decodeChunk));
      }),
    );
  });
});

/** Head and newest part are there without a gap, and every byte is the one that was printed there. */
function expectWhole(capture: LogCapture, entries: readonly LogEntry[]): void {
  const { total, head_bytes } = capture;
  const have = new Uint8Array(total);
  for (const { start, bytes: piece } of entries) {
    expect(piece).toEqual(printed(start, piece.length));
    have.fill(1, start, start + piece.length);
  }
  expect(have.subarray(0, Math.min(head_bytes, total)).every((there) => there === 1)).toBe(true);
  expect(have.subarray(Math.max(0, total - (LIMIT - head_bytes))).every((there) => there === 1)).toBe(true);
}

describe("a flood", () => {
  function floodTime(limit_bytes: number, pieces: number): number {
    const capture = new LogCapture(limit_bytes);
    const piece = new Uint8Array(64);
    const started_ms = performance.now();
    for (let i = 0; i < pieces; i++) capture.add("stdout", piece, 0);
    return performance.now() - started_ms;
  }

  test("of small pieces costs no more per piece when the log is full than when it is not", () => {
    const unlimited_ms = floodTime(2 ** 30, 20_000);
    expect(floodTime(256 * 1024, 20_000)).toBeLessThan(Math.max(20, unlimited_ms) * 5);
  });
});
