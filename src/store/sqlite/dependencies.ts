/**
 * Jobs that wait for others. When a job ends, each job that waits for it is freed, keeps waiting for the rest, or can't
 * run any more and is cancelled with the reason, and so on down.
 */

import { LeaseError } from "../../core/errors.ts";
import type { NewJob, StateName } from "../../core/job.ts";
import { parentsOf, type DependencyKind } from "../shared/columns.ts";
import type { Database } from "./connection.ts";
import { ENQUEUE_SQL } from "./insert.ts";

/** Links a new job to its parents. It was inserted as blocked, and is freed or cancelled at once if they allow it. */
export function addDependencies(db: Database, id: number, job: NewJob, now_ms: number): void {
  const parents = parentsOf(job);
  for (const [parent, kind] of parents) {
    const row = parent === id ? null : db.sql(ENQUEUE_SQL.fence).get(parent);
    if (row === null) throw new LeaseError("dependency", `there is no job ${parent} to wait for`);
    db.sql(ENQUEUE_SQL.insertDependency).run(id, parent, kind);
  }
  for (const [parent, kind] of parents) meet(db, id, kind, parent, now_ms);
}

/** To be called in the transaction in which `ended` did. */
export function freeChildren(db: Database, ended: number, now_ms: number): void {
  // A list, not recursion: a chain of jobs may be as long as people make it.
  const parents = [ended];
  for (let parent = parents.pop(); parent !== undefined; parent = parents.pop()) {
    for (const row of db.sql(ENQUEUE_SQL.childrenOf).all(parent)) {
      const child = row["job_id"] as number;
      if (meet(db, child, row["kind"] as DependencyKind, parent, now_ms)) parents.push(child);
    }
  }
}

/** True when the child can't run any more and was cancelled, so that its own children have to be met. */
function meet(db: Database, child: number, kind: DependencyKind, parent: number, now_ms: number): boolean {
  const state = stateOf(db, parent);
  if (state === "completed" || (kind === "any" && (state === "failed" || state === "cancelled"))) {
    db.sql(ENQUEUE_SQL.unblock).run(child, now_ms);
    return false;
  }
  if (state !== "failed" && state !== "cancelled") return false;
  const how = state === "failed" ? "failed" : "was cancelled";
  return db.sql(ENQUEUE_SQL.doom).run(child, now_ms, `job ${parent}, which it waits for, ${how}`).changes > 0;
}

/** Null: there is no such job. */
export function stateOf(db: Database, id: number): StateName | null {
  return (db.sql(ENQUEUE_SQL.fence).get(id)?.["state"] ?? null) as StateName | null;
}
