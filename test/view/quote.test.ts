import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { commandText, quote, quoteArgv } from "../../src/view/text.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

describe("a quoted word", () => {
  test.each([
    ["release", "release"],
    ["--target=x86_64-linux", "--target=x86_64-linux"],
    ["größe", "größe"],
    ["", "''"],
    ["two words", "'two words'"],
    ["a|b", "'a|b'"],
    ["*.ts", "'*.ts'"],
    ["~", "'~'"],
    ["it's", `"it's"`],
    [`it's "$x"`, `'it'\\''s "$x"'`],
    ["a\nb", String.raw`$'a\nb'`],
    ["it's\u001b[0m", String.raw`$'it\'s\x1b[0m'`],
  ])("%j is %s", (word, quoted) => {
    expect(quote(word)).toBe(quoted);
  });

  test("is the same word again after a shell has read it", () => {
    // NUL can't be in an argv; half surrogates can't be in UTF-8.
    const word = fc.string({ unit: "binary" }).map((text) => text.replaceAll("\0", "").toWellFormed());
    fc.assert(
      fc.property(fc.array(word, { minLength: 1, maxLength: 20 }), (words) => {
        const line = `printf '%s\\0' ${words.map(quote).join(" ")}`;
        const { stdout } = Bun.spawnSync(["bash", "-c", line], { env: { LC_ALL: "C.UTF-8" } });
        expect(stdout.toString()).toBe(words.map((text) => `${text}\0`).join(""));
      }),
      { numRuns: 20 },
    );
  });
});

describe("a command", () => {
  test("is its words, quoted where needed", () => {
    expect(quoteArgv(["sh", "-c", "a | b"])).toBe("sh -c 'a | b'");
  });

  test("whose first word has = is not read as an assignment", () => {
    expect(quoteArgv(["A=1", "B=2"])).toBe("'A=1' B=2");
    expect(quoteArgv(["A='1'"])).toBe(`"A='1'"`);
  });

  test("that a job does not have is its input, on one line", () => {
    expect(commandText({ argv: [], input: bytes('{"to":"anna"}\nmore\n') })).toBe(String.raw`< {"to":"anna"}\nmore`);
    expect(commandText({ argv: [], input: bytes("x".repeat(2_000)) })).toBe(`< ${"x".repeat(512)}…`);
    expect(commandText({ argv: [], input: null })).toBe("");
  });
});
