/**
 * Jobs that wait for others. When a job ends, each job that waits for it is freed, keeps waiting for the rest, or can't
 * run any more and is cancelled with the reason, and so on down.
 *
 * Everything here runs in the transaction in which the parents ended or the child was enqueued. Whoever adds a child
 * locks the parents, and whoever ends a parent locks the children before it looks at their other parents: so two that
 * end at the same moment can't each take the other for unfinished.
 *
 * One commit frees so many children at the most. The parents of those that are left are noted in `freeing`, and whoever
 * acquires or sweeps next goes on there.
 */

import { LeaseError } from "../../core/errors.ts";
import type { NewJob } from "../../core/job.ts";
import { SATISFIED, parentsOf } from "../shared/columns.ts";
import { DOOM_REASON, noParent } from "../shared/verdicts.ts";
import { idsOf, perRow } from "./session/arrays.ts";
import type { Connection } from "./session/session.ts";

export const LOCK_PARENTS = `SELECT id, awaited, finished_at_ms IS NOT NULL AS finished FROM lease.jobs
  WHERE id = ANY ($1::bigint[]) ORDER BY id FOR NO KEY UPDATE`;
const OF_TASKS = "SELECT id, task FROM lease.jobs WHERE task = ANY ($1::text[]) ORDER BY id";
export const AWAIT = "UPDATE lease.jobs SET awaited = TRUE WHERE id = ANY ($1::bigint[])";
const INSERT = perRow`INSERT INTO lease.dependencies (job_id, parent_id, kind)
  SELECT child, parent, kind FROM ${{ child: "bigint", parent: "bigint", kind: "text" }}`;

const HOW = `CASE parent.state ${Object.entries(DOOM_REASON.how)
  .map(([state, how]) => `WHEN '${state}' THEN '${how}'`)
  .join(" ")} END`;

/** Down the chain in one statement; a child of several is given the first as its reason. $2: only these, if any. */
export const DOOM = `WITH RECURSIVE clock AS MATERIALIZED (SELECT lease.now_ms() AS ms), doomed (id, parent_id, how) AS (
    SELECT d.job_id, d.parent_id, ${HOW}
    FROM lease.jobs AS parent JOIN lease.dependencies AS d ON d.parent_id = parent.id
    JOIN lease.jobs AS child ON child.id = d.job_id AND child.state = 'blocked'
    WHERE parent.id = ANY ($1::bigint[]) AND parent.finished_at_ms IS NOT NULL AND NOT ${SATISFIED}
      AND ($2::bigint[] IS NULL OR d.job_id = ANY ($2::bigint[]))
    UNION
    SELECT d.job_id, d.parent_id, '${DOOM_REASON.how.cancelled}'
    FROM doomed JOIN lease.dependencies AS d ON d.parent_id = doomed.id AND d.kind <> 'any'
    JOIN lease.jobs AS child ON child.id = d.job_id AND child.state = 'blocked'
  ), one AS MATERIALIZED (SELECT DISTINCT ON (id) id, parent_id, how FROM doomed ORDER BY id, parent_id)
  UPDATE lease.jobs SET state = 'cancelled', finished_at_ms = clock.ms,
    reason = 'job ' || one.parent_id || '${DOOM_REASON.between}' || one.how
  FROM one, clock WHERE jobs.id = one.id AND jobs.state = 'blocked' RETURNING jobs.id`;

const CHILDREN = `SELECT parent_id, job_id FROM lease.dependencies
  WHERE parent_id = ANY ($1::bigint[]) AND (parent_id, job_id) > ($2, $3) ORDER BY parent_id, job_id LIMIT $4`;
export const LOCK_CHILDREN = `SELECT id FROM lease.jobs WHERE state = 'blocked' AND id = ANY ($1::bigint[])
  ORDER BY id FOR NO KEY UPDATE`;
export const UNBLOCK = `UPDATE lease.jobs
  SET state = CASE WHEN run_at_ms > (SELECT lease.now_ms()) THEN 'scheduled' ELSE 'pending' END
  WHERE id = ANY ($1::bigint[]) AND state = 'blocked' AND NOT EXISTS (
    SELECT 1 FROM lease.dependencies AS d JOIN lease.jobs AS parent ON parent.id = d.parent_id
    WHERE d.job_id = jobs.id AND NOT ${SATISFIED})`;

const LATER = `INSERT INTO lease.freeing (parent_id, behind_id)
  SELECT id, CASE WHEN id = $2 THEN $3::bigint ELSE 0 END FROM unnest($1::bigint[]) AS left_over (id) ORDER BY id
  ON CONFLICT (parent_id) DO UPDATE SET behind_id = least(freeing.behind_id, excluded.behind_id)`;
const TAKE = `DELETE FROM lease.freeing WHERE parent_id = (
    SELECT parent_id FROM lease.freeing ORDER BY parent_id LIMIT 1 FOR UPDATE SKIP LOCKED)
  RETURNING parent_id, behind_id`;

/** Children that are freed in one commit. */
const FREED_TOGETHER = 2_000;

