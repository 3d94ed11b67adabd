import { expect, test } from "bun:test";
import { commonPart } from "../../src/lookup/failures.ts";

test("errors that differ in numbers, addresses and names are alike", () => {
  const alike = [
    ["timeout after 31s talking to 10.0.0.1:5432", "timeout after 4s talking to 10.0.0.77:5432"],
    ['no such file "a.txt"', 'no such file "b.txt"'],
    ["commit 0a1b2c3d4e5f failed", "commit ffffffff0000 failed"],
    ["job 4f9c1c9e-1111-4222-8333-444455556666 lost", "job 00000000-1111-4222-8333-444455556666 lost"],
  ] as const;
  for (const [one, other] of alike) expect(commonPart(one)).toBe(commonPart(other));
});

test("an exit code or a signal makes a difference", () => {
  expect(commonPart("exit code 2")).toBe("exit code 2");
  expect(commonPart("exit code 2")).not.toBe(commonPart("exit code 75"));
});

test("what is said at great length is told short", () => {
  expect(commonPart("x ".repeat(10_000)).length).toBeLessThanOrEqual(160);
});
