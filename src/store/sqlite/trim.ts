/**
 * Keeping the newest checkpoints only. Which tasks and jobs have too many is read without the lock. The newest progress
 * of an unfinished job stays: its next attempt starts from it.
 */

import { LAST_TRIM, fromJson } from "../shared/schemas.ts";
import { trimFrom } from "../shared/verdicts.ts";
import type { Database } from "./connection.ts";
import { SQL } from "./statements.ts";

/** Not the progress that the next attempt of an unfinished job starts from. */
const SPARE = `NOT (kind = 'progress'
  AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = checkpoints.job_id AND finished_at_ms IS NULL)
  AND id = (SELECT max(id) FROM checkpoints AS c WHERE c.job_id = checkpoints.job_id AND c.kind = 'progress'))`;
const NEWEST = "SELECT max(id) AS id FROM checkpoints";
const FULL_TASKS = `SELECT DISTINCT task FROM checkpoints AS new WHERE id > ?1 AND task IS NOT NULL
  AND EXISTS (SELECT 1 FROM checkpoints WHERE task = new.task LIMIT 1 OFFSET ?2)`;
const FULL_JOBS = `SELECT DISTINCT job_id FROM checkpoints AS new WHERE id > ?1 AND task IS NULL
  AND EXISTS (SELECT 1 FROM checkpoints WHERE job_id = new.job_id LIMIT 1 OFFSET ?2)`;
const TRIM_TASK = `DELETE FROM checkpoints WHERE task = ?1 AND ${SPARE}
  AND id NOT IN (SELECT id FROM checkpoints WHERE task = ?1 ORDER BY id DESC LIMIT ?2)`;
const TRIM_JOB = `DELETE FROM checkpoints WHERE job_id = ?1 AND ${SPARE}
  AND id NOT IN (SELECT id FROM checkpoints WHERE job_id = ?1 ORDER BY id DESC LIMIT ?2)`;

/** Tasks or jobs that are trimmed in one commit. */
interface Part {
  tasks: readonly string[];
  jobs: readonly number[];
}

const PER_COMMIT = 200;
const NAME = "trim";

/** `done` notes how far it got; null when nothing is new. */
export function trimmable(db: Database, keep: number): { found: Part[]; done: ((db: Database) => void) | null } {
  const last = fromJson(LAST_TRIM, db.sql(SQL.getMeta).get(NAME)?.["value"]);
  const newest = db.sql(NEWEST).get()?.["id"] as number | null;
  const from_id = trimFrom(last, keep, newest);
  if (from_id === null) return { found: [], done: null };
  const tasks = db.sql(FULL_TASKS).all(from_id, keep);
  const jobs = db.sql(FULL_JOBS).all(from_id, keep);
  const found: Part[] = [
    ...slices(tasks).map((rows) => ({ tasks: rows.map((row) => row["task"] as string), jobs: [] })),
    ...slices(jobs).map((rows) => ({ tasks: [], jobs: rows.map((row) => row["job_id"] as number) })),
  ];
  const note = JSON.stringify({ id: newest, keep });
  return { found, done: (all) => void all.sql(SQL.setMeta).run(NAME, note) };
}

function slices<T>(items: readonly T[]): T[][] {
  const parts: T[][] = [];
  for (let at = 0; at < items.length; at += PER_COMMIT) parts.push(items.slice(at, at + PER_COMMIT));
  return parts;
}

export function trim(db: Database, { tasks, jobs }: Part, keep: number): number {
  let removed = 0;
  for (const task of tasks) removed += db.sql(TRIM_TASK).run(task, keep).changes;
  for (const job of jobs) removed += db.sql(TRIM_JOB).run(job, keep).changes;
  return removed;
}
