import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { formatDuration, LONGEST_MS, parseDuration } from "../../src/core/duration.ts";
import { LeaseError } from "../../src/core/errors.ts";

function refusal(text: string): LeaseError {
  try {
    parseDuration(text, "--lease");
  } catch (error) {
    if (error instanceof LeaseError) return error;
    throw error;
  }
  throw new Error(`"${text}" was accepted`);
}

describe("parseDuration", () => {
  test.each([
    ["500ms", 500],
    ["30s", 30_000],
    ["5m", 300_000],
    ["2h", 7_200_000],
    ["1d", 86_400_000],
    ["1w", 604_800_000],
    ["0", 0],
    ["0s", 0],
    ["1.5s", 1_500],
    ["0.25h", 900_000],
    ["  30s ", 30_000],
  ])("reads %p as %p milliseconds", (text, ms) => {
    expect(parseDuration(text, "--lease")).toBe(ms);
  });

  test("adds up parts that are written together", () => {
    expect(parseDuration("1h30m", "--lease")).toBe(5_400_000);
    expect(parseDuration("1d2h3m4s5ms", "--lease")).toBe(93_784_005);
  });

  test("answers whole milliseconds", () => {
    expect(parseDuration("1.0006s", "--lease")).toBe(1_001);
  });

  test.each([
    "",
    "   ",
    "5 m",
    "s",
    "5x",
    "5mm",
    "1.s",
    ".5s",
    "1,5s",
    "1e3s",
    "+5s",
    "5m later",
    "soon",
    "0x10s",
    "∞",
  ])("refuses %p in one line that names the setting and shows how to write it", (text) => {
    const error = refusal(text);
    expect(error.code).toBe("usage");
    expect(error.message).toStartWith("--lease");
    expect(error.message).toContain("30s");
    expect(error.message).not.toContain("\n");
  });

  test("asks for the unit of a bare number", () => {
    expect(refusal("90").message).toContain("did you mean 90s?");
  });

  test("says that a negative duration is one", () => {
    expect(refusal("-5s").message).toContain("can't be negative");
  });

  test("accepts ten years and refuses a millisecond more", () => {
    expect(parseDuration("3650d", "--lease")).toBe(LONGEST_MS);
    expect(refusal("3650d1ms").message).toContain("at most 3650d");
  });

  test("refuses an absurd number instead of overflowing", () => {
    expect(refusal(`${"9".repeat(400)}d`).message).toContain("too long");
  });

  test("reads each text by itself, also after one that it refused", () => {
    refusal("5m and more");
    expect(parseDuration("5m", "--lease")).toBe(300_000);
    expect(parseDuration("5m", "--lease")).toBe(300_000);
  });
});

describe("formatDuration", () => {
  test.each([
    [0, "0ms"],
    [1, "1ms"],
    [450, "450ms"],
    [999, "999ms"],
    [999.6, "1s"],
    [1_000, "1s"],
    [2_500, "2.5s"],
    [9_960, "10s"],
    [30_000, "30s"],
    [59_600, "1m"],
    [300_000, "5m"],
    [302_000, "5m02s"],
    [3_599_600, "1h"],
    [5_400_000, "1h30m"],
    [86_400_000, "1d"],
    [90_000_000, "1d01h"],
    [-2_500, "-2.5s"],
  ])("writes %p milliseconds as %p", (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });

  test("never says 24h or 60m where a larger unit says it", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 3 * 86_400_000 }), (ms) => {
        expect(formatDuration(ms)).not.toMatch(/^24h|60m|60s|^1000ms/);
      }),
      { examples: [[86_399_000], [86_399_999], [3_599_999], [59_999]] },
    );
  });

  test("is read back as nearly the same duration", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: LONGEST_MS }), (ms) => {
        const back_ms = parseDuration(formatDuration(ms), "--lease");
        // Two units of the same size ladder: the smaller one is at worst 1/24 of the larger, rounded to its half.
        expect(Math.abs(back_ms - ms)).toBeLessThanOrEqual(Math.max(1, ms / 40));
      }),
    );
  });
});
