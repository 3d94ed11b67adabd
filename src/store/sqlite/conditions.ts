/** WHERE clauses that are put together at run time, each value bound and never written into the text. */

import type { SqlValue } from "../../platform/platform.ts";
import type { Selection } from "../queries.ts";

/** Conditions that are put together at run time; `?` stands for the value. */
export class Conditions {
  readonly params: SqlValue[] = [];
  readonly #parts: string[] = [];

  add(sql: string, value: SqlValue): void {
    this.params.push(value);
    this.#parts.push(sql.replace("?", `?${this.params.length}`));
  }

  /** One without a value. */
  say(sql: string): void {
    this.#parts.push(sql);
  }

  /** With one more that is for this place alone. */
  where(more?: string): string {
    const parts = more === undefined ? this.#parts : [more, ...this.#parts];
    return parts.length === 0 ? "" : `WHERE ${parts.join(" AND ")}`;
  }
}

const IS_ONE_OF = "IN (SELECT value FROM json_each(?))";

export function select({ ids, queues, task }: Selection): Conditions {
  const only = new Conditions();
  if (ids) only.add(`id ${IS_ONE_OF}`, JSON.stringify(ids));
  if (queues) only.add(`queue ${IS_ONE_OF}`, JSON.stringify(queues));
  if (task !== undefined) only.add("task = ?", task);
  return only;
}
