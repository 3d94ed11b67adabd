/**
 * How much longer a look at a store takes when it holds a million jobs instead of a hundred: the overview and a list,
 * through the program, as a person runs them.
 */

import { rmSync } from "node:fs";
import { dirname } from "node:path";
import type { Turn } from "./harness.ts";
import { leaseBinary, median, newStorePath, plainFigure, ratioFigure, skipped, takeTurns, timed } from "./harness.ts";
import { fillStore } from "./large_store.ts";

const [SMALL, LARGE] = [100, 1_000_000];
const TURNS = 15;
const MORE_MS = 100;

const VIEWS: readonly [name: string, args: readonly string[]][] = [
  ["inspect-size, overview", ["inspect"]],
  ["inspect-size, jobs", ["inspect", "jobs", "--limit", "50", "--json"]],
  ["inspect-size, failed", ["inspect", "jobs", "--status", "failed", "--limit", "50", "--json"]],
];

async function refusal(args: readonly string[], path: string): Promise<string | null> {
  const child = Bun.spawn([leaseBinary(), ...args, "--store", path], { stdout: "ignore", stderr: "pipe" });
  const [exit_code, stderr] = await Promise.all([child.exited, new Response(child.stderr).text()]);
  return exit_code === 0 ? null : `\`lease ${args.join(" ")}\` says: ${stderr.split("\n")[0]}`;
}

function figures(name: string, turns: readonly Turn[]): void {
  ratioFigure(name, "ms", turns, {});
  const more_ms = median(turns.map(({ ours, other }) => ours - other));
  plainFigure(`${name}, more`, more_ms, "ms", { at_most: MORE_MS });
}

const [small, large] = [newStorePath(), newStorePath()];
try {
  await fillStore(small, SMALL);
  await fillStore(large, LARGE);
  for (const [name, args] of VIEWS) {
    const why = await refusal(args, small);
    const look = (path: string) => () => timed([leaseBinary(), ...args, "--store", path]);
    if (why === null) figures(name, await takeTurns(TURNS, look(large), look(small)));
    else skipped(name, why);
  }
} finally {
  for (const path of [small, large]) rmSync(dirname(path), { recursive: true, force: true });
}
