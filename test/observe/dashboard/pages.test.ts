/** What the pages do with text, without a browser. */

import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { plainText, spansOf } from "../../../src/observe/dashboard/pages/ansi.ts";
import { agoText, countText, lengthText } from "../../../src/observe/dashboard/pages/format.ts";
import { LogLines } from "../../../src/observe/dashboard/pages/log_lines.ts";
import { shellWords } from "../../../src/observe/dashboard/pages/words.ts";
import { quoteArgv } from "../../../src/view/text.ts";

const ESC = "\u001b";

describe("colours", () => {
  test("become classes, and go on into the next line", () => {
    const { spans, after } = spansOf(`${ESC}[1;31mred${ESC}[22m thin`);
    expect(spans).toEqual([
      { text: "red", style: "c1 bold" },
      { text: " thin", style: "c1" },
    ]);
    expect(spansOf("more", after).spans).toEqual([{ text: "more", style: "c1" }]);
    expect(spansOf(`${ESC}[38;2;255;80;80mx${ESC}[48;5;21my`).spans.map(({ style }) => style)).toEqual([
      "c9",
      "c9 b12",
    ]);
  });

  test("are all that is obeyed: titles, links, cursors and turned text are not", () => {
    const line = `a${ESC}]0;title\u0007b${ESC}]8;;http://x\u001b\\c${ESC}[2Jd${ESC}[10;10He${ESC}cf\u202eg\u0007`;
    expect(plainText(line)).toBe("abcdef�g�");
  });

  test("never make anything out of text but text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (line) => {
        const { spans } = spansOf(line);
        for (const { text, style } of spans) {
          expect(style).toMatch(/^[a-z0-9 ]*$/);
          // oxlint-disable-next-line no-control-regex
          expect(text).not.toMatch(/[\u0000-\u0008\u001b]/);
        }
      }),
    );
  });
});

const piece = (text: string, start: number, stream: "stdout" | "stderr" = "stdout") => ({
  stream,
  at: "2026-01-01T00:00:00.000Z",
  start,
  data: Buffer.from(text, "latin1").toString("base64"),
});

const texts = (log: LogLines) =>
  [...log.blocks.flatMap(({ lines }) => lines), ...log.unfinished].map(({ spans }) =>
    spans.map(({ text }) => text).join(""),
  );

describe("lines of a log", () => {
  test("are put together per stream, however the pieces were cut", () => {
    const log = new LogLines();
    const bytes = Buffer.from("größe\n").toString("latin1");
    log.add([piece(bytes.slice(0, 3), 0), piece("err\n", 3, "stderr"), piece(bytes.slice(3), 7)], 0, 12);
    expect(texts(log)).toEqual(["err", "größe"]);
  });

  test("show what was written last where a line is written again and again, for hours", () => {
    const log = new LogLines();
    for (let n = 0; n < 5_000; n++) log.add([piece(`\rdone ${n}`, n * 10)], n * 10, n * 10 + 10);
    expect(texts(log)).toEqual(["done 4999"]);
    log.add([piece("\r\nnext\r\n", 50_000)], 50_000, 50_008);
    expect(texts(log)).toEqual(["done 4999", "next"]);
  });

  test("come once, though the connection was lost and they were sent again", () => {
    const log = new LogLines();
    log.add([piece("a\n", 0), piece("b\n", 2)], 0, 4);
    log.add([piece("b\n", 2), piece("c\n", 4)], 2, 6);
    expect(texts(log)).toEqual(["a", "b", "c"]);
  });

  test("of any length and number take a bounded room", () => {
    const log = new LogLines();
    for (let n = 0; n < 16; n++) log.add([piece("x".repeat(65_536), n * 65_536)], n * 65_536, (n + 1) * 65_536);
    expect(log.unfinished[0]?.hidden).toBe(16 * 65_536 - 4_000);
    const many = new LogLines();
    many.add([piece("y\n".repeat(50_000), 0)], 0, 100_000);
    expect(many.blocks.reduce((sum, { lines }) => sum + lines.length, 0)).toBeLessThanOrEqual(6_000);
    expect(many.dropped).toBe(true);
  });

  test("say what was not kept", () => {
    const log = new LogLines();
    log.add([piece("a\n", 0)], 0, 2);
    log.add([piece("z\n", 1_002)], 1_002, 1_004);
    expect(texts(log)).toEqual(["a", "… 1000 bytes were not kept …", "z"]);
  });
});

describe("words of a command line", () => {
  test("are those that the command was shown for, whatever they hold", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: "grapheme" }), { minLength: 1 }), (argv) => {
        expect(shellWords(quoteArgv(argv))).toEqual(argv);
      }),
    );
    expect(shellWords(quoteArgv(["a\nb", "\u001b[1m", 'it\'s \\ "q"', ""]))).toEqual([
      "a\nb",
      "\u001b[1m",
      'it\'s \\ "q"',
      "",
    ]);
  });

  test("are none at all where a quote is open", () => {
    for (const line of ["'a", 'a "b', "a\\", "$'x"]) expect(shellWords(line)).toBeNull();
  });
});

test("times and counts are short", () => {
  expect([450, 4_200, 61_000, 3_900_000, 86_400_000].map(lengthText)).toEqual([
    "450 ms",
    "4.2s",
    "1m 1s",
    "1h 5m",
    "1d",
  ]);
  expect([agoText(0, 500), agoText(0, 61_000), agoText(61_000, 0)]).toEqual(["now", "1m ago", "in 1m"]);
  expect([agoText(41_400, 0), agoText(17_975_000, 0), agoText(7_140_000, 0)]).toEqual(["in 41s", "in 5h", "in 1h 59m"]);
  expect([999, 54_321, 1_234_567].map(countText)).toEqual(["999", "54,321", "1.2M"]);
});
