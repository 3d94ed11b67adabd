/**
 * How much longer `lease inspect` and `lease inspect jobs` take on a store with a million jobs than on one with a
 * hundred, as a person feels it: the whole command.
 */

import { Database } from "bun:sqlite";
import { leaseBinary, median, newStorePath, openStore, plainFigure, takeTurns, timed } from "./harness.ts";

const TURNS = 11;
const [SMALL, LARGE] = [100, 1_000_000];

/** Of each hundred jobs 70 completed, 5 failed, 22 pending, 3 due later, in four queues; a worker with two of them. */
async function fill(count: number): Promise<string> {
  const path = newStorePath();
  await (await openStore(path)).close();
  const database = new Database(path);
  database.run("PRAGMA synchronous = OFF");
  const now_ms = Date.now();
  database.run("BEGIN");
  database.run(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
    INSERT INTO jobs (state, queue, priority, run_at_ms, retries, created_at_ms, argv, cwd)
    SELECT iif(i % 100 > 96, 'scheduled', 'pending'), 'queue-' || (i % 4), i % 3, ${now_ms} + iif(i % 100 > 96, 3600000, 0),
      3, ${now_ms}, '["/bin/true"]', '/tmp' FROM n`);
  database.run(`UPDATE jobs SET state = iif(id % 100 < 70, 'completed', 'failed'), token = 1 + id % 2,
    started_at_ms = ${now_ms}, finished_at_ms = ${now_ms} + id, cause = 'exit', exit_code = 1, error = 'exit code 1'
    WHERE id % 100 < 75`);
  database.run(`UPDATE jobs SET state = 'running', token = 1, holder = 'bench.1.abcdef', expires_at_ms = ${now_ms} + 300000,
    started_at_ms = ${now_ms}, last_beat_at_ms = ${now_ms} WHERE id IN (75, 76)`);
  database.run(`INSERT INTO attempts (job_id, attempt, worker, host, lease_ms, started_at_ms)
    SELECT id, 1, holder, 'bench', 300000, ${now_ms} FROM jobs WHERE state = 'running'`);
  database.run(`INSERT INTO workers (id, host, boot_id, pid, pid_started, version, slots, started_at_ms, seen_at_ms)
    VALUES ('bench.1.abcdef', 'bench', 'boot', 1, 1, '0', 2, ${now_ms}, ${now_ms} + 3600000)`);
  database.run("COMMIT");
  database.run("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
  return path;
}

const [large, small] = [await fill(LARGE), await fill(SMALL)];
const lease = leaseBinary();

for (const [name, words] of [
  ["overview", []],
  ["jobs", ["jobs", "--limit", "50"]],
] as const) {
  const on = (store: string) => timed([lease, "inspect", ...words, "--store", store]);
  await on(large);
  const turns = await takeTurns(
    TURNS,
    () => on(large),
    () => on(small),
  );
  const more_ms = median(turns.map(({ ours, other }) => ours - other));
  plainFigure(`inspect-size, ${name}`, more_ms, "ms more", { at_most: 100 });
}
