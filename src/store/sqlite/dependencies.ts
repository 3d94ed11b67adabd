/**
 * Jobs that wait for others. When a job ends, each job that waits for it is freed, keeps waiting for the rest, or can't
 * run any more and is cancelled with the reason, and so on down.
 *
 * One commit tells so many children at the most, or beats would wait behind it. The parents of those that are left are
 * noted in `freeing`, and whoever acquires or sweeps next goes on there.
 */

import { LeaseError } from "../../core/errors.ts";
import type { NewJob, StateName } from "../../core/job.ts";
import type { SqlRow } from "../../platform/platform.ts";
import { isBlocked, isSatisfied, parentsOf, type DependencyKind } from "../shared/columns.ts";
import { doomReason, noParent } from "../shared/verdicts.ts";
import { noteCancelled } from "./history.ts";
import type { Database } from "./open.ts";
import { UNBLOCK } from "./quick_enqueue.ts";
import type { IdRange } from "./ranges.ts";

const INSERT = "INSERT INTO dependencies (job_id, parent_id, kind) VALUES (?1, ?2, ?3)";
const OF_TASK = "SELECT id FROM jobs WHERE task = ?1 AND id <> ?2 ORDER BY id";
const ANY_CHILD = "SELECT 1 AS found FROM dependencies WHERE parent_id = ?1 LIMIT 1";
const CHILDREN = `SELECT job_id, kind FROM dependencies WHERE parent_id = ?1 AND job_id > ?2 ORDER BY job_id LIMIT ?3`;
const DOOM = `UPDATE jobs SET state = 'cancelled', finished_at_ms = ?2, reason = ?3
  WHERE id = ?1 AND state = 'blocked' RETURNING queue`;
const FENCE = "SELECT state, token, expires_at_ms FROM jobs WHERE id = ?1";

const LATER = `INSERT INTO freeing (parent_id, behind_id) VALUES (?1, ?2)
  ON CONFLICT (parent_id) DO UPDATE SET behind_id = min(behind_id, ?2)`;
const NEXT = "SELECT parent_id, behind_id FROM freeing ORDER BY parent_id LIMIT 1";
const DONE = "DELETE FROM freeing WHERE parent_id = ?1";

/** Children that are told in one commit. */
const TOLD_TOGETHER = 1_000;

/** Links a job to its parents. It is blocked, and is freed or cancelled at once if they allow it. */
export function addDependencies(db: Database, id: number, job: NewJob, now_ms: number): void {
  const parents = parentsOf(job, ofTasks(db, id, job.after_task));
  for (const [parent, kind] of parents) {
    const row = parent === id ? null : fenceOf(db, parent);
    if (row === null) throw noParent(parent);
    db.sql(INSERT).run(id, parent, kind);
  }
  let doomed = false;
  for (const [parent, kind] of parents) doomed = meet(db, id, kind, parent, now_ms) || doomed;
  // Of a job that was edited, others may wait for it in turn.
  if (doomed) freeChildren(db, id, now_ms);
}

const UNLINK = "DELETE FROM dependencies WHERE job_id = ?1";
const ABOVE = `WITH RECURSIVE above (id, via) AS (
    SELECT parent_id, parent_id FROM dependencies WHERE job_id = ?1
    UNION SELECT d.parent_id, above.via FROM above JOIN dependencies AS d ON d.job_id = above.id)
  SELECT via FROM above WHERE id = ?1 LIMIT 1`;

/** Waits for those that the job names now, and for nobody else. Answers one of them that waits for it; null: none does. */
export function relink(db: Database, id: number, job: NewJob, now_ms: number): number | null {
  db.sql(UNLINK).run(id);
  if (isBlocked(job)) addDependencies(db, id, job, now_ms);
  return (db.sql(ABOVE).get(id)?.["via"] as number | undefined) ?? null;
}

function ofTasks(db: Database, id: number, tasks: readonly string[]): number[] {
  return tasks.flatMap((task) => {
    const found = db.sql(OF_TASK).all(task, id);
    if (found.length === 0) throw new LeaseError("dependency", `there is no job of task ${task} to wait for`);
    return found.map((row) => row["id"] as number);
  });
}

