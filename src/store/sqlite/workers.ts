/**
 * The register of workers: who serves what, since when, and how it ended. A worker writes its own row while it lives; a
 * sweep ends that of one that is proven dead.
 */

import type { WorkerRecord } from "../../core/records.ts";
import { toWorker, workerColumns } from "../shared/rows.ts";
import type { Database } from "./connection.ts";

const SAVE = `INSERT INTO workers (id, name, host, boot_id, pid, pid_started, version, queues, slots, started_at_ms,
    seen_at_ms, stopped_at_ms, ended, draining, completed, failed, task)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
  ON CONFLICT (id) DO UPDATE SET slots = ?9, seen_at_ms = ?11, stopped_at_ms = ?12, ended = ?13, draining = ?14,
    completed = ?15, failed = ?16`;
const LIVE_ON = "SELECT * FROM workers WHERE host = ?1 AND stopped_at_ms IS NULL";
const ALL = "SELECT * FROM workers ORDER BY stopped_at_ms IS NOT NULL, started_at_ms, id";

export function saveWorker(db: Database, worker: WorkerRecord): void {
  db.sql(SAVE).run(...workerColumns(worker));
}

export function workers(db: Database, query?: { live_on: string }): WorkerRecord[] {
  const rows = query === undefined ? db.sql(ALL).all() : db.sql(LIVE_ON).all(query.live_on);
  return rows.map(toWorker);
}
