/**
 * What `lease enqueue -- true` costs a script, beside a compiled Bun program that does nothing. hyperfine runs one
 * command after the other, so many short runs of both take turns.
 */

import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  compileWith,
  filledStore,
  has,
  leaseBinary,
  newFolder,
  ratioFigure,
  root,
  skipped,
  takeTurns,
} from "./harness.ts";

const TURNS = 25;
const RUNS = 15;

/** An empty program by the very build script of the project, so that its flags can't drift apart. */
function emptyBinary(): string {
  const folder = newFolder();
  for (const name of ["scripts", "src"]) mkdirSync(join(folder, name));
  copyFileSync(join(root, "scripts/build.ts"), join(folder, "scripts/build.ts"));
  copyFileSync(join(root, "package.json"), join(folder, "package.json"));
  writeFileSync(join(folder, "src/main.ts"), "export {};\n");
  compileWith(folder, join(folder, "empty"));
  return join(folder, "empty");
}

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
