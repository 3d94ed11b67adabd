/**
 * How many jobs per second `lease enqueue --from` takes from a file, as lines of JSON and of text, and how much memory
 * it needs for a file that is many times larger than what it may use.
 */

import { closeSync, openSync, rmSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { leaseBinary, median, newFolder, newStorePath, plainFigure, quiet, workspace } from "./harness.ts";

const TURNS = 5;
const JOBS = 500_000;
const LARGE_JOBS = 1_500_000;
/** Makes the large file half a gigabyte. */
const PADDING = "x".repeat(320);

function write(count: number, line: (index: number) => string): string {
  const path = join(newFolder(), "lines");
  const file = openSync(path, "w");
  for (let at = 0; at < count; at += 10_000) {
    let text = "";
    for (let i = at; i < Math.min(at + 10_000, count); i++) text += `${line(i)}\n`;
    writeSync(file, text);
  }
  closeSync(file);
  return path;
}

/** Enqueues into a store of its own; answers how long that took and the most memory it had. */
async function enqueue(args: readonly string[], jobs: number): Promise<{ took_ms: number; peak_mb: number }> {
  const store = newStorePath();
  await quiet();
  const started_ms = performance.now();
  const child = Bun.spawn([leaseBinary(), "enqueue", "--store", store, ...args], {
    cwd: workspace,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  });
  const printed = await new Response(child.stdout).text();
  await child.exited;
  const took_ms = performance.now() - started_ms;
  if (!printed.endsWith(`\n${jobs}\n`)) throw new Error(`${args.join(" ")}: not every job has got its id`);
  rmSync(dirname(store), { recursive: true });
  return { took_ms, peak_mb: (child.resourceUsage()?.maxRSS ?? Number.NaN) / 1e6 };
}

async function rate(args: readonly string[]): Promise<number> {
  const rates: number[] = [];
  for (let turn = 0; turn < TURNS; turn++) rates.push(JOBS / ((await enqueue(args, JOBS)).took_ms / 1_000));
  return median(rates);
}

const json = write(JOBS, (index) => JSON.stringify({ argv: ["echo", String(index)] }));
plainFigure("bulk-json", await rate(["--from", json]), "jobs/s", { at_least: 150_000 });
rmSync(json);

const text = write(JOBS, String);
plainFigure("bulk-lines", await rate(["--from", text, "--lines", "--", "echo", "{}"]), "jobs/s", { at_least: 150_000 });
rmSync(text);

const large = write(LARGE_JOBS, (index) => JSON.stringify({ argv: ["echo", `${PADDING}${index}`] }));
plainFigure("bulk-memory-500MB", (await enqueue(["--from", large], LARGE_JOBS)).peak_mb, "MB", { at_most: 200 });
