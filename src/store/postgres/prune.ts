/** Deleting finished jobs, oldest first; what belongs to them goes with them, in the same statement. */

import type { StateName } from "../../core/job.ts";
import type { PruneQuery } from "../queries.ts";
import { texts } from "./arrays.ts";
import type { Connection, Param } from "./link.ts";
import type { Statements } from "./sql.ts";

/** One state at a time: each is a range of the index on (state, finished_at_ms). */
const OLD = `state = $1 AND finished_at_ms <= (SELECT lease.now_ms()) - $2::bigint
  AND ($3::text[] IS NULL OR queue = ANY ($3::text[])) AND ($4::text IS NULL OR task = $4::text)`;
const COUNT = `SELECT count(*) AS count FROM lease.jobs WHERE ${OLD}`;
const owned = (table: string, column = "job_id") =>
  `${table}_of_${column} AS (DELETE FROM lease.${table} WHERE ${column} = ANY (ARRAY(SELECT id FROM old)))`;
const DELETE = `WITH old AS MATERIALIZED (
    SELECT id FROM lease.jobs WHERE ${OLD} ORDER BY finished_at_ms LIMIT $5 FOR UPDATE SKIP LOCKED
  ), ${["inputs", "attempts", "checkpoints", "logs", "dependencies"].map((table) => owned(table)).join(", ")},
  ${owned("dependencies", "parent_id")}
  DELETE FROM lease.jobs WHERE id = ANY (ARRAY(SELECT id FROM old)) RETURNING id`;

function params(query: PruneQuery, state: StateName): Param[] {
  return [state, query.older_than_ms, query.queues === undefined ? null : texts(query.queues), query.task ?? null];
}

export async function prunable(statements: Statements, connection: Connection, query: PruneQuery) {
  const found: { state: StateName; count: number }[] = [];
  for (const state of query.states) {
    const [row] = await statements.sql(connection, COUNT, params(query, state));
    found.push({ state, count: row?.["count"] as number });
  }
  return found;
}

export async function prune(
  statements: Statements,
  connection: Connection,
  query: PruneQuery & { limit: number },
): Promise<number> {
  let gone = 0;
  for (const state of query.states) {
    if (gone >= query.limit) break;
    gone += (await statements.sql(connection, DELETE, [...params(query, state), query.limit - gone])).length;
  }
  return gone;
}
