/** `/bin/true`, without an argument on any side: the shortest job there is, so that what is around it is what is measured. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { filledStore, has, hasGnuParallel, job, leaseBinary, newFolder, timed, timedShell, times } from "../harness.ts";
import type { Contest, Contestant } from "./contest.ts";
import type { Size } from "./league.ts";

const SYNCED = "synced, each job";
const MEMORY = "memory";
const NOTHING = "nothing";

const rate = (jobs: number, taken_ms: number) => (jobs * 1_000) / taken_ms;

const workerArgs = (slots: number, store: string) => ["worker", "-j", String(slots), "--until-empty", "--store", store];

function ours(jobs: number, slots: number, workers = 1, with_enqueue = false): Contestant {
  return {
    name: "lease",
    durability: SYNCED,
    async run() {
      const enqueued_ms = performance.now();
      const store = await filledStore(times(jobs, () => job(["/bin/true"])));
      const begun_ms = with_enqueue ? enqueued_ms : performance.now();
      await Promise.all(times(workers, () => timed([leaseBinary(), ...workerArgs(slots, store)])));
      return rate(jobs, performance.now() - begun_ms);
    },
  };
}

function xargs(jobs: number, slots: number, at_least: number): Contestant {
  const line = `seq ${jobs} | xargs -P${slots} -I@ /bin/true`;
  const run = async () => rate(jobs, await timedShell(line));
  return { name: `xargs -P${slots}`, durability: NOTHING, at_least, run };
}

/** What the runtime allows at the most: children in sessions of their own with both streams piped, and nothing else. */
const BARE = `const [slots, jobs] = process.argv.slice(2).map(Number);
let left = jobs;
async function slot() {
  while (left-- > 0) {
    const child = Bun.spawn(["/bin/true"], { stdin: "ignore", stdout: "pipe", stderr: "pipe", detached: true });
    await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited]);
  }
}
await Promise.all(Array.from({ length: slots }, slot));
`;

let compiled: string | null = null;

function bareBinary(): string {
  if (compiled !== null) return compiled;
  const folder = newFolder();
  writeFileSync(join(folder, "bare.ts"), BARE);
  const flags = ["--compile", "--minify", "--bytecode", "--format=esm"];
  const argv = [process.execPath, "build", ...flags, join(folder, "bare.ts"), "--outfile", join(folder, "bare")];
  const built = Bun.spawnSync(argv);
  if (!built.success) throw new Error(`could not build the bare loop: ${built.stderr}`);
  return (compiled = join(folder, "bare"));
}

function bare(jobs: number, slots: number): Contestant {
  const run = async () => rate(jobs, await timed([bareBinary(), String(slots), String(jobs)]));
  return { name: "bare Bun.spawn loop", durability: NOTHING, at_least: 0.85, run };
}

function parallel(jobs: number): Contestant {
  const line = `seq ${jobs} | parallel -j2 -n0 --joblog joblog /bin/true`;
  const run = async () => rate(jobs, await timedShell(line, { cwd: newFolder() }));
  return { name: "GNU parallel -j2", durability: "log, not synced", run };
}

/** One call per job puts it in the queue, the last call waits for the end. */
function spooler(jobs: number): Contestant {
  return {
    name: "tsp, 2 slots",
    durability: MEMORY,
    async run() {
      const folder = newFolder();
      const env = { TS_SOCKET: join(folder, "socket"), TMPDIR: folder, TS_SLOTS: "2", TS_MAXFINISHED: "10" };
      const line = `i=0; while [ $i -lt ${jobs} ]; do tsp -n /bin/true; i=$((i+1)); done; tsp -w`;
      const taken_ms = await timedShell(line, { env, cwd: folder });
      await timed(["tsp", "-K"], { env, cwd: folder });
      return rate(jobs, taken_ms);
    },
  };
}

function nq(jobs: number): Contestant {
  return {
    name: "nq, 1 slot",
    durability: "files, not synced",
    async run() {
      const folder = newFolder();
      const line = `i=0; while [ $i -lt ${jobs} ]; do nq -q /bin/true; i=$((i+1)); done; nq -w`;
      return rate(jobs, await timedShell(line, { env: { NQDIR: folder }, cwd: folder }));
    },
  };
}

export function shellContests({ quick }: Size): Contest[] {
  // Enough for a steady rate: for the first seconds of a worker the runtime still compiles it.
  const jobs = quick ? 300 : 16_000;
  const fewer = quick ? 30 : 400;
  const turns = quick ? 1 : 3;
  const two = [xargs(jobs, 2, 1), bare(jobs, 2), ...(hasGnuParallel() ? [parallel(quick ? 30 : 600)] : [])];
  const queues = [...(has("tsp") ? [spooler(fewer)] : []), ...(has("nq") ? [nq(fewer)] : [])];
  const unit = "jobs/s";
  return [
    { name: "shell jobs, 2 slots", unit, turns, ours: ours(jobs, 2), others: two },
    { name: "shell jobs, 4 slots", unit, turns, ours: ours(jobs, 4), others: [xargs(jobs, 4, 1), bare(jobs, 4)] },
    { name: "shell jobs, 4 workers × 4 slots", unit, turns, ours: ours(jobs, 4, 4), others: [xargs(jobs, 16, 1.05)] },
    { name: "shell jobs, enqueue and run", unit, turns, ours: ours(quick ? 300 : 4_000, 2, 1, true), others: queues },
  ].filter(({ others }) => others.length > 0);
}
