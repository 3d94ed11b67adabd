/** Deleting finished jobs, oldest first; what belongs to them goes with them, in the same statement. */

import type { StateName } from "../../core/job.ts";
import type { PruneQuery } from "../queries.ts";
import { select } from "./read.ts";
import { texts } from "./session/arrays.ts";
import type { Connection } from "./session/link.ts";

function old({ states, older_than_ms, ...selection }: PruneQuery) {
  const only = select(selection);
  only.add("state = ANY (?::text[])", texts([...new Set(states)]));
  only.add("finished_at_ms <= (SELECT lease.now_ms()) - ?::bigint", older_than_ms);
  return only;
}

const owned = (table: string, column = "job_id") =>
  `${table}_of_${column} AS (DELETE FROM lease.${table} WHERE ${column} = ANY (ARRAY(SELECT id FROM old)))`;
const OWNED = [
  ...["inputs", "attempts", "checkpoints", "logs", "dependencies"].map((table) => owned(table)),
  owned("dependencies", "parent_id"),
].join(", ");

export async function prunable(db: Connection, query: PruneQuery) {
  const only = old(query);
  const text = `SELECT state, count(*) AS count FROM lease.jobs ${only.where()} GROUP BY state`;
  const rows = await db.query(text, only.params);
  const counts = new Map(rows.map((row) => [row["state"] as StateName, row["count"] as number]));
  return [...new Set(query.states)].map((state) => ({ state, count: counts.get(state) ?? 0 }));
}

export async function prune(db: Connection, { limit, ...query }: PruneQuery & { limit: number }): Promise<number> {
  const only = old(query);
  const text = `WITH old AS MATERIALIZED (
      SELECT id FROM lease.jobs ${only.where()} ORDER BY finished_at_ms, id LIMIT ${only.bind(limit)}
      FOR UPDATE SKIP LOCKED
    ), ${OWNED} DELETE FROM lease.jobs WHERE id = ANY (ARRAY(SELECT id FROM old)) RETURNING id`;
  return (await db.query(text, only.params)).length;
}
