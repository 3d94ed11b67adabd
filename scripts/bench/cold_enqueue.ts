/** What `lease enqueue -- true` costs a script, beside a compiled Bun program that does nothing: both in one run of hyperfine. */

import { join } from "node:path";
import type { Turn } from "./harness.ts";
import { emptyBinary, filledStore, has, leaseBinary, newFolder, quiet, ratioFigure, skipped } from "./harness.ts";

const TURNS = 5;
const RUNS = 100;

async function hyperfine(...commands: string[]): Promise<number[]> {
  const report = join(newFolder(), "report.json");
  const child = Bun.spawn(
    ["hyperfine", "-N", "--warmup", "5", "--runs", String(RUNS), "--export-json", report, ...commands],
    { stdin: "ignore", stdout: "ignore", stderr: "ignore" },
  );
  if ((await child.exited) !== 0) throw new Error(`hyperfine failed on ${commands.join(", ")}`);
  const { results } = (await Bun.file(report).json()) as { results: { median: number }[] };
  return results.map(({ median }) => median * 1_000);
}

if (has("hyperfine")) {
  const store = await filledStore([]);
  const [lease, empty] = [leaseBinary(), emptyBinary()];
  const turns: Turn[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    await quiet();
    const [ours = 0, other = 0] = await hyperfine(`${lease} enqueue --store ${store} -- true`, empty);
    turns.push({ ours, other });
  }
  ratioFigure("cold-enqueue", "ms", turns, { at_most: 2.5 });
} else skipped("cold-enqueue", "there is no hyperfine");
