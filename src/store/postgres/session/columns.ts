/**
 * Many records as one parameter per column: lists that a statement unnests side by side. Most batches say the same in
 * most columns, and what is the same is sent once, with an empty list; the first column is always sent whole.
 */

import { booleans, numbers, texts } from "./arrays.ts";
import type { Param } from "./link.ts";

interface Column<T> {
  type: string;
  value: (record: T) => Param;
  list: (values: Param[]) => string;
}

type Lister = (values: Param[]) => string;

export function text<T>(value: (record: T) => string | null): Column<T> {
  return { type: "text", value, list: texts as Lister };
}

export function number<T>(value: (record: T) => number | null, type = "bigint"): Column<T> {
  return { type, value, list: numbers as Lister };
}

export function boolean<T>(value: (record: T) => boolean): Column<T> {
  return { type: "boolean", value, list: booleans as unknown as Lister };
}

export class Columns<T> {
  /** A subquery with a row per record, and `n` for its place among them; its parameters are the first. */
  readonly sql: string;
  /** How many parameters it takes. */
  readonly size: number;
  readonly #columns: readonly Column<T>[];

  constructor(columns: Readonly<Record<string, Column<T>>>) {
    this.#columns = Object.values(columns);
    const names = Object.keys(columns);
    const count = names.length;
    this.size = 2 * count - 1;
    const lists = this.#columns.map(({ type }, index) => `$${index + 1}::${type}[]`);
    const values = this.#columns.map(({ type }, index) =>
      index === 0 ? `${names[0]}` : `coalesce(${names[index]}, $${count + index}::${type}) AS ${names[index]}`,
    );
    this.sql = `(SELECT n, ${values.join(", ")} FROM unnest(${lists.join(", ")})
      WITH ORDINALITY AS list (${names.join(", ")}, n))`;
  }

  params(records: readonly T[]): Param[] {
    const lists: string[] = [];
    const common: Param[] = [];
    for (const [index, { value, list }] of this.#columns.entries()) {
      const values = records.map(value);
      const [first = null] = values;
      const same = index > 0 && values.every((other) => other === first);
      lists.push(same ? "{}" : list(values));
      if (index > 0) common.push(same ? first : null);
    }
    return [...lists, ...common];
  }
}
