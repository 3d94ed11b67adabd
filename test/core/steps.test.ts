import { describe, expect, test } from "bun:test";
import { FIRST_STEP, nextStep } from "../../src/core/steps.ts";

describe("steps of many changes", () => {
  const after = (took_ms: number, times: number) =>
    Array.from({ length: times }).reduce((size: number) => nextStep(size, took_ms), FIRST_STEP);

  test("grow while they are short, and no further than a beat may wait", () => {
    expect(after(1, 1)).toBe(2 * FIRST_STEP);
    expect(after(1, 20)).toBe(8_000);
  });

  test("shrink when one took long, and never to nothing", () => {
    expect(after(40, 1)).toBe(FIRST_STEP / 2);
    expect(after(1_000, 20)).toBe(200);
  });

  test("stay as they are between", () => {
    expect(after(20, 5)).toBe(FIRST_STEP);
  });
});
