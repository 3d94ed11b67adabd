/**
 * Deleting what is not needed any more: finished jobs, oldest first, with all that belongs to them in the same statement,
 * and all but the newest checkpoints.
 */

import type { StateName } from "../../core/job.ts";
import type { PrunePlace, Pruned, PruneQuery, PruneStep, Retention } from "../queries.ts";
import { SATISFIED } from "../shared/columns.ts";
import { LAST_TRIM, RETENTION, USUAL_RETENTION, fromJson } from "../shared/facts.ts";
import { narrowPrune } from "../shared/filters.ts";
import { trimFrom } from "../shared/verdicts.ts";
import { select } from "./read.ts";
import { lockMeta } from "./schema.ts";
import { toList } from "./session/arrays.ts";
import type { Connection } from "./session/session.ts";
import { SQL } from "./statements.ts";

/** A job that has ended otherwise than another waits for is needed until that runs, or can't: it may yet be retried. */
const NOT_AWAITED = `NOT (jobs.awaited AND EXISTS (SELECT 1 FROM lease.dependencies AS d
  JOIN lease.jobs AS child ON child.id = d.job_id WHERE d.parent_id = jobs.id AND child.state = 'blocked'
    AND NOT ${SATISFIED.replaceAll("parent.", "jobs.")}))`;

function old({ states, older_than_ms, ...selection }: PruneQuery) {
  const only = select(selection);
  only.add("state = ANY (?::text[])", toList([...new Set(states)]));
  only.add("finished_at_ms <= (SELECT lease.now_ms()) - ?::bigint", older_than_ms);
  only.say(NOT_AWAITED);
  return only;
}

const owned = (table: string, column = "job_id") =>
  `${table}_of_${column} AS (DELETE FROM lease.${table} WHERE ${column} = ANY (ARRAY(SELECT id FROM old)))`;
const OWNED = [
  ...["inputs", "attempts", "checkpoints", "logs", "dependencies"].map((table) => owned(table)),
  owned("dependencies", "parent_id"),
  owned("freeing", "parent_id"),
].join(", ");

export async function prunable(db: Connection, query: PruneQuery) {
  const only = old(query);
  const text = `SELECT state, count(*) AS count FROM lease.jobs ${only.where()} GROUP BY state`;
  const rows = await db.query(text, only.params);
  const counts = new Map(rows.map((row) => [row["state"] as StateName, row["count"] as number]));
  return [...new Set(query.states)].map((state) => ({ state, count: counts.get(state) ?? 0 }));
}

export async function prune(db: Connection, { limit, behind = null, ...query }: PruneStep): Promise<Pruned> {
  const only = old(query);
  narrowPrune(only, behind);
  const text = `WITH old AS MATERIALIZED (
      SELECT id FROM lease.jobs ${only.where()} ORDER BY finished_at_ms, id LIMIT ${only.bind(limit)}
      FOR UPDATE SKIP LOCKED
    ), ${OWNED} DELETE FROM lease.jobs WHERE id = ANY (ARRAY(SELECT id FROM old)) RETURNING finished_at_ms, id`;
  const gone = (await db.query(text, only.params)) as unknown as PrunePlace[];
  const last = gone.toSorted((a, b) => a.finished_at_ms - b.finished_at_ms || a.id - b.id).at(-1) ?? null;
  return { count: gone.length, next: gone.length < limit ? null : last };
}

export async function retention(db: Connection): Promise<Retention> {
  const [row] = await db.query(SQL.getMeta, ["retention"]);
  return { ...USUAL_RETENTION, ...fromJson(RETENTION, row?.["value"]) } as Retention;
}

export async function setRetention(db: Connection, given: Partial<Retention>): Promise<void> {
  const before = await lockMeta(db, "retention", RETENTION);
  await db.query(SQL.setMeta, ["retention", JSON.stringify({ ...USUAL_RETENTION, ...before, ...given })]);
}

const NEWEST = "SELECT max(id) AS id FROM lease.checkpoints";
/** All but the newest, and but the progress that the next attempt of an unfinished job starts from. */
const trim = (group: string, of_group: string) => `DELETE FROM lease.checkpoints WHERE id IN (
    SELECT old.id FROM (SELECT DISTINCT ${group} AS name FROM lease.checkpoints WHERE id > $1 AND ${of_group}) AS touched
    CROSS JOIN LATERAL (SELECT id FROM lease.checkpoints WHERE ${group} = touched.name ORDER BY id DESC OFFSET $2) AS old
  ) AND NOT (kind = 'progress'
    AND EXISTS (SELECT 1 FROM lease.jobs WHERE jobs.id = checkpoints.job_id AND finished_at_ms IS NULL)
    AND id = (SELECT max(id) FROM lease.checkpoints AS c WHERE c.job_id = checkpoints.job_id AND c.kind = 'progress')
  ) RETURNING id`;
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
