/** Many lives, shared out among processes: each has a store of its own, and a life is its seed's whoever lives it. */

import { join } from "node:path";
import process from "node:process";
import { writeProof } from "../../scripts/proof/report.ts";
import { live, type LifeOptions } from "./simulate.ts";

export interface Tally {
  lives: number;
  writes: number;
  seen: Record<string, number>;
  broken: { seed: number; message: string }[];
}

/** More would say the same. */
const MOST_BROKEN = 20;

const SCRIPT = join(import.meta.dir, "../../scripts/sim.ts");

/** `most`: after so many that are broken it ends. */
export async function liveMany(from: number, to: number, processes: number, most = MOST_BROKEN): Promise<Tally> {
  if (processes <= 1) return liveHere(from, to, {}, most);
  const each = Math.ceil((to - from + 1) / processes);
  const parts = Array.from({ length: processes }, (_, index) => {
    const first = from + index * each;
    return liveElsewhere(first, Math.min(to, first + each - 1));
  });
  return add(await Promise.all(parts));
}

export async function liveHere(
  from: number,
  to: number,
  options: LifeOptions = {},
  most = MOST_BROKEN,
): Promise<Tally> {
  const tally: Tally = { lives: 0, writes: 0, seen: {}, broken: [] };
  for (let seed = from; seed <= to && tally.broken.length < most; seed++) {
    const { seen, events, broken } = await live(seed, options);
    tally.lives += 1;
    tally.writes += events.length;
    for (const [what, count] of Object.entries(seen)) tally.seen[what] = (tally.seen[what] ?? 0) + count;
    if (broken === null) continue;
    tally.broken.push({ seed, message: broken.message });
    // At once: the rest may take minutes.
    console.error(`seed ${seed}: ${broken.message}`);
  }
  return tally;
}

async function liveElsewhere(from: number, to: number): Promise<Tally> {
  const argv = [process.execPath, SCRIPT, "--seeds", `${from}-${to}`, "--jobs", "1", "--json"];
  const child = Bun.spawn(argv, { stdout: "pipe", stderr: "inherit" });
  const text = await new Response(child.stdout).text();
  await child.exited;
  if (text === "") throw new Error(`the lives ${from} to ${to} came to nothing`);
  return JSON.parse(text) as Tally;
}

function add(parts: readonly Tally[]): Tally {
  const sum: Tally = { lives: 0, writes: 0, seen: {}, broken: [] };
  for (const { lives, writes, seen, broken } of parts) {
    sum.lives += lives;
    sum.writes += writes;
    sum.broken.push(...broken);
    for (const [what, count] of Object.entries(seen)) sum.seen[what] = (sum.seen[what] ?? 0) + count;
  }
  return sum;
}

export function proveLives({ lives, writes, seen, broken }: Tally): void {
  writeProof("simulation", {
    order: 10,
    title: "Lives of a fleet in virtual time, with faults at every await and statement",
    command: "bun scripts/sim.ts",
    counts: { schedules: lives, "writes checked": writes, grants: seen["granted"] ?? 0 },
    violations: { "broken invariants": broken.length },
  });
}
