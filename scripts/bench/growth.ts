/**
 * What becomes slower when a store grows from a thousand jobs to ten million (or LEASE_BENCH_JOBS), half of them ended:
 * everything that people and workers do, by the program itself, in turns on both stores. And what a job takes on the disk.
 */

import { rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { fillStore } from "./large_store.ts";
import { leaseBinary, newFolder, newStorePath, plainFigure, ratioFigure, takeTurns, timed } from "./harness.ts";

const SMALL = 1_000;
const LARGE = Number(process.env["LEASE_BENCH_JOBS"] ?? 10_000_000);
const TURNS = 5;
const LIMIT = { at_most: 1.3 };

const lines = join(newFolder(), "jobs.jsonl");
/** What is done to many at once, beside all that is there. */
const MANY = 50_000;
writeFileSync(lines, `{"argv":["/bin/true"],"queue":"many"}\n`.repeat(MANY));
const shell_jobs = join(newFolder(), "jobs.jsonl");
writeFileSync(shell_jobs, `{"argv":["/bin/true"],"queue":"shell"}\n`.repeat(1_000));

const lease = (path: string, ...args: string[]) => timed([leaseBinary(), ...args, "--store", path]);

/** One measure leads to the next: they are put back to where they began. */
const STEPS: readonly [name: string, count: number, run: (path: string) => Promise<number>][] = [
  ["cold enqueue", 30, (path) => lease(path, "enqueue", "-q", "one", "--", "true")],
  [
    "shell jobs",
    1,
    async (path) => {
      await lease(path, "enqueue", "--from", shell_jobs);
      return lease(path, "worker", "-q", "shell", "-j2", "--until-empty");
    },
  ],
  ["overview", 5, (path) => lease(path, "inspect")],
  ["list of queues", 5, (path) => lease(path, "inspect", "queues")],
  ["list of jobs", 5, (path) => lease(path, "inspect", "jobs", "--limit", "50")],
  ["metrics", 5, (path) => lease(path, "metrics")],
  ["doctor", 3, (path) => timed([leaseBinary(), "doctor", "--store", path], { may_fail: true })],
  ["watchdog --once", 5, (path) => lease(path, "watchdog", "--once")],
  ["bulk enqueue", 1, (path) => lease(path, "enqueue", "--from", lines)],
  ["cancel", 1, (path) => lease(path, "cancel", "--queue", "many")],
  ["retry", 1, (path) => lease(path, "retry", "--status", "cancelled", "--queue", "many")],
  [
    "prune",
    1,
    async (path) => {
      await lease(path, "cancel", "--queue", "many");
      return lease(path, "prune", "--queue", "many", "--yes");
    },
  ],
];

async function repeated(path: string, count: number, run: (path: string) => Promise<number>): Promise<number> {
  let sum_ms = 0;
  for (let n = 0; n < count; n++) sum_ms += await run(path);
  return sum_ms / count;
}

const [small, large] = [newStorePath(), newStorePath()];
try {
  for (const path of [small, large]) await lease(path, "enqueue", "-q", "one", "--", "true");
  await fillStore(small, SMALL);
  await fillStore(large, LARGE);
  plainFigure(`growth to ${LARGE}, a job on disk`, statSync(large).size / LARGE, "bytes", {});
  const figures = new Map<string, Awaited<ReturnType<typeof takeTurns>>>();
  for (let turn = 0; turn < TURNS; turn++) {
    for (const [name, count, run] of STEPS) {
      const [one] = await takeTurns(
        1,
        () => repeated(large, count, run),
        () => repeated(small, count, run),
      );
      if (one !== undefined) figures.set(name, [...(figures.get(name) ?? []), one]);
    }
  }
  for (const [name, turns] of figures) ratioFigure(`growth, ${name}`, "ms", turns, LIMIT);
} finally {
  for (const path of [small, large]) rmSync(dirname(path), { recursive: true, force: true });
}
