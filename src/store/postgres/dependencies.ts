/**
 * Jobs that wait for others. When a job ends, each job that waits for it is freed, keeps waiting for the rest, or can't
 * run any more and is cancelled with the reason, and so on down.
 *
 * Everything here runs in the transaction in which the parents ended or the child was enqueued. Whoever adds a child
 * locks the parents, and whoever ends a parent locks the children before it looks at their other parents: so two that
 * end at the same moment can't each take the other for unfinished.
 */

import { LeaseError } from "../../core/errors.ts";
import type { NewJob } from "../../core/job.ts";
import { parentsOf } from "../shared/columns.ts";
import { idsOf, perRow } from "./session/arrays.ts";
import type { Connection } from "./session/session.ts";

export const LOCK_PARENTS = `SELECT id, awaited, finished_at_ms IS NOT NULL AS finished FROM lease.jobs
  WHERE id = ANY ($1::bigint[]) ORDER BY id FOR NO KEY UPDATE`;
export const AWAIT = "UPDATE lease.jobs SET awaited = TRUE WHERE id = ANY ($1::bigint[])";
const INSERT = perRow`INSERT INTO lease.dependencies (job_id, parent_id, kind)
  SELECT child, parent, kind FROM ${{ child: "bigint", parent: "bigint", kind: "text" }}`;

/** Down the chain in one statement; a child of several is given the first as its reason. */
export const DOOM = `WITH RECURSIVE clock AS MATERIALIZED (SELECT lease.now_ms() AS ms), doomed (id, parent_id, how) AS (
    SELECT d.job_id, d.parent_id, CASE parent.state WHEN 'failed' THEN 'failed' ELSE 'was cancelled' END
    FROM lease.jobs AS parent JOIN lease.dependencies AS d ON d.parent_id = parent.id AND d.kind = 'success'
    JOIN lease.jobs AS child ON child.id = d.job_id AND child.state = 'blocked'
    WHERE parent.id = ANY ($1::bigint[]) AND parent.state IN ('failed', 'cancelled')
    UNION
    SELECT d.job_id, d.parent_id, 'was cancelled'
    FROM doomed JOIN lease.dependencies AS d ON d.parent_id = doomed.id AND d.kind = 'success'
    JOIN lease.jobs AS child ON child.id = d.job_id AND child.state = 'blocked'
  ), one AS MATERIALIZED (SELECT DISTINCT ON (id) id, parent_id, how FROM doomed ORDER BY id, parent_id)
  UPDATE lease.jobs SET state = 'cancelled', finished_at_ms = clock.ms,
    reason = 'job ' || one.parent_id || ', which it waits for, ' || one.how
  FROM one, clock WHERE jobs.id = one.id AND jobs.state = 'blocked' RETURNING jobs.id`;

export const LOCK_CHILDREN = `SELECT id FROM lease.jobs WHERE state = 'blocked' AND id IN (
    SELECT job_id FROM lease.dependencies WHERE parent_id = ANY ($1::bigint[])) ORDER BY id FOR NO KEY UPDATE`;
export const UNBLOCK = `UPDATE lease.jobs
  SET state = CASE WHEN run_at_ms > (SELECT lease.now_ms()) THEN 'scheduled' ELSE 'pending' END
  WHERE id = ANY ($1::bigint[]) AND state = 'blocked' AND NOT EXISTS (
    SELECT 1 FROM lease.dependencies AS d JOIN lease.jobs AS parent ON parent.id = d.parent_id
    WHERE d.job_id = jobs.id AND parent.state <> 'completed'
      AND (d.kind = 'success' OR parent.state NOT IN ('failed', 'cancelled')))`;

/** Links new jobs to their parents. They were inserted as blocked, and are freed or cancelled at once if those allow it. */
export async function addDependencies(
  db: Connection,
  children: readonly { id: number; job: NewJob; index: number }[],
): Promise<void> {
  const edges = children.flatMap(({ id, job, index }) =>
    [...parentsOf(job)].map(([parent, kind]) => ({ child: id, parent, kind, index })),
  );
  if (edges.length === 0) return;
  const parents = [...new Set(edges.map(({ parent }) => parent))];
  const rows = await db.query(LOCK_PARENTS, [parents]);
  const known = new Set(idsOf(rows));
  for (const { child, parent, index } of edges) {
    // Ids rise: a parent that is not older than the child is not there yet.
    if (parent < child && known.has(parent)) continue;
    throw new LeaseError("dependency", `there is no job ${parent} to wait for`, { index });
  }
  const unaware = rows.filter(({ awaited }) => !awaited);
  if (unaware.length > 0) await db.query(AWAIT, [idsOf(unaware)]);
  await INSERT.run(db, edges);
  const finished = rows.filter((row) => row["finished"]);
  await freeChildren(db, idsOf(finished));
}

/** To be called in the transaction in which `ended` did. */
export async function freeChildren(db: Connection, ended: readonly number[]): Promise<void> {
  if (ended.length === 0) return;
  const over = [...ended];
  for (let from: readonly number[] = ended; from.length > 0;) {
    // Again from those that it found: a child may have been added to one of them while we waited for it.
    const doomed = await db.query(DOOM, [from]);
    from = idsOf(doomed);
    over.push(...from);
  }
  const children = await db.query(LOCK_CHILDREN, [over]);
  if (children.length === 0) return;
  await db.query(UNBLOCK, [idsOf(children)]);
}
