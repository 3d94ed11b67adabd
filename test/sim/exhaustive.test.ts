/** The small worlds, to a depth that takes seconds; `bun scripts/exhaustive.ts` goes as deep as one likes. */

import { describe, expect, test } from "bun:test";
import process from "node:process";
import { WORLDS, explore } from "./explore.ts";

/** With two jobs there is more to choose from at each step. */
const DEPTHS = { 1: Number(process.env["SIM_DEPTH"] ?? 7), 2: Number(process.env["SIM_DEPTH"] ?? 7) - 1 };
const TIMEOUT_MS = 300_000;

describe("in whatever order things happen", () => {
  for (const world of WORLDS) {
    const depth = DEPTHS[world.jobs.length as 1 | 2];
    test(
      `nothing is broken in ${depth} steps with ${world.name}`,
      () => {
        const { violation, states } = explore(world, { depth });
        expect(violation).toBeNull();
        expect(states).toBeGreaterThan(1_000);
      },
      TIMEOUT_MS,
    );
  }

  test(
    "each of the steps leads somewhere: a world is not finished after the first few",
    () => {
      const [shallow, deep] = [3, 5].map((depth) => explore(WORLDS[0]!, { depth }).states) as [number, number];
      expect(deep).toBeGreaterThan(3 * shallow);
    },
    TIMEOUT_MS,
  );
});
