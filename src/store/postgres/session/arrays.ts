/**
 * Lists as PostgreSQL reads them: `{1,NULL,3}`. A statement takes one list per column and unnests them side by side, so
 * that any number of rows is one round trip and one plan.
 */

import type { Param } from "./link.ts";

type Values<T> = readonly (T | null)[];

export function numbers(values: Values<number>): string {
  return `{${values.map((value) => value ?? "NULL").join(",")}}`;
}

export function booleans(values: readonly boolean[]): string {
  return `{${values.map((value) => (value ? "t" : "f")).join(",")}}`;
}

export function texts(values: Values<string>): string {
  return `{${values.map((value) => (value === null ? "NULL" : quoted(value))).join(",")}}`;
}

export function bytes(values: Values<Uint8Array>): string {
  return `{${values.map((value) => (value === null ? "NULL" : `"\\\\x${hex(value)}"`)).join(",")}}`;
}

const SPECIAL = /["\\]/;
const EVERY_SPECIAL = /["\\]/g;

function quoted(value: string): string {
  return SPECIAL.test(value) ? `"${value.replace(EVERY_SPECIAL, "\\$&")}"` : `"${value}"`;
}

function hex(data: Uint8Array): string {
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("hex");
}

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

/**
 * Many records as one parameter per column. Most batches say the same in most columns, and what is the same is sent once,
 * with an empty list; the first column is always sent whole.
 */
export class Columns<T> {
  /** A subquery with a row per record, and its number `n`; its parameters are the first. */
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
