/**
 * Jobs that wait for others. When a job ends, each job that waits for it is freed, keeps waiting for the rest, or can't
 * run any more and is cancelled with the reason, and so on down.
 */

import { LeaseError } from "../../core/errors.ts";
import type { NewJob, StateName } from "../../core/job.ts";
import type { Statements } from "./connection.ts";

type Kind = "success" | "any";

/** Links a new job to its parents. It was inserted as blocked, and is freed or cancelled at once if they allow it. */
export function addDependencies(statements: Statements, id: number, job: NewJob, now_ms: number): void {
  const parents = new Map<number, Kind>();
  for (const parent of job.after_any) parents.set(parent, "any");
  for (const parent of job.after) parents.set(parent, "success");
  for (const [parent, kind] of parents) {
    const row = parent === id ? null : statements.get("fence").get(parent);
    if (row === null) throw new LeaseError("dependency", `there is no job ${parent} to wait for`);
    statements.get("insertDependency").run(id, parent, kind);
  }
  for (const [parent, kind] of parents) meet(statements, id, kind, parent, now_ms);
}

/** To be called in the transaction in which `ended` did. */
export function freeChildren(statements: Statements, ended: number, now_ms: number): void {
  // A list, not recursion: a chain of jobs may be as long as people make it.
  const parents = [ended];
  for (let parent = parents.pop(); parent !== undefined; parent = parents.pop()) {
    for (const row of statements.get("childrenOf").all(parent)) {
      const child = row["job_id"] as number;
      if (meet(statements, child, row["kind"] as Kind, parent, now_ms)) parents.push(child);
    }
  }
}

/** True when the child can't run any more and was cancelled, so that its own children have to be met. */
function meet(statements: Statements, child: number, kind: Kind, parent: number, now_ms: number): boolean {
  const state = statements.get("fence").get(parent)?.["state"] as StateName;
  if (state === "completed" || (kind === "any" && (state === "failed" || state === "cancelled"))) {
    statements.get("unblock").run(child, now_ms);
    return false;
  }
  if (state !== "failed" && state !== "cancelled") return false;
  const how = state === "failed" ? "failed" : "was cancelled";
  return statements.get("doom").run(child, now_ms, `job ${parent}, which it waits for, ${how}`).changes > 0;
}
