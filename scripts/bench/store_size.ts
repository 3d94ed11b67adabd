/**
 * What one acquire and one settle cost on a store with a million pending and a million finished jobs, beside one with a
 * thousand of each. A second figure is taken in memory, where no sync hides what the trees themselves cost.
 */

import { Database } from "bun:sqlite";
import { rmSync, statfsSync } from "node:fs";
import { dirname } from "node:path";
import type { Grant, Store } from "../../src/store/store.ts";
import { isRefusal, transition } from "../../src/core/transition.ts";
import type { Turn } from "./harness.ts";
import { job, newStorePath, openStore, ratioFigure, skipped, SUCCESS, times, workspace } from "./harness.ts";

const PAIRS_PER_TURN = 50;
const TURNS = 40;
const [SMALL, LARGE] = [1_000, 1_000_000];

async function fill(path: string, count: number): Promise<Store> {
  await (await openStore(path)).close();
  const database = new Database(path);
  database.run("PRAGMA synchronous = OFF");
  const numbers = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})`;
  const now_ms = Date.now();
  database.run("BEGIN");
  database.run(`${numbers} INSERT INTO jobs (state, queue, priority, run_at_ms, token, retries, created_at_ms,
      started_at_ms, finished_at_ms, last_beat_at_ms, argv, cwd, cause, exit_code)
    SELECT 'completed', 'default', 0, ${now_ms} - i, 1, 3, ${now_ms} - i, ${now_ms}, ${now_ms}, ${now_ms},
      '["/bin/true"]', '/tmp', 'success', 0 FROM n`);
  database.run(`INSERT INTO attempts (job_id, attempt, worker, host, boot_id, pid, pid_started, lease_ms, started_at_ms,
      ended_at_ms, cause, exit_code)
    SELECT id, 1, 'bench.1.abcdef', 'bench', '00000000-0000-0000-0000-000000000000', 1, 1, 300000, ${now_ms}, ${now_ms},
      'success', 0 FROM jobs`);
  database.run(`${numbers} INSERT INTO jobs (state, queue, priority, run_at_ms, retries, created_at_ms, argv, cwd)
    SELECT 'pending', 'default', 0, ${now_ms} - i, 3, ${now_ms} - i, '["/bin/true"]', '/tmp' FROM n`);
  database.run("COMMIT");
  database.run("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
  return openStore(path);
}

const request = {
  holder: "bench",
  host: "bench",
  count: 1,
  queues: ["default"],
  task: null,
  lease_ms: 300_000,
};

function success({ job: granted }: Grant) {
  const event = { type: "settle", token: granted.token, end: SUCCESS } as const;
  const change = transition(granted, event, { now_ms: Date.now(), random: Math.random });
  if (isRefusal(change)) throw new Error(change.refused);
  return { id: granted.id, token: granted.token, change, process: null, audit: null };
}

/** Milliseconds per pair; what was taken out is put back after the clock has stopped. */
async function pairs(store: Store): Promise<number> {
  const started_ms = performance.now();
  for (let i = 0; i < PAIRS_PER_TURN; i++) {
    const [grant] = await store.acquire(request);
    if (grant === undefined) throw new Error("the store ran dry");
    await store.settle([success(grant)]);
  }
  const taken_ms = performance.now() - started_ms;
  await store.enqueue(times(PAIRS_PER_TURN, () => job(["/bin/true"])));
  return taken_ms / PAIRS_PER_TURN;
}

async function compare(parent: string): Promise<Turn[]> {
  const paths = [newStorePath(parent), newStorePath(parent)] as const;
  try {
    const large = await fill(paths[0], LARGE);
    const small = await fill(paths[1], SMALL);
    await pairs(large);
    await pairs(small);
    const turns: Turn[] = [];
    for (let i = 0; i < TURNS; i++) turns.push({ ours: await pairs(large), other: await pairs(small) });
    await Promise.all([large.close(), small.close()]);
    return turns;
  } finally {
    for (const path of paths) rmSync(dirname(path), { recursive: true, force: true });
  }
}

ratioFigure("store-size", "ms", await compare(workspace), { at_most: 1.5 });

const MEMORY = "/dev/shm";
const NEEDED_BYTES = 2e9;
let free_bytes = 0;
try {
  const { bavail, bsize } = statfsSync(MEMORY);
  free_bytes = bavail * bsize;
} catch {
  // Not on this system.
}
if (free_bytes > NEEDED_BYTES) ratioFigure("store-size, without syncs", "ms", await compare(MEMORY), {});
else skipped("store-size, without syncs", `there is no ${MEMORY} with 2 GB`);
