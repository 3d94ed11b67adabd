/** Deleting finished jobs, oldest first; what belongs to them goes with them. */

import type { StateName } from "../../core/job.ts";
import type { PruneQuery } from "../queries.ts";
import type { Conditions } from "../shared/filters.ts";
import type { Database } from "./connection.ts";
import { select } from "./read.ts";
import { SQL } from "./statements.ts";

/**
 * One state at a time: each is a range of the index on (state, finished_at_ms). Where a task is named, its own index
 * leads to fewer jobs; the `+` keeps the engine from the other.
 */
function old(db: Database, { states, older_than_ms, ...selection }: PruneQuery): [StateName, Conditions][] {
  const before_ms = db.now_ms() - older_than_ms;
  const by = selection.task === undefined ? "" : "+";
  return [...new Set(states)].map((state) => {
    const only = select(selection);
    only.add(`${by}state = ?`, state);
    only.add(`${by}finished_at_ms <= ?`, before_ms);
    return [state, only];
  });
}

export function prunable(db: Database, query: PruneQuery) {
  return old(db, query).map(([state, only]) => {
    const sql = `SELECT count(*) AS count FROM jobs ${only.where()}`;
    return { state, count: db.sql(sql).get(...only.params)?.["count"] as number };
  });
}

export function prune(db: Database, { limit, ...query }: PruneQuery & { limit: number }): number {
  const oldest = old(db, query).flatMap(([, only]) => {
    const text = `SELECT id, finished_at_ms FROM jobs ${only.where()} ORDER BY finished_at_ms, id LIMIT ${only.bind(limit)}`;
    return db.sql(text).all(...only.params) as { id: number; finished_at_ms: number }[];
  });
  const chosen = oldest.toSorted((a, b) => a.finished_at_ms - b.finished_at_ms || a.id - b.id).slice(0, limit);
  for (const { id } of chosen) db.sql(SQL.deleteJob).run(id);
  return chosen.length;
}
