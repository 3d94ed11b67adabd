/**
 * What others feel while very many jobs are cancelled, retried, deleted or added by one command: how long a beat waits for
 * the lock, and for how many jobs per second that is.
 */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { leaseBinary, newFolder, newStorePath, plainFigure, quantile, quiet, timed, withBeats } from "./harness.ts";

const JOBS = Number(process.env["LEASE_BENCH_JOBS"] ?? 300_000);

const path = newStorePath();
const lines = join(newFolder(), "jobs.jsonl");
writeFileSync(lines, `{"argv":["/bin/true"],"queue":"many"}\n`.repeat(JOBS));

async function measure(name: string, args: readonly string[], limit: { at_most?: number }): Promise<void> {
  await quiet();
  const waits_ms: number[] = [];
  const took_ms = await withBeats(path, waits_ms, () => timed([leaseBinary(), ...args, "--store", path]));
  plainFigure(`${name} ${JOBS}`, (JOBS * 1_000) / took_ms, "jobs/s", name === "bulk" ? {} : { at_least: 150_000 });
  plainFigure(`${name}: beats wait, p99`, quantile(waits_ms, 0.99), "ms", limit);
}

const all = ["--queue", "many"];
const STEP = { at_most: 50 };
// One transaction, so that it is all or none: leases are prolonged for as long as it takes.
await measure("bulk", ["enqueue", "--from", lines], {});
await measure("cancel", ["cancel", ...all], STEP);
await measure("retry", ["retry", "--status", "cancelled", ...all], STEP);
await timed([leaseBinary(), "cancel", ...all, "--store", path]);
await measure("prune", ["prune", ...all], STEP);
process.exit(process.exitCode ?? 0);
