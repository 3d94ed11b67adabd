/**
 * Lists as PostgreSQL reads them: `{1,NULL,3}`. A statement takes one list per column and unnests them side by side, so
 * that any number of rows is one round trip and one plan.
 */

import type { SqlRow } from "../../../platform/platform.ts";
import type { Connection, Param, Scalar } from "./session.ts";

const SPECIAL = /["\\]/;
const EVERY_SPECIAL = /["\\]/g;

function element(value: Scalar | undefined): string | number {
  if (value === null || value === undefined) return "NULL";
  if (typeof value === "number") return value;
  if (typeof value === "boolean") return value ? "t" : "f";
  if (typeof value === "string")
    return SPECIAL.test(value) ? `"${value.replace(EVERY_SPECIAL, "\\$&")}"` : `"${value}"`;
  return `"\\\\x${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("hex")}"`;
}

export function toList(values: readonly (Scalar | undefined)[]): string {
  return `{${values.map(element).join(",")}}`;
}

/** Of numbers; null: an empty one. */
export function fromList(text: string | null): number[] {
  return text === null ? [] : text.slice(1, -1).split(",").map(Number);
}

export const byId = (rows: readonly SqlRow[]): ReadonlyMap<number, SqlRow> =>
  new Map(rows.map((row) => [row["id"] as number, row]));
export const idsOf = (rows: readonly { id?: unknown }[]): number[] => rows.map(({ id }) => id as number);

type ListType = "bigint" | "integer" | "double precision" | "text" | "boolean" | "bytea";
type ListTypes = Readonly<Record<string, ListType>>;

/** A statement for any number of records. */
export interface RowsStatement<C extends ListTypes> {
  /** `more` are the parameters behind the lists. */
  run(db: Connection, rows: readonly { [name in keyof C]?: Scalar }[], ...more: Param[]): Promise<SqlRow[]>;
}

/** In its text, the types of the columns stand for the rows that are given, with their number `n`. */
export function perRow<const C extends ListTypes>(
  text: TemplateStringsArray,
  ...parts: (string | C)[]
): RowsStatement<C> {
  const columns = Object.entries(parts.find((part) => typeof part !== "string") ?? {});
  const lists = columns.map(([, type], index) => `$${index + 1}::${type}[]`);
  const names = columns.map(([name]) => name);
  const given = `unnest(${lists.join(", ")}) WITH ORDINALITY AS given (${names.join(", ")}, n)`;
  const sql = String.raw({ raw: text }, ...parts.map((part) => (typeof part === "string" ? part : given)));
  return {
    run(db, rows, ...more) {
      const values = columns.map(([name]) => rows.map((row) => row[name]));
      return db.query(sql, [...values, ...more]);
    },
  };
}

type Column<T> = readonly [type: ListType, value: (record: T) => Scalar];

/**
 * Many records as one parameter per column. Most batches say the same in most columns, and what is the same is sent once,
 * with an empty list; the first column is always sent whole.
 */
export class Columns<T> {
  /** A subquery with a row per record, and its number `n`; its parameters are the first. */
  readonly sql: string;
  /** How many parameters it takes. */
  readonly size: number;
  readonly #names: readonly string[];
  readonly #columns: readonly Column<T>[];

  constructor(columns: Readonly<Record<string, Column<T>>>) {
    this.#columns = Object.values(columns);
    const names = Object.keys(columns);
    this.#names = names;
    const count = names.length;
    this.size = 2 * count - 1;
    const lists = this.#columns.map(([type], index) => `$${index + 1}::${type}[]`);
    const values = this.#columns.map(([type], index) =>
      index === 0 ? `${names[0]}` : `coalesce(${names[index]}, $${count + index}::${type}) AS ${names[index]}`,
    );
    this.sql = `(SELECT n, ${values.join(", ")} FROM unnest(${lists.join(", ")})
      WITH ORDINALITY AS list (${names.join(", ")}, n))`;
  }

  /** By its name, what a column says of the record at this place, which counts from 1. */
  at(place: string): (column: string) => string {
    return (column) => {
      const index = this.#names.indexOf(column);
      const [type] = this.#columns[index] as Column<T>;
      return `coalesce(($${index + 1}::${type}[])[${place}], $${this.#names.length + index}::${type})`;
    };
  }

  params(records: readonly T[]): Param[] {
    const lists: Param[] = [];
    const common: Param[] = [];
    for (const [index, [, value]] of this.#columns.entries()) {
      const [record] = records;
      const first = record === undefined ? null : value(record);
      const same = index > 0 && records.every((other) => value(other) === first);
      lists.push(same ? [] : records.map(value));
      if (index > 0) common.push(same ? first : null);
    }
    return [...lists, ...common];
  }
}
