/** What a live view writes to the terminal. */

import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { ansi, plain } from "../../src/view/style.ts";
import { displayWidth, drawLines, fitLines, paintedWidth, truncatePainted } from "../../src/view/text.ts";

const text = (lines: number) => Array.from({ length: lines }, (_, at) => `line ${at + 1}\n`).join("");

describe("the lines of a frame", () => {
  test("are the head and the text, as long as they fit", () => {
    expect(fitLines(text(2), "head", { columns: 80, rows: 6 }, plain)).toEqual(["head", "", "line 1", "line 2"]);
  });

  test("end with how many are left out", () => {
    expect(fitLines(text(20), "head", { columns: 80, rows: 6 }, plain)).toEqual([
      "head",
      "",
      "line 1",
      "line 2",
      "line 3",
      "… 17 more",
    ]);
  });

  test("count what the text has no lines for, as its last line says", () => {
    const cut = `${text(10)}… and 1,990 more\n`;
    const small = fitLines(cut, "head", { columns: 80, rows: 8 }, plain, 1_990);
    expect(small.slice(-2)).toEqual(["line 5", "… 1,995 more"]);
    expect(fitLines(cut, "head", { columns: 80, rows: 20 }, plain, 1_990).at(-1)).toBe("… and 1,990 more");
  });

  test("have no head where there is hardly room for the text", () => {
    expect(fitLines(text(9), "head", { columns: 80, rows: 3 }, plain)).toEqual(["line 1", "line 2", "… 7 more"]);
    expect(fitLines(text(9), "head", { columns: 80, rows: 1 }, plain)).toEqual(["… 9 more"]);
  });

  test("never take more than the terminal has", () => {
    const anything = fc.array(fc.string({ unit: "grapheme" }), { maxLength: 40 });
    fc.assert(
      fc.property(
        anything,
        fc.integer({ min: 1, max: 90 }),
        fc.integer({ min: 1, max: 30 }),
        (lines, columns, rows) => {
          const shown = fitLines(
            lines.map((line) => ansi.red(line.replaceAll(/\p{Cc}/gu, ""))).join("\n"),
            "head",
            { columns, rows },
            ansi,
          );
          expect(shown.length).toBeLessThanOrEqual(rows);
          for (const line of shown) expect(paintedWidth(line)).toBeLessThanOrEqual(columns);
        },
      ),
    );
  });
});

describe("painted text", () => {
  test("is cut by what is seen, and its colours end all the same", () => {
    expect(truncatePainted(`${ansi.red("failed")} job`, 5)).toBe("\u001b[31mfail…\u001b[0m");
    expect(truncatePainted(`${ansi.red("failed")} job`, 8)).toBe("\u001b[31mfailed\u001b[0m …");
    expect(truncatePainted(ansi.red("failed"), 6)).toBe(ansi.red("failed"));
    expect(displayWidth(truncatePainted("漢字漢字", 5))).toBe(5);
  });
});

describe("drawing", () => {
  const size = { columns: 10, rows: 3 };

  test("goes over what was there, line by line, and erases only what is left", () => {
    expect(drawLines(["ab", "0123456789"], size)).toBe(
      "\u001b[?2026h\u001b[Hab\u001b[K\r\n0123456789\r\n\u001b[J\u001b[?2026l",
    );
  });

  test("of a full screen does not go below its last line, which would scroll", () => {
    const [, behind = ""] = drawLines(["a", "b", "c"], size).split("c\u001b[K");
    expect(behind).toBe("\u001b[?2026l");
  });
});
