/**
 * Lists of jobs. Which way is the shortest is decided here and not by the engine, which does not know that most jobs
 * have ended and few run: left alone it walks through all ids because the answer is wanted in their order.
 */

import type { Job, ShownState } from "../../core/job.ts";
import type { ListQuery } from "../queries.ts";
import { toJob } from "../shared/rows.ts";
import type { Conditions } from "./conditions.ts";
import { select } from "./conditions.ts";
import type { Statements } from "./connection.ts";
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

const HELD: readonly ShownState[] = ["running", "cancelling"];

const SORT_COLUMNS: Readonly<Record<NonNullable<ListQuery["sort"]>, string>> = {
  id: "id",
  priority: "priority",
  due: "run_at_ms",
  started: "started_at_ms",
  finished: "finished_at_ms",
  attempts: "token",
};

export function list(statements: Statements, query: ListQuery): Job[] {
  const states = statesOf(query);
  if (states?.length === 0) return [];
  const only = select(query);
  if (query.key !== undefined) only.add("key = ?", query.key);
  if (query.holder !== undefined) only.add("holder = ?", query.holder);
  if (query.behind_id !== undefined) only.add(query.newest_first ? "id < ?" : "id > ?", query.behind_id);
  if (query.since_ms !== undefined) {
    only.add("coalesce(finished_at_ms, started_at_ms, created_at_ms) >= ?", query.since_ms);
  }
  const found = states === null || isWalk(query, states) ? walk(query, only, states) : byIndex(query, only, states);
  return statements
    .sql(`${SELECT_JOB} WHERE id IN (SELECT id FROM (${found})) ORDER BY ${order(query, "id")}`)
    .all(...only.params, query.limit)
    .map(toJob);
}

/** Null: whatever their state. */
function statesOf({ states, holder }: ListQuery): readonly ShownState[] | null {
  if (holder === undefined) return states === undefined ? null : [...new Set(states)];
  return HELD.filter((state) => states?.includes(state) ?? true);
}

/**
 * What else was asked for leads to few jobs, or the next page begins where the last one ended, or completed jobs are
 * asked for in order of id: they are most of all, so the first of them are near.
 */
function isWalk({ ids, key, task, behind_id, sort = "id" }: ListQuery, states: readonly ShownState[]): boolean {
  if (ids !== undefined || key !== undefined || task !== undefined || behind_id !== undefined) return true;
  return sort === "id" && states.includes("completed");
}

/** By id, or by the index of what else was asked for, but not by that of a state: hence the `+`. */
function walk(query: ListQuery, only: Conditions, states: readonly ShownState[] | null): string {
  if (states !== null) only.say(`(${states.map((state) => SHOWN[state].replace("state", "+state")).join(" OR ")})`);
  return `SELECT id FROM jobs ${only.where()} ORDER BY ${order(query, "id")} LIMIT ?${only.params.length + 1}`;
}

/** Each state by its own index, and the first of each together; here `+` keeps from walking through all ids. */
function byIndex(query: ListQuery, only: Conditions, states: readonly ShownState[]): string {
  const limit = `LIMIT ?${only.params.length + 1}`;
  const column = SORT_COLUMNS[query.sort ?? "id"];
  const columns = column === "id" ? "id" : `id, ${column}`;
  const parts = states.map(
    (state) =>
      `SELECT * FROM (SELECT ${columns} FROM jobs ${only.where(SHOWN[state])} ORDER BY ${order(query, "+id")} ${limit})`,
  );
  return `${parts.join(" UNION ALL ")} ORDER BY ${order(query, "id")} ${limit}`;
}

function order({ sort = "id", newest_first }: ListQuery, id: string): string {
  const way = newest_first ? "DESC" : "ASC";
  return sort === "id" ? `${id} ${way}` : `${SORT_COLUMNS[sort]} ${way} NULLS LAST, id ${way}`;
}
