/**
 * The PostgreSQL store by itself: how many shell jobs small workers get through on one machine, how soon an idle worker
 * picks up a job, and what beating jobs write. Its contests with other queues are in the league.
 */

import process from "node:process";
import postgres from "postgres";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import { startServer } from "./league/postgres.ts";
import { job, plainFigure, quantile, startLease, times, until } from "./harness.ts";

const quick = process.argv.includes("--quick");
const SAMPLES = quick ? 20 : 200;
const CHILDREN = quick ? 300 : 5_000;
const BEATING_MS = quick ? 5_000 : 600_000;

const server = await startServer();
const sql = postgres(server.url, { max: 2, onnotice: () => {} });

// ── Ours ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const store_url = `${server.url}?schema=bench`;
const open = () => openPostgres(store_url, { clock: systemClock, random: systemRandom });
const store = await open();
async function clear(): Promise<void> {
  await sql.unsafe("TRUNCATE bench.jobs, bench.attempts, bench.inputs, bench.checkpoints, bench.logs");
}

function perSecond(count: number, started_ms: number): number {
  return (count * 1_000) / (performance.now() - started_ms);
}

// ── Figures ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** From right before the enqueue until the store shows that the job was granted. */
async function pickUps(): Promise<number[]> {
  const worker = startLease(["worker"], store_url);
  await until(async () => ((await store.workers()).length > 0 ? true : null));
  await Bun.sleep(500);
  const samples: number[] = [];
  for (const _ of times(SAMPLES, () => null)) {
    await Bun.sleep(10 + Math.random() * 40);
    const asked_ms = await store.now();
    const [queued] = await store.enqueue([job(["true"])]);
    const done = await until(async () => {
      const [seen] = await store.jobs([queued?.id ?? 0]);
      return seen?.state.name === "completed" ? seen : null;
    });
    samples.push((done.started_at_ms ?? 0) - asked_ms);
  }
  worker.kill();
  await worker.exited;
  await clear();
  return samples;
}

/** 16 workers with 8 beating jobs each: row versions written per job and interval, and what is dead at the end. */
async function beats(): Promise<{ writes: number; dead: number }> {
  const [WORKERS, SLOTS, INTERVAL_MS] = [16, 8, 1_000];
  const stores = await Promise.all(times(WORKERS, open));
  await store.enqueue(times(WORKERS * SLOTS, () => job(["true"])));
  const request = { host: "bench", count: SLOTS, queues: null, task: null, lease_ms: 30_000 };
  const held = await Promise.all(stores.map((one, index) => one.acquire({ ...request, holder: `w${index}` })));
  // A session tells its figures when it does something a second later.
  for (const _ of times(2, () => null)) {
    await Bun.sleep(1_200);
    await Promise.all(stores.map((one) => one.now()));
  }
  const before = await written();
  const started_ms = performance.now();
  let intervals = 0;
  for (; performance.now() - started_ms < BEATING_MS; intervals++) {
    await Promise.all(
      stores.flatMap((one, index) =>
        (held[index] ?? []).map(({ job: { id, token } }) =>
          one.extend([{ id, token, expires_in_ms: 30_000, beat_age_ms: 0, beats: intervals }]),
        ),
      ),
    );
    await Bun.sleep(Math.max(0, (intervals + 1) * INTERVAL_MS - (performance.now() - started_ms)));
  }
  await Bun.sleep(1_200);
  await Promise.all(stores.map((one) => one.now()));
  await Bun.sleep(200);
  const after = await written();
  await Promise.all(stores.map((one) => one.close()));
  await clear();
  return { writes: (after.updates - before.updates) / (WORKERS * SLOTS * intervals), dead: after.dead };
}

/** Children that do nothing, by workers of two slots each that run at the same time. */
async function shellRate(workers: number): Promise<number> {
  await store.enqueue(times(CHILDREN, () => job(["true"])));
  const started_ms = performance.now();
  const running = times(workers, () => startLease(["worker", "--until-empty", "-j", "2"], store_url));
  await Promise.all(running.map((worker) => worker.exited));
  const rate = perSecond(CHILDREN, started_ms);
  await clear();
  return rate;
}

async function written(): Promise<{ updates: number; dead: number }> {
  const [row] = await sql<{ updates: string; dead: string }[]>`
    SELECT sum(n_tup_upd) AS updates, sum(n_dead_tup) AS dead FROM pg_stat_user_tables WHERE schemaname = 'bench'`;
  return { updates: Number(row?.updates), dead: Number(row?.dead) };
}

for (const workers of [1, 2, 4, 8]) {
  plainFigure(`postgres shell jobs, workers: ${workers}`, await shellRate(workers), "jobs/s", {});
}
const samples = await pickUps();
plainFigure("postgres pickup p50", quantile(samples, 0.5), "ms", { at_most: 15 });
plainFigure("postgres pickup p99", quantile(samples, 0.99), "ms", {});
const { writes, dead } = await beats();
plainFigure("postgres writes per beat", writes, "rows", { at_most: 1 });
plainFigure("postgres dead rows after beating", dead, "rows", { at_most: 5_000 });
await store.close();
await sql.end();
await server.stop();
process.exit();
