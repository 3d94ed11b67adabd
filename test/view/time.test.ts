import { expect, test } from "bun:test";
import { coarse, readable, relative, rfc3339 } from "../../src/view/time.ts";

const now = Date.UTC(2026, 4, 2, 10, 0, 0);

test.each([
  [0, "now"],
  [-999, "now"],
  [-3 * 60_000 - 12_000, "3m ago"],
  [41_000, "in 41s"],
  [59_400, "in 59s"],
  [59_999, "in 1m"],
  [7_199_000, "in 2h"],
  [91 * 60_000, "in 1h31m"],
  [-2 * 3_600_000, "2h ago"],
  [26 * 3_600_000, "in 1d2h"],
  [-400 * 86_400_000, "400d ago"],
])("a moment %d ms from now is %s", (distance_ms, text) => {
  expect(relative(now + distance_ms, now)).toBe(text);
});

test("a length of time is told in its largest unit, never rounded up", () => {
  expect([0, 59_999, 60_000, 3_599_999, 86_399_999].map(coarse)).toEqual(["0s", "59s", "1m", "59m", "23h"]);
});

test("machines get RFC 3339 in UTC with milliseconds, people the same without the noise", () => {
  expect(rfc3339(now + 7)).toBe("2026-05-02T10:00:00.007Z");
  expect(readable(now + 7)).toMatch(/^2026-05-0[123] \d\d:\d\d:\d\d$/);
});
