import { describe, expect, test } from "bun:test";
import { TerminalFilter } from "../../src/view/terminal_filter.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

/** Through the filter, in pieces of that size. */
function filtered(text: string | Uint8Array, size = Infinity): string {
  const all = typeof text === "string" ? bytes(text) : text;
  const filter = new TerminalFilter();
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < all.length; at += size) pieces.push(filter.push(all.subarray(at, at + size)));
  pieces.push(filter.end());
  return new TextDecoder().decode(Buffer.concat(pieces));
}

describe("what a job printed, at a terminal", () => {
  test("is as it was where it is text, in any language, with its colours", () => {
    const text = "50 %\r100 %\n\u001b[1;31mError:\u001b[0m späße \u{1F980} 日本\t\u001b[38;5;12mblue\u001b[m\n";
    for (const size of [1, 2, 3, 7, Infinity]) expect(filtered(text, size)).toBe(text);
  });

  test.each([
    ["a new title", "\u001b]0;owned\u0007"],
    ["a cleared screen", "\u001b[2J\u001b[H"],
    ["a question that the terminal answers", "\u001b[6n\u001b[c"],
    ["control characters of the second set", "\u009b2J\u0090q\u009c"],
    ["a colour that never ends", `\u001b[${"1;".repeat(500)}m`],
    ["backspaces and bells", "safe\b\b\b\bevil\u0007\u000b\u000c\u007f\0"],
    ["another character set", "\u001b(0\u000e"],
  ])("never holds %s that would be obeyed", (_what, text) => {
    for (const size of [1, 2, 5, Infinity]) {
      const shown = filtered(`a${text}z`, size);
      // oxlint-disable-next-line no-control-regex
      expect(shown).not.toMatch(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/);
      expect(shown).toStartWith(text.startsWith("safe") ? "asafe" : "a\\x");
      expect(shown).toEndWith("z");
    }
  });

  test("shows bytes that are no text as what they are", () => {
    expect(filtered(new Uint8Array([104, 105, 0x9b, 50, 74, 0xff, 0xc2]))).toBe("hi\\x9b2J\\xff\\xc2");
  });
});
