/**
 * WHERE clauses that are put together at run time, each value bound and never written into the text. What is asked for
 * is said in the same words to both engines; only placeholders and lists are an engine's own.
 */

import type { ShownState } from "../../core/job.ts";
import type { SqlValue } from "../../platform/platform.ts";
import type { CheckpointQuery, ListQuery, PrunePlace, SearchQuery } from "../queries.ts";

export class Conditions {
  readonly params: SqlValue[] = [];
  readonly #parts: string[] = [];
  readonly #mark: "?" | "$";

  constructor(mark: "?" | "$") {
    this.#mark = mark;
  }

  /** One more value, and how the text refers to it. */
  bind(value: SqlValue): string {
    this.params.push(value);
    return `${this.#mark}${this.params.length}`;
  }

  /** `?` stands for the value. */
  add(sql: string, value: SqlValue): void {
    this.#parts.push(sql.replace("?", this.bind(value)));
  }

  /** One without a value. */
  say(sql: string): void {
    this.#parts.push(sql);
  }

  /** With one more that is for this clause alone. */
  where(more?: string): string {
    const parts = more === undefined ? this.#parts : [more, ...this.#parts];
    return parts.length === 0 ? "" : `WHERE ${parts.join(" AND ")}`;
  }
}

/** In words of the indexes: a state that is shown may be a part of one that is stored. */
export const SHOWN: Readonly<Record<ShownState, string>> = {
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

export const SORT_COLUMNS: Readonly<Record<NonNullable<ListQuery["sort"]>, string>> = {
  id: "id",
  priority: "priority",
  due: "run_at_ms",
  started: "started_at_ms",
  finished: "finished_at_ms",
  attempts: "token",
};

/** What a list asks for beside states, holder and what every selection has. */
export function narrowList(
  only: Conditions,
  { key, behind_id, since_ms, newest_first }: ListQuery,
  id: "id" | "+id" = "id",
): void {
  if (key !== undefined) only.add("key = ?", key);
  if (behind_id !== undefined) only.add(`${id} ${newest_first ? "<" : ">"} ?`, behind_id);
  if (since_ms !== undefined) only.add("coalesce(finished_at_ms, started_at_ms, created_at_ms) >= ?", since_ms);
}

export function orderOf({ sort = "id", newest_first }: ListQuery, id = "id"): string {
  const direction = newest_first ? "DESC" : "ASC";
  return sort === "id" ? `${id} ${direction}` : `${SORT_COLUMNS[sort]} ${direction} NULLS LAST, id ${direction}`;
}

/** What a search reads of a job to tell whether it is meant. */
export const SEARCHED =
  "id, state, token, cancel_requested_at_ms, finished_at_ms, queue, task, key, argv, error, reason";

/** Narrows to jobs that contain the text; `position` is the engine's way to say where one text is in another. */
export function narrowSearch(
  only: Conditions,
  { states, text, in_command = false }: Pick<SearchQuery, "states" | "text" | "in_command">,
  position: (needle: string, text: string) => string,
): void {
  if (states !== undefined) only.say(`(${states.map((state) => SHOWN[state]).join(" OR ") || "FALSE"})`);
  if (text === "") return;
  // The words of a command are a list in JSON, and next to each other where a person types them.
  const parts = [position(only.bind(JSON.stringify(text).slice(1, -1)), `replace(argv, '","', ' ')`)];
  const plain = in_command ? "" : only.bind(text);
  const columns = in_command ? [] : ["key", "task", "error", "reason"];
  for (const column of columns) parts.push(position(plain, `coalesce(${column}, '')`));
  only.say(`(${parts.map((part) => `${part} > 0`).join(" OR ")})`);
}

/** `each`: a list of ids as the engine has it, each row of it a `job`. */
export function narrowCheckpoints(
  only: Conditions,
  { job, newest_of, task, kind }: CheckpointQuery,
  each: { checkpoints: string; idRows: (ids: readonly number[]) => string },
): void {
  if (newest_of !== undefined) {
    const alike = kind === undefined ? "" : ` AND kind = ${only.bind(kind)}`;
    const newest = `SELECT max(id) FROM ${each.checkpoints} WHERE job_id = job${alike}`;
    only.say(`id IN (SELECT (${newest}) FROM ${each.idRows(newest_of)})`);
  }
  if (job !== undefined) only.add("job_id = ?", job);
  if (task !== undefined) only.add("task = ?", task);
  if (kind !== undefined) only.add("kind = ?", kind);
}

/** In the order in which jobs finished, those behind that place. */
export function narrowPrune(only: Conditions, behind: PrunePlace | null): void {
  if (behind === null) return;
  const [at, id] = [only.bind(behind.finished_at_ms), only.bind(behind.id)];
  // The first is what an index can begin at.
  only.say(`finished_at_ms >= ${at} AND (finished_at_ms, id) > (${at}, ${id})`);
}
