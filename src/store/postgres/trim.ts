/** Keeping the newest checkpoints only. */

import { LAST_TRIM } from "../shared/schemas.ts";
import type { Connection } from "./session/link.ts";
import { SET_META, lockMeta } from "./session/meta.ts";
import type { Statements } from "./session/sql.ts";

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

/**
 * Looks only at tasks and jobs that got a checkpoint since the last trim, unless fewer are to be kept than then. The
 * newest progress of an unfinished job always stays: its next attempt starts from it.
 */
export async function trimCheckpoints(statements: Statements, connection: Connection, keep: number): Promise<number> {
  const [row] = await statements.sql(connection, NEWEST);
  const newest = (row?.["id"] ?? null) as number | null;
  if (newest === null) return 0;
  const last = (await lockMeta(statements, connection, "trim", LAST_TRIM)) ?? {};
  const from_id = keep < (last.keep ?? 0) ? 0 : (last.id ?? 0);
  if (newest === from_id && last.keep === keep) return 0;
  const tasks = await statements.sql(connection, TRIM_TASKS, [from_id, keep]);
  const jobs = await statements.sql(connection, TRIM_JOBS, [from_id, keep]);
  await statements.sql(connection, SET_META, ["trim", JSON.stringify({ id: newest, keep })]);
  return tasks.length + jobs.length;
}
