/**
 * How fast handlers that do nothing go through a worker of the library on PostgreSQL, beside graphile-worker with its
 * local queue and its batching on: both in this process, on one server whose data lies on the workspace's disk.
 */

import process from "node:process";
import postgres from "postgres";
import { open } from "../../src/index.ts";
import { ratioFigure, takeTurns, times } from "./harness.ts";
import { graphile, startServer } from "./league/postgres.ts";

const quick = process.argv.includes("--quick");
const JOBS = quick ? 5_000 : 40_000;
/** As many as graphile-worker has. */
const SLOTS = 24;

const server = await startServer();
const sql = postgres(server.url, { max: 1, onnotice: () => {} });
await using queue = await open(`${server.url}?schema=bench`);

async function throughWorker(): Promise<number> {
  await queue.enqueue(times(JOBS, (index) => ({ input: { index } })));
  let done = 0;
  const started_ms = performance.now();
  await queue.worker({ slots: SLOTS, until_empty: true, sweep: false }, () => void (done += 1)).finished;
  const figure = (JOBS * 1_000) / (performance.now() - started_ms);
  if (done !== JOBS) throw new Error(`${done} jobs ran`);
  await sql.unsafe("TRUNCATE bench.jobs, bench.attempts, bench.inputs, bench.checkpoints, bench.logs");
  return figure;
}

const peer = await graphile(server.url, async () => {});
const figures = await takeTurns(quick ? 2 : 5, throughWorker, () => peer.drain(JOBS));
ratioFigure("library-postgres/graphile-worker", "jobs/s", figures, { at_least: 1.2 });
await peer.end();
await queue.close();
await sql.end();
await server.stop();
process.exit(process.exitCode ?? 0);
