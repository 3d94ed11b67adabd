import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import {
  displayWidth,
  outputLine,
  pad,
  truncate,
  visible,
  visibleJson,
  withoutPassword,
  wrap,
} from "../../src/view/text.ts";

const anyText = fc.oneof(fc.string(), fc.string({ unit: "binary" }), fc.string({ unit: "grapheme" }));
const CONTROL = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u;

describe("hidden characters", () => {
  test.each([
    ["a\nb\r\tc", String.raw`a\nb\r\tc`],
    ["\u001b[31mred\u001b[0m", String.raw`\x1b[31mred\x1b[0m`],
    ["\u009b31m", String.raw`\u009b31m`],
    ["\u001b]0;title\u0007", String.raw`\x1b]0;title\x07`],
    ["\u007f", String.raw`\x7f`],
    ["abc\u202edcba", String.raw`abc\u202edcba`],
    ["a\u2028b", String.raw`a\u2028b`],
    ["\ud800", String.raw`\ud800`],
    ["größer 漢字 👨‍👩‍👧", "größer 漢字 👨‍👩‍👧"],
  ])("become visible: %j", (text, shown) => {
    expect(visible(text)).toBe(shown);
  });

  test("are all gone from any text that was made visible, and its lines are one", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect(visible(text)).not.toMatch(CONTROL);
        expect(outputLine(text)).not.toMatch(CONTROL);
      }),
    );
  });

  test("in JSON become escapes that mean the same", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const json = visibleJson(JSON.stringify(text));
        expect(json).not.toMatch(CONTROL);
        expect(JSON.parse(json)).toBe(text);
      }),
    );
  });

  test("of an output line are shown, but for colours, tabs and what trails", () => {
    expect(outputLine("\u001b[1;32mok\u001b[0m\tdone  ")).toBe("ok    done");
    expect(outputLine("\u001b[2Jgone")).toBe(String.raw`\x1b[2Jgone`);
  });
});

describe("the width of a text", () => {
  test.each([
    ["", 0],
    ["lease", 5],
    ["größer", 6],
    ["gro\u0308ßer", 6],
    ["漢字", 4],
    ["한국어", 6],
    ["ｆｕｌｌ", 8],
    ["👍", 2],
    ["👨‍👩‍👧", 2],
    ["❤️", 2],
    ["…─━│·", 5],
    ["\u0301", 0],
  ])("of %j is %d columns", (text, width) => {
    expect(displayWidth(text)).toBe(width);
  });

  test("agrees with the runtime's own count for text of many scripts", () => {
    for (const text of [
      "Ελληνικά",
      "русский",
      "日本語テスト",
      "中文，标点。",
      "ไทย",
      "🚀 launch 🎉",
      "naïve café",
      "⌚⏰",
    ]) {
      expect([text, displayWidth(text)]).toEqual([text, Bun.stringWidth(text)]);
    }
  });
});

describe("a cut text", () => {
  test.each([
    ["release", 7, "release"],
    ["release", 6, "relea…"],
    ["release", 1, "…"],
    ["release", 0, ""],
    ["漢字漢字", 5, "漢字…"],
    ["漢字漢字", 4, "漢…"],
    ["👨‍👩‍👧👨‍👩‍👧", 3, "👨‍👩‍👧…"],
  ])("%j in %d columns is %j", (text, width, cut) => {
    expect(truncate(text, width)).toBe(cut);
  });

  test("never takes more than its columns", () => {
    fc.assert(
      fc.property(anyText, fc.nat(20), (text, width) => {
        expect(displayWidth(truncate(visible(text), width))).toBeLessThanOrEqual(width);
      }),
    );
  });
});

test("padding counts columns, not characters", () => {
  expect(pad("漢", 4)).toBe("漢  ");
  expect(pad("7", 3, "right")).toBe("  7");
  expect(pad("too long", 3)).toBe("too long");
});

describe("wrapped text", () => {
  test("breaks between words, and not at all where there is room", () => {
    expect(wrap("run what is queued", 9)).toEqual(["run what", "is queued"]);
    expect(wrap("run what is queued", 80)).toEqual(["run what is queued"]);
    expect(wrap("", 80)).toEqual([]);
  });

  test("leaves a long word whole", () => {
    expect(wrap("a /very/long/path b", 5)).toEqual(["a", "/very/long/path", "b"]);
  });

  test("counts no columns for colours", () => {
    expect(wrap("\u001b[31mred\u001b[0m and blue", 12)).toHaveLength(1);
  });
});

describe("the password of a store", () => {
  test.each([
    ["postgres://u:secret@host/db", "postgres://u:…@host/db"],
    ["postgres://u:p@secret:x@host/db?schema=a@b", "postgres://u:…@host/db?schema=a@b"],
    ["postgres://u@host:5432/db", "postgres://u@host:5432/db"],
    ["/tmp/a:b@c.db", "/tmp/a:b@c.db"],
    ["postgres://a@:s3cret@db.example/jobs", "postgres://a@:…@db.example/jobs"],
    ["postgres://a@b:s3:c@ret@db.example/jobs", "postgres://a@b:…@db.example/jobs"],
  ])("is not shown: %s", (location, shown) => expect(withoutPassword(location)).toBe(shown));
});
