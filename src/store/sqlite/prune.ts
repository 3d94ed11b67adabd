/** Deleting finished jobs, oldest first; what belongs to them goes with them. */

import type { StateName } from "../../core/job.ts";
import type { SqlValue } from "../../platform/platform.ts";
import type { PruneQuery } from "../queries.ts";
import type { Statements } from "./statements.ts";

/** One state at a time: each is a range of the index on (state, finished_at_ms). */
const OLD = `state = ?1 AND finished_at_ms <= ?2 AND (?3 IS NULL OR queue IN (SELECT value FROM json_each(?3)))
  AND (?4 IS NULL OR task = ?4)`;
const COUNT = `SELECT count(*) AS count FROM jobs WHERE ${OLD}`;
const DELETE = `DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE ${OLD} ORDER BY finished_at_ms LIMIT ?5)
  RETURNING id`;

function params(query: PruneQuery, state: StateName, now_ms: number): SqlValue[] {
  const queues = query.queues === undefined ? null : JSON.stringify(query.queues);
  return [state, now_ms - query.older_than_ms, queues, query.task ?? null];
}

export function prunable(statements: Statements, query: PruneQuery, now_ms: number) {
  return query.states.map((state) => {
    const count = statements.sql(COUNT).get(...params(query, state, now_ms))?.["count"] as number;
    return { state, count };
  });
}

export function prune(statements: Statements, query: PruneQuery & { limit: number }, now_ms: number): number {
  let gone = 0;
  for (const state of query.states) {
    // The number of changed rows would count what goes along with a job as well.
    gone += statements.sql(DELETE).all(...params(query, state, now_ms), query.limit - gone).length;
  }
  return gone;
}
