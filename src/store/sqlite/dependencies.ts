/**
 * Jobs that wait for others. When a job ends, each job that waits for it is freed, keeps waiting for the rest, or can't
 * run any more and is cancelled with the reason, and so on down.
 */

import { LeaseError } from "../../core/errors.ts";
import type { NewJob, StateName } from "../../core/job.ts";
import type { SqlRow } from "../../platform/platform.ts";
import { parentsOf, type DependencyKind } from "../shared/columns.ts";
import { noteCancelled } from "./history.ts";
import type { Database } from "./open.ts";

const INSERT = "INSERT INTO dependencies (job_id, parent_id, kind) VALUES (?1, ?2, ?3)";
const CHILDREN = "SELECT job_id, kind FROM dependencies WHERE parent_id = ?1 ORDER BY job_id";
const UNBLOCK = `UPDATE jobs SET state = iif(run_at_ms > ?2, 'scheduled', 'pending')
  WHERE id = ?1 AND state = 'blocked' AND NOT EXISTS (
    SELECT 1 FROM dependencies AS d JOIN jobs AS parent ON parent.id = d.parent_id
    WHERE d.job_id = ?1 AND parent.state <> 'completed'
      AND (d.kind = 'success' OR parent.state NOT IN ('failed', 'cancelled')))`;
const DOOM = `UPDATE jobs SET state = 'cancelled', finished_at_ms = ?2, reason = ?3
  WHERE id = ?1 AND state = 'blocked' RETURNING queue`;
const FENCE = "SELECT state, token, expires_at_ms FROM jobs WHERE id = ?1";

/** Links a new job to its parents. It was inserted as blocked, and is freed or cancelled at once if they allow it. */
export function addDependencies(db: Database, id: number, job: NewJob, now_ms: number): void {
  const parents = parentsOf(job);
  for (const [parent, kind] of parents) {
    const row = parent === id ? null : fenceOf(db, parent);
    if (row === null) throw new LeaseError("dependency", `there is no job ${parent} to wait for`);
    db.sql(INSERT).run(id, parent, kind);
  }
  for (const [parent, kind] of parents) meet(db, id, kind, parent, now_ms);
}

/** To be called in the transaction in which `ended` did. */
export function freeChildren(db: Database, ended: number, now_ms: number): void {
  // A list, not recursion: a chain of jobs may be as long as people make it.
  const parents = [ended];
  for (let parent = parents.pop(); parent !== undefined; parent = parents.pop()) {
    for (const row of db.sql(CHILDREN).all(parent)) {
      const child = row["job_id"] as number;
      if (meet(db, child, row["kind"] as DependencyKind, parent, now_ms)) parents.push(child);
    }
  }
}

/** True when the child can't run any more and was cancelled, so that its own children have to be met. */
function meet(db: Database, child: number, kind: DependencyKind, parent: number, now_ms: number): boolean {
  const state = stateOf(db, parent);
  if (state === "completed" || (kind === "any" && (state === "failed" || state === "cancelled"))) {
    db.sql(UNBLOCK).run(child, now_ms);
    return false;
  }
  if (state !== "failed" && state !== "cancelled") return false;
  const how = state === "failed" ? "failed" : "was cancelled";
  const queue = db.sql(DOOM).get(child, now_ms, `job ${parent}, which it waits for, ${how}`)?.["queue"];
  if (queue === undefined) return false;
  noteCancelled(db, String(queue), now_ms);
  return true;
}

/** What writes by holders are held against. Null: there is no such job. */
export function fenceOf(db: Database, id: number): SqlRow | null {
  return db.sql(FENCE).get(id);
}

export function stateOf(db: Database, id: number): StateName | null {
  return (fenceOf(db, id)?.["state"] ?? null) as StateName | null;
}
