import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { LineCounter, Tail } from "../../../src/runner/log/tail.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const counts = (...pieces: string[]): number[] => {
  const counter = new LineCounter();
  return pieces.map((piece) => counter.count(bytes(piece)));
};

describe("lines are counted", () => {
  test("by LF, by CR and by CR LF alike", () => {
    expect(counts("a\nb\n", "a\rb\r", "a\r\nb\r\n")).toEqual([2, 2, 2]);
  });

  test("also when they are empty", () => {
    expect(counts("\n\n\n", "a\r\r\r")).toEqual([3, 3]);
    expect(counts("\r\n\r\n")).toEqual([2]);
    expect(counts("\n\r\n")).toEqual([2]);
  });

  test("as one for what was flushed without an end: it proves work just as well", () => {
    expect(counts("50%", " … ", "done\n")).toEqual([1, 1, 1]);
  });

  test("without the rest of a line behind its last end", () => {
    expect(counts("one\ntwo\nthr")).toEqual([2]);
  });

  test("with a CR LF that falls apart as no more than one per piece", () => {
    expect(counts("a\r", "\nb\n")).toEqual([1, 1]);
    expect(counts("a\r", "\n")).toEqual([1, 1]);
  });

  test("as none where nothing was printed", () => {
    expect(counts("")).toEqual([0]);
  });

  test("in any bytes at all", () => {
    expect(new LineCounter().count(new Uint8Array([0, 255, 10, 128, 13, 192, 10]))).toBe(3);
  });

  test("the same however the bytes are cut, but for one per piece", () => {
    const pieces = fc.array(fc.string({ unit: fc.constantFrom("x", "\n", "\r"), maxLength: 8 }), { maxLength: 12 });
    fc.assert(
      fc.property(pieces, (cut) => {
        const whole = counts(cut.join(""))[0]!;
        const summed = counts(...cut).reduce((sum, count) => sum + count, 0);
        expect(summed).toBeGreaterThanOrEqual(cut.join("").length > 0 ? 1 : 0);
        expect(Math.abs(summed - whole)).toBeLessThanOrEqual(cut.length);
      }),
    );
  });
});

function tailOf(...pieces: string[]): Tail {
  const tail = new Tail();
  for (const piece of pieces) tail.add(bytes(piece));
  return tail;
}

describe("the tail of what was printed", () => {
  test("gives the last lines, oldest first", () => {
    expect(tailOf("one\ntwo\nthree\nfour\n").lines(2)).toEqual(["three", "four"]);
  });

  test("puts lines together that came in pieces", () => {
    expect(tailOf("o", "ne\ntw", "o").lines(9)).toEqual(["one", "two"]);
  });

  test("leaves out lines that say nothing", () => {
    expect(tailOf("one\n\n   \n\t\ntwo\n\n").lines(9)).toEqual(["one", "two"]);
    expect(tailOf("\n \n").lines(9)).toEqual([]);
    expect(new Tail().lines(1)).toEqual([]);
  });

  test("takes the last state of a progress bar for its last line", () => {
    expect(tailOf("10%\r50%\r99%\r").lines(1)).toEqual(["99%"]);
  });

  test("cuts a line that is too long for a list, and says so", () => {
    const [line] = tailOf(`${"x".repeat(2_000)}\n`).lines(1);
    expect(line).toBe(`${"x".repeat(500)}…`);
  });

  test("replaces what is not text", () => {
    const tail = new Tail();
    tail.add(new Uint8Array([104, 105, 255, 254, 10]));
    expect(tail.lines(1)).toEqual(["hi\uFFFD\uFFFD"]);
  });

  test("keeps the newest few kilobytes, whatever the sizes of the pieces", () => {
    const pieces = fc.array(fc.string({ unit: fc.constantFrom("a", "b", "\n"), maxLength: 4_000 }), { maxLength: 8 });
    fc.assert(
      fc.property(pieces, fc.integer({ min: 1, max: 3 }), (cut, repeat) => {
        const tail = new Tail();
        let all = "";
        for (const piece of cut) {
          const grown = piece.repeat(repeat);
          tail.add(bytes(grown));
          all += grown;
        }
        const kept = all.slice(-8 * 1024);
        const spoken = kept.split(/\n+/).filter((line) => line.trim() !== "");
        const shown = spoken.slice(-3).map((line) => (line.length > 500 ? `${line.slice(0, 500)}…` : line));
        expect(tail.lines(3)).toEqual(shown);
      }),
      { numRuns: 50 },
    );
  });

  test("does not grow with a line of any length", () => {
    const tail = new Tail();
    const piece = new Uint8Array(1024 * 1024).fill(120);
    for (let mebibyte = 0; mebibyte < 64; mebibyte++) tail.add(piece);
    tail.add(bytes("\nlast\n"));
    const [before, last] = tail.lines(9);
    expect([before?.length, last]).toEqual([501, "last"]);
  });
});
