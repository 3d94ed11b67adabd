/**
 * How many workers one PostgreSQL carries: a model (scripts/capacity/model.ts) fed with what jobs cost here.
 *
 *   bun scripts/capacity.ts             the table, from the costs in scripts/capacity/costs.json
 *   bun scripts/capacity.ts --measure   measures the costs on this machine first, and keeps them
 *   bun scripts/capacity.ts --check     what it predicts for 4, 16 and 64 workers on this machine, and what they do
 */

import { readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { Ground } from "./capacity/measure.ts";
import { predict, type Costs } from "./capacity/model.ts";

const FILE = join(import.meta.dir, "capacity/costs.json");
const [measures, checks] = ["--measure", "--check"].map((flag) => process.argv.includes(flag));
const LAN = { round_trip_ms: 0.3, interval_ms: 30_000 };

let costs = JSON.parse(readFileSync(FILE, "utf8")) as Costs;
const ground = measures || checks ? await Ground.open() : null;
if (ground !== null && measures) {
  costs = await ground.costs();
  writeFileSync(FILE, `${JSON.stringify(costs, null, 2)}\n`);
}
const told = Object.entries(costs).map(([name, value]) => `${name} ${value.toFixed(2)}`);
console.log(`a job costs: ${told.join(", ")}`);
if (ground !== null && checks) await check(ground);
await ground?.end();
if (!checks) table();
process.exit();

async function check(on: Ground): Promise<void> {
  console.log("workers  slots  job_ms  predicted/s  seen/s  ratio");
  for (const workers of [4, 16, 64]) {
    const fleet = { workers, slots: 4, job_ms: 100, seconds: 8 };
    const load = { ...fleet, processors: cpus().length, round_trip_ms: 0, interval_ms: 30_000, one_machine: true };
    const { jobs_per_s } = predict(costs, load);
    const seen = await on.run(fleet);
    const row = [
      workers,
      4,
      100,
      jobs_per_s.toFixed(0),
      seen.jobs_per_s.toFixed(0),
      (seen.jobs_per_s / jobs_per_s).toFixed(2),
    ];
    console.log(row.map((cell, n) => String(cell).padStart([7, 6, 7, 12, 7, 6][n] ?? 0)).join(" "));
  }
}

function table(): void {
  console.log("\nfour slots each; a server of 8 processors of this kind, 0.3 ms away; a lease of 5 minutes\n");
  console.log("workers  job     1 server: jobs/s  busy   waits_ms   4 servers by queue: jobs/s  busy");
  for (const job_ms of [100, 1_000, 60_000]) {
    for (const workers of [10, 100, 1_000, 10_000]) {
      const load = { workers, slots: 4, job_ms, processors: 8, ...LAN };
      const [one, four] = [predict(costs, load), predict(costs, { ...load, workers: Math.ceil(workers / 4) })];
      const cells = [
        String(workers).padStart(7),
        `${job_ms / 1_000} s`.padEnd(6),
        one.jobs_per_s.toFixed(0).padStart(16),
        `${(100 * one.utilisation).toFixed(0)} %`.padStart(6),
        one.waits_ms.toFixed(1).padStart(10),
        (4 * four.jobs_per_s).toFixed(0).padStart(27),
        `${(100 * four.utilisation).toFixed(0)} %`.padStart(6),
      ];
      console.log(cells.join("  "));
    }
  }
  const { limit_per_s, saturated_by_slots } = predict(costs, {
    workers: 1,
    slots: 1,
    job_ms: 1_000,
    processors: 8,
    ...LAN,
  });
  console.log(
    `\nno more than ${limit_per_s.toFixed(0)} jobs/s from one server; with jobs of 1 s from ${saturated_by_slots} slots on`,
  );
}
