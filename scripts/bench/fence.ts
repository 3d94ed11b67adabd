/**
 * What the fence costs: short jobs in control groups beside the same in process groups alone, and what a worker takes
 * that waits for work after a job, with the enforcer that it has had since.
 */

import { readFileSync } from "node:fs";
import {
  filledStore,
  job,
  memoryOf,
  newStorePath,
  openStore,
  plainFigure,
  ratioFigure,
  script,
  skipped,
  startLease,
  takeTurns,
  times,
  until,
} from "./harness.ts";
import { hasCgroups } from "../../src/platform/cgroup.ts";
import type { ProbeInput, ProbeOutput } from "./probed_worker.ts";

const TURNS = 7;
const JOBS = 3_000;
const LEASE_MS = 300_000;

/** Where no control group can be seen. */
const WITHOUT = ["unshare", "--mount", "sh", "-c", 'umount -a -t cgroup2 && exec "$@"', "sh"];

const all = times(JOBS, () => job(["/bin/true"]));

async function rate(before: readonly string[]): Promise<number> {
  const input: ProbeInput = { store: await filledStore(all), slots: 2, lease_ms: LEASE_MS };
  const { completed, seconds } = await script<ProbeOutput>("probed_worker.ts", input, before);
  return completed / seconds;
}

const possible = hasCgroups() && Bun.spawnSync([...WITHOUT, "true"], { stderr: "ignore" }).exitCode === 0;
if (possible) {
  const turns = await takeTurns(
    TURNS,
    () => rate([]),
    () => rate(WITHOUT),
  );
  ratioFigure("fence, cgroup / process group", "jobs/s", turns, { at_least: 0.95 });
} else skipped("fence, cgroup / process group", "there is no cgroup v2 that can be divided, or it can't be hidden");

const store = newStorePath();
await (await openStore(store)).enqueue([job(["sleep", "0.5"])]);
const worker = startLease(["worker"], store);
const opened = await openStore(store);
await until(async () => ((await opened.counts()).some(({ state }) => state === "completed") ? true : null));
await Bun.sleep(1_000);
const pids = [worker.pid, ...descendants(worker.pid)];
plainFigure(
  "idle worker, all its processes",
  pids.reduce((sum, pid) => sum + memoryOf(pid, "VmRSS"), 0) / 1_024,
  "MB",
  {
    at_most: 70,
  },
);
await opened.close();
worker.kill("SIGTERM");
await worker.exited;

function descendants(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
  return children.flatMap((child) => [child, ...descendants(child)]);
}
