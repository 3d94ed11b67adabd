/**
 * Jobs that print far more than anyone will read: a gigabyte without a line end, and five million short lines. How much
 * memory the worker needs above its idle level, and how fast the producer gets rid of its output, beside `cat`.
 *
 * The producer times itself, so that neither side's start counts.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  job,
  memoryOf,
  newFolder,
  newStorePath,
  openStore,
  plainFigure,
  ratioFigure,
  startLease,
  takeTurns,
  timedShell,
  until,
} from "./harness.ts";

const TURNS = 5;

const FLOODS = [
  { name: "flood, one line", bytes: 1e9, unit: "MB/s", per: 1e6, produce: "head -c 1000000000 /dev/zero | tr '\\0' x" },
  { name: "flood, lines", bytes: 5e6, unit: "klines/s", per: 1e3, produce: "yes 'a short line' | head -n 5000000" },
];

function nanoseconds(file: string): number {
  return Number(readFileSync(file, "latin1"));
}

for (const { name, bytes, unit, per, produce } of FLOODS) {
  const folder = newFolder();
  const [began, ended] = [join(folder, "began"), join(folder, "ended")];
  const producer = `date +%s%N > ${began}; ${produce}; date +%s%N > ${ended}`;
  const speed = () => bytes / per / ((nanoseconds(ended) - nanoseconds(began)) / 1e9);

  const path = newStorePath();
  const store = await openStore(path);
  const worker = startLease(["worker"], path);
  await until(async () => ((await store.workers()).length > 0 ? true : null));
  await Bun.sleep(1_000);
  const idle_kb = memoryOf(worker.pid, "VmRSS");
  // Resets the high-water mark, which the start may have raised.
  writeFileSync(`/proc/${worker.pid}/clear_refs`, "5");

  const throughWorker = async () => {
    const [queued] = await store.enqueue([job(["sh", "-c", producer])]);
    await until(async () => {
      const [found] = await store.jobs([queued?.id ?? 0]);
      if (found?.state.name === "failed") throw new Error(`the flood failed: ${found.result.error}`);
      return found?.state.name === "completed" ? true : null;
    }, 300_000);
    return speed();
  };
  const throughCat = async () => {
    await timedShell(`{ ${producer}; } | cat > /dev/null`);
    return speed();
  };
  const turns = await takeTurns(TURNS, throughWorker, throughCat);
  plainFigure(`${name}: memory`, (memoryOf(worker.pid, "VmHWM") - idle_kb) / 1024, "MB", { at_most: 150 });
  ratioFigure(`${name}: speed`, unit, turns, { at_least: 0.3 });
  worker.kill();
  await worker.exited;
  await store.close();
}
