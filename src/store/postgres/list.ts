/** Lists of jobs. */

import type { Job, ShownState } from "../../core/job.ts";
import type { ListQuery } from "../queries.ts";
import { toJob } from "../shared/rows.ts";
import { select } from "./session/conditions.ts";
import type { Connection } from "./session/link.ts";
import type { Statements } from "./session/sql.ts";
import { SELECT_JOB } from "./statements.ts";

/** In words of the indexes: a state that is shown may be a part of one that is stored. */
const SHOWN: Readonly<Record<ShownState, string>> = {
  blocked: "state = 'blocked'",
  scheduled: "state = 'scheduled' AND token = 0",
  retrying: "state = 'scheduled' AND token > 0",
  pending: "state = 'pending'",
  running: "state = 'running' AND cancel_requested_at_ms IS NULL",
  cancelling: "state = 'running' AND cancel_requested_at_ms IS NOT NULL",
  completed: "state = 'completed' AND finished_at_ms IS NOT NULL",
  failed: "state = 'failed' AND finished_at_ms IS NOT NULL",
  cancelled: "state = 'cancelled' AND finished_at_ms IS NOT NULL",
};

const SORT_COLUMNS: Readonly<Record<NonNullable<ListQuery["sort"]>, string>> = {
  id: "id",
  priority: "priority",
  due: "run_at_ms",
  started: "started_at_ms",
  finished: "finished_at_ms",
  attempts: "token",
};

export async function list(statements: Statements, connection: Connection, query: ListQuery): Promise<Job[]> {
  const only = select(query);
  if (query.states) only.say(`(${query.states.map((state) => SHOWN[state]).join(" OR ") || "FALSE"})`);
  if (query.key !== undefined) only.add("key = ?", query.key);
  if (query.holder !== undefined) only.add("state = 'running' AND holder = ?", query.holder);
  if (query.behind_id !== undefined) only.add(query.newest_first ? "id < ?" : "id > ?", query.behind_id);
  if (query.since_ms !== undefined) {
    only.add("coalesce(finished_at_ms, started_at_ms, created_at_ms) >= ?", query.since_ms);
  }
  const order = query.newest_first ? "DESC" : "ASC";
  const column = SORT_COLUMNS[query.sort ?? "id"];
  const by = column === "id" ? `id ${order}` : `${column} ${order} NULLS LAST, id ${order}`;
  const text = `${SELECT_JOB} ${only.where()} ORDER BY ${by} LIMIT $${only.params.length + 1}`;
  return (await statements.sql(connection, text, [...only.params, query.limit])).map(toJob);
}
