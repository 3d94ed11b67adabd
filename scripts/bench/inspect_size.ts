/**
 * How much longer a look at a store takes when it holds a million jobs instead of a hundred: the overview and a list,
 * through the program, as a person runs them. Half of the jobs wait, half have ended, some of them badly.
 */

import { Database } from "bun:sqlite";
import { rmSync } from "node:fs";
import { dirname } from "node:path";
import type { NewJob } from "../../src/core/job.ts";
import type { Turn } from "./harness.ts";
import {
  job,
  leaseBinary,
  median,
  newStorePath,
  openStore,
  plainFigure,
  ratioFigure,
  skipped,
  takeTurns,
  timed,
  times,
} from "./harness.ts";

const [SMALL, LARGE] = [100, 1_000_000];
const BATCH = 1_000;
const QUEUES = ["default", "mail", "build"];
const TURNS = 15;
const MORE_MS = 100;

const VIEWS: readonly [name: string, args: readonly string[]][] = [
  ["inspect-size, overview", ["inspect"]],
  ["inspect-size, jobs", ["inspect", "jobs", "--limit", "50", "--json"]],
  ["inspect-size, failed", ["inspect", "jobs", "--status", "failed", "--limit", "50", "--json"]],
];

async function* batches(count: number): AsyncGenerator<NewJob[]> {
  for (let from = 0; from < count; from += BATCH) {
    yield times(Math.min(BATCH, count - from), (index) => ({
      ...job(["/bin/echo", `hello ${from + index}`]),
      queue: QUEUES[(from + index) % QUEUES.length] ?? "",
    }));
  }
}

async function fill(path: string, count: number): Promise<void> {
  const store = await openStore(path);
  await store.enqueueAll(batches(count));
  await store.close();
  const database = new Database(path);
  database.run("PRAGMA synchronous = OFF");
  database.run(`UPDATE jobs SET state = iif(id % 100 = 0, 'failed', 'completed'), token = 1 + (id % 14 = 0),
    started_at_ms = created_at_ms, finished_at_ms = created_at_ms + id % 5000,
    cause = iif(id % 100 = 0, 'exit', 'success'), exit_code = id % 100 = 0 WHERE id % 2 = 0`);
  database.run("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
}

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
  await fill(small, SMALL);
  await fill(large, LARGE);
  for (const [name, args] of VIEWS) {
    const why = await refusal(args, small);
    const look = (path: string) => () => timed([leaseBinary(), ...args, "--store", path]);
    if (why === null) figures(name, await takeTurns(TURNS, look(large), look(small)));
    else skipped(name, why);
  }
} finally {
  for (const path of [small, large]) rmSync(dirname(path), { recursive: true, force: true });
}
