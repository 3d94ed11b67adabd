import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { nearest } from "../../src/core/nearest.ts";

const commands = ["enqueue", "worker", "watchdog", "inspect", "run", "wait", "ui"];

describe("the nearest match", () => {
  test.each([
    ["enqeue", "enqueue"],
    ["enuqeue", "enqueue"],
    ["wroker", "worker"],
    ["INSPECT", "inspect"],
    ["rum", "run"],
    ["watchdogs", "watchdog"],
    ["insp", "inspect"],
  ])("of %s is %s", (typed, meant) => {
    expect(nearest(typed, commands)).toBe(meant);
  });

  test.each(["frobnicate", "x", "", "ls", "worse-than-that"])("of %j is nothing", (typed) => {
    expect(nearest(typed, commands)).toBeNull();
  });

  test("is nothing when there is nothing to choose from", () => {
    expect(nearest("run", [])).toBeNull();
  });

  test("is the first of several that are equally near", () => {
    expect(nearest("wart", ["wait", "want"])).toBe("wait");
  });

  test("is not searched for a word that nobody could have mistyped", () => {
    expect(nearest("a".repeat(100_000), commands)).toBeNull();
  });

  test("of a word with two neighbours swapped is that word", () => {
    const names = ["enqueue", "watchdog", "checkpoint", "completions"];
    fc.assert(
      fc.property(fc.constantFrom(...names), fc.nat(), (name, seed) => {
        const at = seed % (name.length - 1);
        const swapped = name.slice(0, at) + name.charAt(at + 1) + name.charAt(at) + name.slice(at + 2);
        expect(nearest(swapped, names)).toBe(name);
      }),
    );
  });
});
