/**
 * The register of workers: who serves what, since when, and how it ended. A worker writes its own row while it lives; a
 * sweep ends that of one that is proven dead.
 */

import type { WorkerRecord } from "../../core/records.ts";
import { toWorker, workerColumns } from "../shared/rows.ts";
import type { Connection } from "./session/session.ts";

const SAVE = `INSERT INTO lease.workers (id, name, host, boot_id, pid, pid_started, version, queues, slots,
    started_at_ms, seen_at_ms, stopped_at_ms, ended, draining, completed, failed, task)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
  ON CONFLICT (id) DO UPDATE SET slots = excluded.slots, seen_at_ms = excluded.seen_at_ms,
    stopped_at_ms = excluded.stopped_at_ms, ended = excluded.ended, draining = excluded.draining,
    completed = excluded.completed, failed = excluded.failed`;
const LIVE_ON = "SELECT * FROM lease.workers WHERE host = $1 AND stopped_at_ms IS NULL";
const ALL = `SELECT * FROM lease.workers ORDER BY stopped_at_ms IS NOT NULL, started_at_ms, id COLLATE "C"`;

export async function saveWorker(db: Connection, worker: WorkerRecord): Promise<void> {
  await db.query(SAVE, workerColumns(worker));
}

export async function workers(db: Connection, query?: { live_on: string }): Promise<WorkerRecord[]> {
  const rows = await (query === undefined ? db.query(ALL) : db.query(LIVE_ON, [query.live_on]));
  return rows.map(toWorker);
}