interface Parent {
  id: number;
  /** Children up to this one have been told. */
  behind: number;
}

/** To be called in the transaction in which `ended` did. */
export function freeChildren(db: Database, ended: number, now_ms: number): void {
  // Most have none, and to be told so takes a sixth of the time that it takes to be given no rows.
  if (db.sql(ANY_CHILD).get(ended) === null) return;
  tell(db, [{ id: ended, behind: 0 }], now_ms);
}

const PARENTS = "SELECT DISTINCT parent_id FROM dependencies WHERE parent_id IN (SELECT value FROM json_each(?1))";

/** Those that somebody waits for. */
export function parentsAmong(db: Database, ids: readonly number[]): number[] {
  return db
    .sql(PARENTS)
    .all(JSON.stringify(ids))
    .map((row) => row["parent_id"] as number);
}

const PARENTS_BETWEEN = "SELECT DISTINCT parent_id FROM dependencies WHERE parent_id BETWEEN ?1 AND ?2";

export function parentsBetween(db: Database, range: IdRange): number[] {
  return db
    .sql(PARENTS_BETWEEN)
    .all(...range)
    .map((row) => row["parent_id"] as number);
}

const ANY_CHILD_BETWEEN = "SELECT 1 AS found FROM dependencies WHERE job_id BETWEEN ?1 AND ?2 LIMIT 1";

/** One of them has been enqueued to wait for others. */
export function anyChildBetween(db: Database, range: IdRange): boolean {
  return db.sql(ANY_CHILD_BETWEEN).get(...range) !== null;
}

/** There are children that have not been told yet. */
export function isFreeing(db: Database): boolean {
  return db.sql(NEXT).get() !== null;
}

/** As many of them as one commit should take. */
export function freeSome(db: Database, now_ms = db.now_ms()): void {
  const row = db.sql(NEXT).get();
  if (row === null) return;
  db.sql(DONE).run(row["parent_id"] as number);
  tell(db, [{ id: row["parent_id"] as number, behind: row["behind_id"] as number }], now_ms);
}

/** Those that can't run any more are parents too. A list, not recursion: a chain may be as long as people make it. */
function tell(db: Database, parents: Parent[], now_ms: number): void {
  let left = TOLD_TOGETHER;
  for (let parent = parents.pop(); parent !== undefined; parent = parents.pop()) {
    const children = db.sql(CHILDREN).all(parent.id, parent.behind, left + 1);
    for (const row of children.slice(0, left)) {
      const child = row["job_id"] as number;
      if (meet(db, child, row["kind"] as DependencyKind, parent.id, now_ms)) parents.push({ id: child, behind: 0 });
    }
    const told = children[left - 1];
    if (children.length > left) db.sql(LATER).run(parent.id, (told?.["job_id"] as number | undefined) ?? parent.behind);
    left = Math.max(0, left - children.length);
  }
}

/** True when the child can't run any more and was cancelled, so that its own children have to be told. */
function meet(db: Database, child: number, kind: DependencyKind, parent: number, now_ms: number): boolean {
  const state = stateOf(db, parent);
  if (state !== "completed" && state !== "failed" && state !== "cancelled") return false;
  if (isSatisfied(kind, state)) {
    db.sql(UNBLOCK).run(child, now_ms);
    return false;
  }
  const queue = db.sql(DOOM).get(child, now_ms, doomReason(parent, state))?.["queue"];
  if (queue === undefined) return false;
  noteCancelled(db, String(queue), now_ms);
  return true;
}

/** Whether it waits for others; it has become blocked, and is freed at once if they allow it. */
export function waitAgain(db: Database, id: number, now_ms: number): boolean {
  db.sql(UNBLOCK).run(id, now_ms);
  return stateOf(db, id) === "blocked";
}

/** What writes by holders are held against. Null: there is no such job. */
export function fenceOf(db: Database, id: number): SqlRow | null {
  return db.sql(FENCE).get(id);
}

export function stateOf(db: Database, id: number): StateName | null {
  return (fenceOf(db, id)?.["state"] ?? null) as StateName | null;
}
