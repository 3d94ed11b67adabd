/**
 * How fast `/bin/true` goes through a worker, with every job durable and logged, beside tools that keep less or
 * nothing. Rates are jobs per second of wall time, starts included; what is compared takes turns.
 */

import { join } from "node:path";
import {
  filledStore,
  has,
  hasGnuParallel,
  job,
  leaseBinary,
  newFolder,
  quiet,
  ratioFigure,
  skipped,
  timed,
  timedShell,
  times,
} from "./harness.ts";
import type { Turn } from "./harness.ts";

const TURNS = 5;
const JOBS = 5_000;
/** Slower ones get fewer, or this would take an hour. */
const PARALLEL_JOBS = 1_000;
const SPOOLER_JOBS = 500;

const all = times(JOBS, () => job(["/bin/true"]));
const rate = (jobs: number, taken_ms: number) => (jobs * 1_000) / taken_ms;

async function worker(slots: number): Promise<{ run: number; with_enqueue: number }> {
  const started_ms = performance.now();
  const store = await filledStore(all);
  const enqueue_ms = performance.now() - started_ms;
  const run_ms = await timed([leaseBinary(), "worker", "-j", String(slots), "--until-empty", "--store", store]);
  return { run: rate(JOBS, run_ms), with_enqueue: rate(JOBS, run_ms + enqueue_ms) };
}

async function xargs(slots: number): Promise<number> {
  return rate(JOBS, await timedShell(`seq ${JOBS} | xargs -P${slots} -n1 /bin/true`));
}

async function parallel(): Promise<number> {
  const line = `seq ${PARALLEL_JOBS} | parallel -j2 --joblog joblog /bin/true`;
  return rate(PARALLEL_JOBS, await timedShell(line, { cwd: newFolder() }));
}

/** One call per job puts it in the queue, the last call waits for the end. */
async function spooler(): Promise<number> {
  const folder = newFolder();
  const env = { TS_SOCKET: join(folder, "socket"), TMPDIR: folder, TS_SLOTS: "2", TS_MAXFINISHED: "10" };
  const line = `i=0; while [ $i -lt ${SPOOLER_JOBS} ]; do tsp -n /bin/true; i=$((i+1)); done; tsp -w`;
  const taken_ms = await timedShell(line, { env, cwd: folder });
  await timed(["tsp", "-K"], { env, cwd: folder });
  return rate(SPOOLER_JOBS, taken_ms);
}

async function nq(): Promise<number> {
  const folder = newFolder();
  const line = `i=0; while [ $i -lt ${SPOOLER_JOBS} ]; do nq -q /bin/true; i=$((i+1)); done; nq -w`;
  return rate(SPOOLER_JOBS, await timedShell(line, { env: { NQDIR: folder }, cwd: folder }));
}

const turns: Record<"xargs2" | "xargs4" | "parallel" | "tsp" | "nq", Turn[]> = {
  xargs2: [],
  xargs4: [],
  parallel: [],
  tsp: [],
  nq: [],
};
for (let turn = 0; turn < TURNS; turn++) {
  await quiet();
  const before = await xargs(2);
  const two = await worker(2);
  // Both neighbours in time count, so that a machine that gets slower or faster does not favour one side.
  turns.xargs2.push({ ours: two.run, other: (before + (await xargs(2))) / 2 });
  if (hasGnuParallel()) turns.parallel.push({ ours: two.run, other: await parallel() });
  if (has("tsp")) turns.tsp.push({ ours: two.with_enqueue, other: await spooler() });
  if (has("nq")) turns.nq.push({ ours: two.with_enqueue, other: await nq() });
  await quiet();
  const before4 = await xargs(4);
  const four = await worker(4);
  turns.xargs4.push({ ours: four.run, other: (before4 + (await xargs(4))) / 2 });
}

function figure(name: string, tool: keyof typeof turns, at_least: number): void {
  if (turns[tool].length === 0) skipped(name, `there is no ${tool}`);
  else ratioFigure(name, "jobs/s", turns[tool], { at_least });
}

figure("shell -j2 / xargs -P2", "xargs2", 0.7);
figure("shell -j4 / xargs -P4", "xargs4", 0.8);
figure("shell -j2 / parallel -j2", "parallel", 4);
figure("shell -j2 / tsp, with enqueue", "tsp", 1);
figure("shell -j2 / nq, with enqueue", "nq", 1);