/** Links jobs to their parents. They are blocked, and are freed or cancelled at once if those allow it. */
export async function addDependencies(
  db: Connection,
  children: readonly { id: number; job: NewJob; index: number }[],
  { new_jobs = true } = {},
): Promise<void> {
  const of_tasks = await ofTasks(db, children);
  const edges = children.flatMap(({ id, job, index }) => {
    const tasks = job.after_task.flatMap((task) => {
      const found = (of_tasks.get(task) ?? []).filter((other) => (new_jobs ? other < id : other !== id));
      if (found.length > 0) return found;
      throw new LeaseError("dependency", `there is no job of task ${task} to wait for`, { index });
    });
    return [...parentsOf(job, tasks)].map(([parent, kind]) => ({ child: id, parent, kind, index }));
  });
  if (edges.length === 0) return;
  const parents = [...new Set(edges.map(({ parent }) => parent))];
  const rows = await db.query(LOCK_PARENTS, [parents]);
  const known = new Set(idsOf(rows));
  for (const { child, parent, index } of edges) {
    // Ids rise: a parent that is not older than a new child is not there yet.
    if ((new_jobs ? parent >= child : parent === child) || !known.has(parent)) throw noParent(parent, index);
  }
  const unaware = rows.filter(({ awaited }) => !awaited);
  if (unaware.length > 0) await db.query(AWAIT, [idsOf(unaware)]);
  await INSERT.run(db, edges);
  const finished = rows.filter((row) => row["finished"]);
  const ids = children.map(({ id }) => id);
  await doom(db, idsOf(finished), ids);
  await db.query(UNBLOCK, [ids]);
}

const UNLINK = "DELETE FROM lease.dependencies WHERE job_id = $1";
const ABOVE = `WITH RECURSIVE above (id, via) AS (
    SELECT parent_id, parent_id FROM lease.dependencies WHERE job_id = $1
    UNION SELECT d.parent_id, above.via FROM above JOIN lease.dependencies AS d ON d.job_id = above.id)
  SELECT via FROM above WHERE id = $1 LIMIT 1`;

/** Waits for those that the job names now, and for nobody else. Answers one of them that waits for it; null: none does. */
export async function relink(db: Connection, id: number, job: NewJob, index: number): Promise<number | null> {
  await db.query(UNLINK, [id]);
  await addDependencies(db, [{ id, job, index }], { new_jobs: false });
  const [circle] = await db.query<{ via: number }>(ABOVE, [id]);
  return circle?.via ?? null;
}

async function ofTasks(db: Connection, children: readonly { job: NewJob }[]): Promise<ReadonlyMap<string, number[]>> {
  const tasks = [...new Set(children.flatMap(({ job }) => job.after_task))];
  const rows = tasks.length === 0 ? [] : await db.query<{ id: number; task: string }>(OF_TASKS, [tasks]);
  const grouped = Map.groupBy(rows, ({ task }) => task);
  return new Map([...grouped].map(([task, found]) => [task, idsOf(found)]));
}

/** Cancels what can't run any more because of these, all the way down; answers who that was. */
async function doom(db: Connection, ended: readonly number[], only: readonly number[] | null): Promise<number[]> {
  const all: number[] = [];
  for (let from: readonly number[] = ended; from.length > 0;) {
    // Again from those that it found: a child may have been added to one of them while we waited for it.
    const doomed = await db.query(DOOM, [from, from === ended ? only : null]);
    from = idsOf(doomed);
    all.push(...from);
  }
  // Somebody may wait for the very end of those, however it came.
  if (only !== null) await free(db, all);
  return all;
}

const EDGES = "SELECT job_id AS job, parent_id AS parent FROM lease.dependencies WHERE job_id = ANY ($1::bigint[])";

export async function dependenciesOf(db: Connection, ids: readonly number[]) {
  return db.query<{ job: number; parent: number }>(EDGES, [ids]);
}

const STILL_BLOCKED = "SELECT id FROM lease.jobs WHERE id = ANY ($1::bigint[]) AND state = 'blocked'";

/** They and their parents are locked, and they have become blocked; freed at once if those allow it. Answers who waits. */
export async function waitAgain(db: Connection, ids: readonly number[]): Promise<number[]> {
  if (ids.length === 0) return [];
  await db.query(UNBLOCK, [ids]);
  return idsOf(await db.query(STILL_BLOCKED, [ids]));
}

/** To be called in the transaction in which `ended` did. */
export async function freeChildren(db: Connection, ended: readonly number[]): Promise<void> {
  if (ended.length === 0) return;
  const doomed = await doom(db, ended, null);
  await free(db, [...ended, ...doomed]);
}

/** As many children as one commit should take, from those of one parent behind one of them. */
async function free(db: Connection, parents: readonly number[], behind_id = 0): Promise<void> {
  if (parents.length === 0) return;
  const sorted = parents.toSorted((a, b) => a - b);
  const [first = 0] = sorted;
  const rows = await db.query<{ parent_id: number; job_id: number }>(CHILDREN, [
    sorted,
    first,
    behind_id,
    FREED_TOGETHER + 1,
  ]);
  const now = rows.slice(0, FREED_TOGETHER);
  const last = now.at(-1);
  if (last === undefined) return;
  const locked = await db.query(LOCK_CHILDREN, [[...new Set(now.map(({ job_id }) => job_id))]]);
  if (locked.length > 0) await db.query(UNBLOCK, [idsOf(locked)]);
  if (rows.length === now.length) return;
  const left = sorted.filter((parent) => parent >= last.parent_id);
  await db.query(LATER, [left, last.parent_id, last.job_id]);
}

/** Goes on where a commit had to leave off; false when there is nothing left. */
export async function freeSome(db: Connection): Promise<boolean> {
  const [row] = await db.query<{ parent_id: number; behind_id: number }>(TAKE);
  if (row === undefined) return false;
  await free(db, [row.parent_id], row.behind_id);
  return true;
}
