import { describe, expect, test } from "bun:test";
import { isResourceName, readNeeds } from "../../src/core/resources.ts";

describe("what a job needs", () => {
  test("is read with its amounts, one unless told", () => {
    expect(readNeeds("gpu,mem=8G")).toEqual({ value: { gpu: 1, mem: 8 * 2 ** 30 } });
  });

  test.each(["gpu,gpu=2", "mem=8G,gpu,mem=8G"])("is said once: %s", (text) => {
    expect(readNeeds(text)).toMatchObject({ problem: expect.stringContaining("named twice") });
  });

  // A row that has them is read without them: nobody would count what is held.
  test.each(["constructor", "prototype", "toString"])("can't have the name %s, which every object has", (name) => {
    expect(isResourceName(name)).toBe(false);
    expect(readNeeds(name)).toHaveProperty("problem");
  });
});
