/**
 * Lists of jobs. Which way is the shortest is decided here and not by the engine, which does not know that most jobs
 * have ended and few run: left alone it walks through all ids because the answer is wanted in their order.
 */

import type { Job, ShownState } from "../../core/job.ts";
import type { ListQuery, Selection } from "../queries.ts";
import { Conditions, SHOWN, SORT_COLUMNS, narrowList, orderOf } from "../shared/filters.ts";
import { toJob } from "../shared/rows.ts";
import type { Database } from "./connection.ts";
import { SELECT_JOB } from "./statements.ts";

const HELD: readonly ShownState[] = ["running", "cancelling"];

export function list(db: Database, query: ListQuery): Job[] {
  const states = statesOf(query);
  if (states?.length === 0) return [];
  const only = select(query);
  if (query.holder !== undefined) only.add("holder = ?", query.holder);
  narrowList(only, query);
  const limit = `LIMIT ${only.bind(query.limit)}`;
  const found =
    states === null || isWalk(query, states) ? walk(query, only, states, limit) : byIndex(query, only, states, limit);
  const text = `${SELECT_JOB} WHERE id IN (SELECT id FROM (${found})) ORDER BY ${orderOf(query)}`;
  return db
    .sql(text)
    .all(...only.params)
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
function walk(query: ListQuery, only: Conditions, states: readonly ShownState[] | null, limit: string): string {
  if (states !== null) only.say(`(${states.map((state) => SHOWN[state].replace("state", "+state")).join(" OR ")})`);
  return `SELECT id FROM jobs ${only.where()} ORDER BY ${orderOf(query)} ${limit}`;
}

/** Each state by its own index, and the first of each together; here `+` keeps from walking through all ids. */
function byIndex(query: ListQuery, only: Conditions, states: readonly ShownState[], limit: string): string {
  const column = SORT_COLUMNS[query.sort ?? "id"];
  const columns = column === "id" ? "id" : `id, ${column}`;
  const parts = states.map(
    (state) =>
      `SELECT * FROM (SELECT ${columns} FROM jobs ${only.where(SHOWN[state])} ORDER BY ${orderOf(query, "+id")} ${limit})`,
  );
  return `${parts.join(" UNION ALL ")} ORDER BY ${orderOf(query)} ${limit}`;
}

const IS_ONE_OF = "IN (SELECT value FROM json_each(?))";

/** With placeholders and lists as this engine has them. */
export function select({ ids, queues, task }: Selection): Conditions {
  const only = new Conditions("?");
  if (ids) only.add(`id ${IS_ONE_OF}`, JSON.stringify(ids));
  if (queues) only.add(`queue ${IS_ONE_OF}`, JSON.stringify(queues));
  if (task !== undefined) only.add("task = ?", task);
  return only;
}
