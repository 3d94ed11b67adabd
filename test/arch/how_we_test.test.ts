/** The README tells the numbers that the checkers wrote, and no others. */

import { expect, test } from "bun:test";
import { howWeTest, withSection } from "../../scripts/how_we_test.ts";
import { readProofs } from "../../scripts/proof/report.ts";

const readme = () => Bun.file(new URL("../../README.md", import.meta.url)).text();

test("the README has what docs/proof has", async () => {
  const document = await readme();
  expect(withSection(document, howWeTest(readProofs()))).toBe(document);
});

test("nothing of what must not happen has happened", () => {
  const bad = readProofs().flatMap(({ title, violations }) =>
    Object.entries(violations).flatMap(([what, count]) => (count === 0 ? [] : `${title}: ${what} ${count}`)),
  );
  expect(bad).toEqual([]);
});

test("a number that has changed is noticed", () => {
  const proof = { order: 1, title: "Kills", command: "x", counts: { kills: 1_234 }, violations: { lost: 0 } };
  const document = "a\n<!-- how-we-test:begin -->\nold\n<!-- how-we-test:end -->\nb\n";
  const written = withSection(document, howWeTest([proof])) ?? "";
  expect(written).toContain("| Kills | 1,234 kills | lost 0 | `x` |");
  expect(withSection(written, howWeTest([proof]))).toBe(written);
  expect(withSection(written, howWeTest([{ ...proof, counts: { kills: 1 } }]))).not.toBe(written);
  expect(withSection("no marks", "")).toBeNull();
});
