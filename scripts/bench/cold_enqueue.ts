/**
 * What `lease enqueue -- true` costs a script, beside a compiled Bun program that does nothing. hyperfine runs one
 * command after the other, so many short runs of both take turns.
 */

import { join } from "node:path";
import { emptyBinary, filledStore, has, leaseBinary, newFolder, ratioFigure, skipped, takeTurns } from "./harness.ts";

const TURNS = 25;
const RUNS = 15;

async function hyperfine(command: string): Promise<number> {
  const report = join(newFolder(), "report.json");
  const child = Bun.spawn(
    ["hyperfine", "-N", "--warmup", "3", "--runs", String(RUNS), "--export-json", report, command],
    { stdin: "ignore", stdout: "ignore", stderr: "ignore" },
  );
  if ((await child.exited) !== 0) throw new Error(`hyperfine failed on ${command}`);
  const { results } = (await Bun.file(report).json()) as { results: [{ median: number }] };
  return results[0].median * 1_000;
}

if (has("hyperfine")) {
  const store = await filledStore([]);
  const [lease, empty] = [leaseBinary(), emptyBinary()];
  const turns = await takeTurns(
    TURNS,
    () => hyperfine(`${lease} enqueue --store ${store} -- true`),
    () => hyperfine(empty),
  );
  ratioFigure("cold-enqueue", "ms", turns, { at_most: 2.5 });
} else skipped("cold-enqueue", "there is no hyperfine");
