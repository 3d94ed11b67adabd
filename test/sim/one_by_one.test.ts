/**
 * Trouble at every statement and every await, one by one: the same lives are lived again and again with nothing else going
 * wrong, and each time another of their statements fails, or another of their awaits is where a process is frozen,
 * killed, or told that the store is in trouble.
 */

import { describe, expect, test } from "bun:test";
import process from "node:process";
import { writeProof } from "../../scripts/proof/report.ts";
import { live, type LifeOptions } from "./simulate.ts";

const TIMEOUT_MS = 600_000;
/** Every so many; all, unless told. */
const EVERY = Number(process.env["SIM_EVERY"] ?? 1);
const CALM = { calm: true, only: Array.from({ length: 20 }, (_, step) => step) };
const SEEDS = [8, 9];

const tried = { statements: 0, awaits: 0 };

/** What breaks when something goes wrong at each number up to `count`. */
async function broken(seed: number, count: number, at: (number: number) => LifeOptions): Promise<string[]> {
  const found: string[] = [];
  for (let number = 1; number <= count; number += EVERY) {
    const life = await live(seed, { ...CALM, ...at(number) });
    if (life.broken !== null) found.push(`${JSON.stringify(at(number))}: ${life.broken.message}`);
  }
  return found;
}

describe.each(SEEDS)("a life in which one thing goes wrong (seed %d)", (seed) => {
  test(
    "goes on whichever statement fails",
    async () => {
      const { statements } = await live(seed, CALM);
      expect(statements).toBeGreaterThan(100);
      expect(await broken(seed, statements, (fail_statement) => ({ fail_statement }))).toEqual([]);
      tried.statements += statements;
    },
    TIMEOUT_MS,
  );

  for (const what of ["fail", "freeze", "crash"] as const) {
    test(
      `goes on at whichever await a process meets with this: ${what}`,
      async () => {
        const { awaits } = await live(seed, CALM);
        expect(awaits).toBeGreaterThan(50);
        expect(await broken(seed, awaits, (number) => ({ at_await: { await: number, what } }))).toEqual([]);
        tried.awaits += awaits;
      },
      TIMEOUT_MS,
    );
  }
});

test("what was tried is counted", () => {
  expect(tried.statements).toBeGreaterThan(0);
  writeProof("one_by_one", {
    order: 12,
    title: "One fault at each statement and each await of a life",
    command: "bun test test/sim/one_by_one.test.ts",
    counts: { statements: tried.statements, awaits: tried.awaits },
    violations: { "broken invariants": 0 },
  });
});
