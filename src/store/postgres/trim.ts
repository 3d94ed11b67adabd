/** Keeping the newest checkpoints only. The newest progress of an unfinished job stays: its next attempt starts from it. */

import { LAST_TRIM } from "../shared/schemas.ts";
import { trimFrom } from "../shared/verdicts.ts";
import { lockMeta } from "./schema.ts";
import type { Connection } from "./session/link.ts";
import { SQL } from "./statements.ts";

/** Not the progress that the next attempt of an unfinished job starts from. */
const SPARE = `NOT (kind = 'progress'
  AND EXISTS (SELECT 1 FROM lease.jobs WHERE jobs.id = checkpoints.job_id AND finished_at_ms IS NULL)
  AND id = (SELECT max(id) FROM lease.checkpoints AS c WHERE c.job_id = checkpoints.job_id AND c.kind = 'progress'))`;
const NEWEST = "SELECT max(id) AS id FROM lease.checkpoints";
const trim = (group: string, of_group: string) => `DELETE FROM lease.checkpoints WHERE id IN (
    SELECT old.id FROM (SELECT DISTINCT ${group} AS name FROM lease.checkpoints WHERE id > $1 AND ${of_group}) AS touched
    CROSS JOIN LATERAL (SELECT id FROM lease.checkpoints WHERE ${group} = touched.name ORDER BY id DESC OFFSET $2) AS old
  ) AND ${SPARE} RETURNING id`;
const TRIM_TASKS = trim("task", "task IS NOT NULL");
const TRIM_JOBS = trim("job_id", "task IS NULL");

export async function trimCheckpoints(db: Connection, keep: number): Promise<number> {
  const [row] = await db.query(NEWEST);
  const newest = (row?.["id"] ?? null) as number | null;
  const from_id = trimFrom(newest === null ? null : await lockMeta(db, "trim", LAST_TRIM), keep, newest);
  if (from_id === null) return 0;
  const tasks = await db.query(TRIM_TASKS, [from_id, keep]);
  const jobs = await db.query(TRIM_JOBS, [from_id, keep]);
  await db.query(SQL.setMeta, ["trim", JSON.stringify({ id: newest, keep })]);
  return tasks.length + jobs.length;
}
