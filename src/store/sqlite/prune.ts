/** Deleting finished jobs, oldest first; what belongs to them goes with them. */

import type { StateName } from "../../core/job.ts";
import type { PruneQuery } from "../queries.ts";
import type { Conditions } from "./conditions.ts";
import { select } from "./conditions.ts";
import type { Statements } from "./connection.ts";

/**
 * One state at a time: each is a range of the index on (state, finished_at_ms). Where a task is named, its own index
 * leads to fewer jobs; the `+` keeps the engine from the other.
 */
function old({ states, older_than_ms, ...selection }: PruneQuery, now_ms: number): [StateName, Conditions][] {
  const by = selection.task === undefined ? "" : "+";
  return [...new Set(states)].map((state) => {
    const only = select(selection);
    only.add(`${by}state = ?`, state);
    only.add(`${by}finished_at_ms <= ?`, now_ms - older_than_ms);
    return [state, only];
  });
}

export function prunable(statements: Statements, query: PruneQuery, now_ms: number) {
  return old(query, now_ms).map(([state, only]) => {
    const sql = `SELECT count(*) AS count FROM jobs ${only.where()}`;
    return { state, count: statements.sql(sql).get(...only.params)?.["count"] as number };
  });
}

export function prune(
  statements: Statements,
  { limit, ...query }: PruneQuery & { limit: number },
  now_ms: number,
): number {
  const oldest = old(query, now_ms).flatMap(([, only]) =>
    statements
      .sql(
        `SELECT id, finished_at_ms FROM jobs ${only.where()} ORDER BY finished_at_ms, id LIMIT ?${only.params.length + 1}`,
      )
      .all(...only.params, limit)
      .map((row) => ({ id: row["id"] as number, finished_at_ms: row["finished_at_ms"] as number })),
  );
  const chosen = oldest.toSorted((a, b) => a.finished_at_ms - b.finished_at_ms || a.id - b.id).slice(0, limit);
  for (const { id } of chosen) statements.get("deleteJob").run(id);
  return chosen.length;
}
