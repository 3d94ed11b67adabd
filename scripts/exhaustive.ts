/**
 * Everything that can happen in the small worlds, in so many steps: `bun scripts/exhaustive.ts --depth 8` takes half a
 * minute, one more a minute or two. With two jobs there is more to choose from, and one step less is taken. `--seconds 60`
 * goes as deep as that time allows instead. With `PROOF=1` what was seen goes into docs/proof.
 */

import process from "node:process";
import { parseArgs } from "node:util";
import { WORLDS, explore, type Explored } from "../test/sim/explore.ts";
import { writeProof } from "./proof/report.ts";

const { values } = parseArgs({ options: { depth: { type: "string", default: "8" }, seconds: { type: "string" } } });
const limits = (jobs: number) =>
  values.seconds === undefined
    ? { depth: Number(values.depth) - (jobs - 1) }
    : { depth: 40, limit_ms: (Number(values.seconds) * 1_000) / WORLDS.length };

const explored: Explored[] = [];
for (const world of WORLDS) {
  const found = explore(world, limits(world.jobs.length));
  explored.push(found);
  const { name, depth, states, steps, violation } = found;
  console.log(
    `${name}: all ways of up to ${depth} steps, ${states} states, ${steps} steps, ${violation ?? "nothing broken"}`,
  );
}

const sum = (count: (one: Explored) => number): number => explored.reduce((all, one) => all + count(one), 0);
const violations = sum(({ violation }) => (violation === null ? 0 : 1));
console.log(`${sum(({ states }) => states)} states, ${sum(({ steps }) => steps)} steps, ${violations} violations`);
writeProof("exhaustive", {
  order: 20,
  title: "Every order of events in small worlds: two workers, a sweep, a cancel and a retry on one or two jobs",
  command: "bun scripts/exhaustive.ts",
  counts: { states: sum(({ states }) => states), steps: sum(({ steps }) => steps), worlds: explored.length },
  violations: { violations },
});
process.exitCode = violations === 0 ? 0 : 1;
