/**
 * What a script waits for when it calls `lease enqueue -- true`, with a delay, with a parent, and what a job waits for at
 * `lease beat` and `lease checkpoint`: each beside a compiled Bun program that does nothing, in one run of hyperfine.
 */

import { join } from "node:path";
import process from "node:process";
import type { Turn } from "./harness.ts";
import {
  emptyBinary,
  filledStore,
  has,
  job,
  leaseBinary,
  newFolder,
  openStore,
  quiet,
  ratioFigure,
  skipped,
} from "./harness.ts";

// One run of each by turns: a script calls other programs in between, too, and what else goes on passes over all alike.
const TURNS = 150;
const QUIET_EVERY = 10;

async function hyperfine(env: Record<string, string>, ...commands: string[]): Promise<number[]> {
  const report = join(newFolder(), "report.json");
  const child = Bun.spawn(["hyperfine", "-N", "--runs", "1", "--export-json", report, ...commands], {
    env: { ...process.env, ...env },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "ignore",
  });
  if ((await child.exited) !== 0) throw new Error(`hyperfine failed on ${commands.join(", ")}`);
  const { results } = (await Bun.file(report).json()) as { results: { median: number }[] };
  return results.map(({ median }) => median * 1_000);
}

/** What a job that is running for as long as this takes is told. */
async function heldJob(path: string): Promise<Record<string, string>> {
  const store = await openStore(path);
  const holder = { holder: "bench", host: "bench", lease_ms: 3_600_000 };
  const [grant] = await store.acquire({ ...holder, queues: null, task: null, count: 1 });
  const store_id = await store.storeId();
  await store.close({ exiting: true });
  if (grant === undefined) throw new Error("there is no job to hold");
  const { id, token } = grant.job;
  return { LEASE_STORE: path, LEASE_STORE_ID: store_id, LEASE_JOB_ID: String(id), LEASE_TOKEN: String(token) };
}

const LINES = {
  "cold-enqueue": ["enqueue -- true", 2.5],
  "cold-enqueue-delay": ["enqueue --delay 1h -- true", 2.5],
  "cold-enqueue-after": ["enqueue --after 1 -- true", 2.5],
  "cold-beat": ["beat --progress 40", 2.5],
  "cold-checkpoint": ["checkpoint page", 2.5],
} as const;

if (has("hyperfine")) {
  const env = await heldJob(await filledStore([job(["true"])]));
  const [lease, empty] = [leaseBinary(), emptyBinary()];
  const lines = Object.entries(LINES);
  const turns = lines.map((): Turn[] => []);
  for (let turn = 0; turn < TURNS; turn++) {
    if (turn % QUIET_EVERY === 0) await quiet();
    const [other = 0, ...ours] = await hyperfine(env, empty, ...lines.map(([, [words]]) => `${lease} ${words}`));
    ours.forEach((time, index) => turns[index]?.push({ ours: time, other }));
  }
  lines.forEach(([name, [, at_most]], index) => ratioFigure(name, "ms", turns[index] ?? [], { at_most }));
} else skipped("cold-enqueue", "there is no hyperfine");
