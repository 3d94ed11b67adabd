/**
 * What a checker has done, as numbers that a reader can ask for again: one file of docs/proof for each checker, written
 * only when `PROOF=1` says so. `bun scripts/how_we_test.ts` puts them all into the README.
 */

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";

export interface Proof {
  /** Where it stands among the others; by tens, so that one can come between two. */
  order: number;
  /** What was done, as a reader would say it. */
  title: string;
  /** How anybody does it again. */
  command: string;
  /** How often what was done, in the order in which it is told. */
  counts: Readonly<Record<string, number>>;
  /** What must not happen, and how often it did. */
  violations: Readonly<Record<string, number>>;
}

const FOLDER = join(import.meta.dir, "../../docs/proof");

/** Of one checker, by its name. Without `PROOF=1` nothing is written: a test changes no file of the repository. */
export function writeProof(name: string, proof: Proof): void {
  if (process.env["PROOF"] !== "1") return;
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(join(FOLDER, `${name}.json`), `${JSON.stringify(proof, null, 2)}\n`);
}

export function readProofs(folder = FOLDER): Proof[] {
  const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
  const proofs = files.map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")) as Proof);
  return proofs.toSorted((a, b) => a.order - b.order || a.title.localeCompare(b.title));
}
