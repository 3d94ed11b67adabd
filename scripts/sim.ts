/**
 * The simulation, by hand: `bun scripts/sim.ts --seeds 1-10000` lives so many lives on all cores and says what broke;
 * `--seed 7` lives one again, to the byte, and prints its history; `--shrink` cuts one that breaks down to what it takes.
 */

import { cpus } from "node:os";
import process from "node:process";
import { parseArgs } from "node:util";
import { historyTable } from "../test/sim/history.ts";
import { liveMany, proveLives, type Tally } from "../test/sim/many.ts";
import { shrink } from "../test/sim/shrink.ts";
import { live, type Life, type LifeOptions } from "../test/sim/simulate.ts";

const USAGE = `bun scripts/sim.ts --seed N [--shrink] [--calm] [--only 3,17]   one life, as a table
bun scripts/sim.ts [--seeds 1-10000] [--jobs 2] [--first] [--json]   many lives, and what broke`;

const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    seeds: { type: "string", default: "1-10000" },
    jobs: { type: "string", default: String(cpus().length) },
    only: { type: "string" },
    shrink: { type: "boolean", default: false },
    calm: { type: "boolean", default: false },
    first: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

function show({ seed, steps, events, broken }: Life, again: string): void {
  const done = [...steps].map(([step, action]) => `${step} ${action}`).join(", ");
  console.log(`${historyTable(events)}\n\nseed ${seed}: ${done}\n${broken?.message ?? "nothing is broken"}${again}`);
}

async function one(seed: number): Promise<number> {
  const options: LifeOptions = {
    ...(values.calm ? { calm: true } : {}),
    ...(values.only === undefined ? {} : { only: values.only.split(",").map(Number) }),
  };
  if (!values.shrink) {
    const life = await live(seed, options);
    show(life, "");
    return life.broken === null ? 0 : 1;
  }
  const { life, options: least, tried } = await shrink(seed, options);
  const flags = `${least.calm === true ? " --calm" : ""}${least.only === undefined ? "" : ` --only ${least.only.join()}`}`;
  show(life, `\n${tried} lives later; again with: bun scripts/sim.ts --seed ${seed}${flags}`);
  return life.broken === null ? 0 : 1;
}

async function many(from: number, to: number, jobs: number): Promise<number> {
  const started_ms = performance.now();
  const tally: Tally = await liveMany(from, to, jobs, values.first ? 1 : undefined);
  if (values.json) {
    console.log(JSON.stringify(tally));
    return tally.broken.length === 0 ? 0 : 1;
  }
  proveLives(tally);
  for (const { seed, message } of tally.broken) console.log(`seed ${seed}: ${message}`);
  const seconds = ((performance.now() - started_ms) / 1_000).toFixed(1);
  for (const [what, count] of Object.entries(tally.seen).toSorted())
    console.log(`${String(count).padStart(9)} ${what}`);
  console.log(`${tally.lives} lives, ${tally.writes} writes, ${tally.broken.length} broken, ${seconds} s`);
  return tally.broken.length === 0 ? 0 : 1;
}

if (values.help) console.log(USAGE);
else if (values.seed !== undefined) process.exitCode = await one(Number(values.seed));
else {
  const [from = 1, to = from] = values.seeds.split("-").map(Number);
  process.exitCode = await many(from, to, Number(values.jobs));
}
