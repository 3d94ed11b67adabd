/** Many workers with nothing to do on one store: what each takes of a processor, and how many writes a commit wakes them to. */

import process from "node:process";
import { cpuOf, job, newStorePath, openStore, plainFigure, startLease, times, until } from "./harness.ts";

const WORKERS = Number(process.env["LEASE_BENCH_WORKERS"] ?? 50);
const IDLE_MS = 20_000;
const JOBS = 20;

const path = newStorePath();
const store = await openStore(path);
const workers = times(WORKERS, () => startLease(["worker"], path));
await until(async () => ((await store.workers()).length === WORKERS ? true : null), 120_000);
await Bun.sleep(5_000);
const taken = () => workers.reduce((sum, { pid }) => sum + cpuOf(pid), 0);
const before_ms = taken();
await Bun.sleep(IDLE_MS);
plainFigure(`${WORKERS} idle workers: each`, (100 * (taken() - before_ms)) / IDLE_MS / WORKERS, "%", { at_most: 0.2 });

const waits_ms: number[] = [];
for (const _ of times(JOBS, () => null)) {
  await Bun.sleep(200);
  const [queued] = await store.enqueue([job(["/bin/true"])]);
  const started_ms = performance.now();
  await until(async () => ((await store.jobs([queued?.id ?? 0]))[0]?.state.name === "completed" ? true : null));
  waits_ms.push(performance.now() - started_ms);
}
plainFigure(`${WORKERS} workers, one job: longest`, Math.max(...waits_ms), "ms", {});
for (const worker of workers) worker.kill("SIGQUIT");
await Promise.all(workers.map((worker) => worker.exited));
await store.close();
process.exit(process.exitCode ?? 0);
