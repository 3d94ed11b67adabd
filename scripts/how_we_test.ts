/**
 * Puts the numbers of docs/proof into README.md, between its two marks; `--check` only says whether they are there. The
 * checkers write them with `PROOF=1`: `PROOF=1 ./scripts/test.sh` for all that CI runs.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { readProofs, type Proof } from "./proof/report.ts";

const BEGIN = "<!-- how-we-test:begin -->";
const END = "<!-- how-we-test:end -->";

const thousands = (count: number): string => count.toLocaleString("en-US");

function row({ title, counts, violations, command }: Proof): string {
  const done = Object.entries(counts).map(([what, count]) => `${thousands(count)} ${what}`);
  const found = Object.entries(violations).map(([what, count]) => `${what} ${thousands(count)}`);
  return `| ${title} | ${done.join(", ")} | ${found.join(", ") || "–"} | \`${command}\` |`;
}

/** The section as it has to be. */
export function howWeTest(proofs: readonly Proof[]): string {
  const head = "| what | the last run | found | again with |\n| --- | --- | --- | --- |";
  return [head, ...proofs.map(row)].join("\n");
}

/** The document with the section in it; null: it has no place for one. */
export function withSection(document: string, section: string): string | null {
  const [from, to] = [document.indexOf(BEGIN), document.indexOf(END)];
  if (from < 0 || to < from) return null;
  return `${document.slice(0, from + BEGIN.length)}\n\n${section}\n\n${document.slice(to)}`;
}

if (import.meta.main) {
  const path = join(import.meta.dir, "../README.md");
  const document = readFileSync(path, "utf8");
  const next = withSection(document, howWeTest(readProofs()));
  if (next === null) throw new Error(`README.md has no ${BEGIN} … ${END}`);
  if (process.argv.includes("--check")) {
    if (next !== document) throw new Error("README.md is behind docs/proof: run `bun scripts/how_we_test.ts`");
  } else writeFileSync(path, next);
}
