/**
 * Recovering 100,000 expired leases with `lease watchdog --once`, beside the plain UPDATE of the same rows: each job, its
 * attempt, and its error checkpoint. Meanwhile another process extends a lease of its own and tells how long that took.
 * And a watchdog that finds nothing to do among a million finished jobs, beside a program that does nothing.
 */

import { Database } from "bun:sqlite";
import { copyFileSync, rmSync } from "node:fs";
import { emptyBinary, leaseBinary, newStorePath, openStore, plainFigure, quantile, withBeats } from "./harness.ts";
import { quiet, ratioFigure, takeTurns, timed } from "./harness.ts";
import type { Turn } from "./harness.ts";

const EXPIRED = 100_000;
const FINISHED = 1_000_000;
const TURNS = 3;

const numbers = (count: number) => `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})`;

async function filled(sql: (now_ms: number) => string[]): Promise<string> {
  const path = newStorePath();
  await (await openStore(path)).close();
  const database = new Database(path);
  database.run("PRAGMA synchronous = OFF");
  database.run("BEGIN");
  for (const statement of sql(Date.now())) database.run(statement);
  database.run("COMMIT");
  database.run("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
  return path;
}

const expired = await filled((now_ms) => [
  `${numbers(EXPIRED)} INSERT INTO jobs (state, queue, priority, run_at_ms, token, retries, created_at_ms, started_at_ms,
      last_beat_at_ms, expires_at_ms, holder, argv, cwd)
    SELECT 'running', 'default', 0, ${now_ms} - 900000, 1, 3, ${now_ms} - 900000, ${now_ms} - 900000, ${now_ms} - 900000,
      ${now_ms} - 600000 + i, 'elsewhere.1.abcdef', '["/bin/true"]', '/tmp' FROM n`,
  `INSERT INTO attempts (job_id, attempt, worker, host, boot_id, pid, pid_started, lease_ms, started_at_ms)
    SELECT id, 1, 'elsewhere.1.abcdef', 'elsewhere', '00000000-0000-0000-0000-000000000000', 1, 1, 300000,
      ${now_ms} - 900000 FROM jobs`,
]);

function copyOf(path: string): string {
  const copy = newStorePath();
  copyFileSync(path, copy);
  return copy;
}

async function sweep(waits_ms: number[]): Promise<number> {
  const path = copyOf(expired);
  const took_ms = await withBeats(path, waits_ms, () =>
    timed([leaseBinary(), "watchdog", "--once", "--store", path, "--grace", "0"]),
  );
  const left = new Database(path).query("SELECT count(*) AS n FROM jobs WHERE state = 'running'").get() as {
    n: number;
  };
  if (left.n > 1) throw new Error(`${left.n - 1} jobs were not recovered`);
  rmSync(path);
  return took_ms;
}

async function update(): Promise<number> {
  const path = copyOf(expired);
  const database = new Database(path);
  database.run("PRAGMA synchronous = FULL");
  const started_ms = performance.now();
  database.run("BEGIN IMMEDIATE");
  database.run(`INSERT INTO checkpoints (job_id, task, kind, token, at_ms, text) SELECT id, task, 'error', token, 1,
    json_object('cause', 'expired', 'attempt', token, 'holder', holder, 'expires_at_ms', expires_at_ms)
    FROM jobs WHERE state = 'running'`);
  database.run(`UPDATE attempts SET ended_at_ms = 1, cause = 'expired', error = 'the lease ran out'
    WHERE ended_at_ms IS NULL`);
  database.run(`UPDATE jobs SET state = 'pending', failures = failures + 1, cause = 'expired',
    error = 'the lease ran out', holder = NULL, expires_at_ms = NULL WHERE state = 'running'`);
  database.run("COMMIT");
  const took_ms = performance.now() - started_ms;
  database.close();
  rmSync(path);
  return took_ms;
}

const waits_ms: number[] = [];
const turns: Turn[] = [];
for (let turn = 0; turn < TURNS; turn++) {
  await quiet();
  turns.push({ ours: await sweep(waits_ms), other: await update() });
}
ratioFigure("recover 100,000", "ms", turns, { at_most: 3 });
plainFigure("recover: beats wait, longest", quantile(waits_ms, 1), "ms", { at_most: 250 });

const finished = await filled((now_ms) => [
  `${numbers(FINISHED)} INSERT INTO jobs (state, queue, priority, run_at_ms, token, retries, created_at_ms,
      started_at_ms, finished_at_ms, last_beat_at_ms, argv, cwd, cause, exit_code)
    SELECT 'completed', 'default', 0, ${now_ms} - i, 1, 3, ${now_ms} - i, ${now_ms}, ${now_ms}, ${now_ms},
      '["/bin/true"]', '/tmp', 'success', 0 FROM n`,
]);
const empty = emptyBinary();
const nothing = await takeTurns(
  40,
  () => timed([leaseBinary(), "watchdog", "--once", "--store", finished]),
  () => timed([empty]),
);
ratioFigure("watchdog --once, nothing to do", "ms", nothing, { at_most: 3 });
