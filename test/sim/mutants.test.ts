/** The list of deliberate bugs is of the code as it is, and one of them is tried: `bun scripts/mutants.ts` tries all. */

import { expect, test } from "bun:test";
import { mutated, sourceFiles } from "../../scripts/mutants.ts";
import { MUTANTS } from "../../scripts/mutants/list.ts";
import { readProofs } from "../../scripts/proof/report.ts";

test("each deliberate bug can still be put where it belongs", () => {
  const files = sourceFiles();
  for (const mutant of MUTANTS) {
    for (const [path, source] of mutated(files, mutant)) expect(source).not.toBe(files.get(path)!);
  }
});

test("one whose place is gone, or is not one place, is said to be", () => {
  const mutant = { name: "x", within: "src/a/", swaps: [["text", ""]] as const };
  const files = (text: string) =>
    new Map([
      ["src/a/b.ts", text],
      ["src/c.ts", "text"],
    ]);
  expect(() => mutated(files("none"), mutant)).toThrow('mutant "x": "text" is there 0 times');
  expect(() => mutated(files("text text"), mutant)).toThrow('mutant "x": "text" is there 2 times');
  expect([...mutated(files("a text"), mutant)]).toEqual([["src/a/b.ts", "a "]]);
});

test("there are enough of them, each with a name of its own, and all were caught", () => {
  expect(MUTANTS.length).toBeGreaterThanOrEqual(40);
  expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length);
  const told = readProofs().filter(({ command }) => command === "bun scripts/mutants.ts");
  for (const { counts } of told) expect(counts).toEqual({ mutants: MUTANTS.length, caught: MUTANTS.length });
});
