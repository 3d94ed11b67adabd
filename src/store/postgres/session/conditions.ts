/** WHERE clauses that are put together at run time, each value bound and never written into the text. */

import type { Selection } from "../../queries.ts";
import { numbers, texts } from "./arrays.ts";
import type { Param } from "./link.ts";

/** Conditions that are put together at run time; `?` stands for the value. */
export class Conditions {
  readonly params: Param[] = [];
  readonly #parts: string[] = [];

  add(sql: string, value: Param): void {
    this.params.push(value);
    this.#parts.push(sql.replace("?", `$${this.params.length}`));
  }

  /** One without a value. */
  say(sql: string): void {
    this.#parts.push(sql);
  }

  where(): string {
    return this.#parts.length === 0 ? "" : `WHERE ${this.#parts.join(" AND ")}`;
  }
}

export function select({ ids, queues, task }: Selection): Conditions {
  const only = new Conditions();
  if (ids) only.add("id = ANY (?::bigint[])", numbers(ids));
  if (queues) only.add("queue = ANY (?::text[])", texts(queues));
  if (task !== undefined) only.add("task = ?", task);
  return only;
}
