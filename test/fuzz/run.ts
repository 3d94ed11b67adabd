/**
 * So many inputs, made by chance that can be had again, for everything that reads what others wrote:
 *
 *     bun test/fuzz/run.ts COUNT SEED [TARGET]
 *
 * Prints each finding with its input, and figures at the end. A process of its own, so that a hang can be ended.
 */

import process from "node:process";
import { Chance } from "../sim/chance.ts";
import { tryOne } from "./judge.ts";
import { TARGETS } from "./targets.ts";

const [count = 1_000, seed = 1] = process.argv.slice(2, 4).map(Number);
const only = process.argv[4];
const NAMED = 10;

const chosen = Object.entries(TARGETS).filter(([name]) => only === undefined || name === only);
const shares = chosen.reduce((sum, [, { share }]) => sum + share, 0);
const figures: Record<string, number> = {};
let [broken, refused] = [0, 0];

for (const [name, target] of chosen) {
  const times = Math.ceil((count * target.share) / shares);
  const chance = new Chance(seed * 7_919 + name.length * 104_729 + name.charCodeAt(0));
  let found = 0;
  console.error(name);
  for (let n = 0; n < times && found < NAMED; n++) {
    const { problem, refused: was_refused } = await tryOne(target, chance);
    figures[name] = (figures[name] ?? 0) + 1;
    if (was_refused) refused += 1;
    if (problem === null) continue;
    found += 1;
    console.log(`${name}: ${problem}`);
  }
  broken += found;
}
const inputs = Object.values(figures).reduce((a, b) => a + b, 0);
console.log(JSON.stringify({ inputs, refused, broken, of: figures }));
process.exit(broken === 0 ? 0 : 1);
