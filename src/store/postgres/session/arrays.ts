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
 * with an empty list; the first column is always sent whole. Of columns `alike` nothing else can be said.
 */
export class Columns<T> {
  /** A subquery with a row per record, and its number `n`; its parameters are the first. */
  readonly sql: string;
  /** How many parameters it takes. */
  readonly size: number;
  readonly #names: readonly string[];
  readonly #columns: readonly Column<T>[];
  /** The columns that have a list. */
  readonly #listed: readonly string[];

  constructor(columns: Readonly<Record<string, Column<T>>>, alike: readonly string[] = []) {
    this.#columns = Object.values(columns);
    this.#names = Object.keys(columns);
    this.#listed = this.#names.filter((name) => !alike.includes(name));
    this.size = this.#listed.length + this.#names.length - 1;
    const lists = this.#listed.map((name, index) => `$${index + 1}::${this.#column(name)[0]}[]`);
    const [first, ...others] = this.#names;
    const values = others.map((name) => `${this.#either(name, name)} AS ${name}`);
    this.sql = `(SELECT n, ${[first, ...values].join(", ")} FROM unnest(${lists.join(", ")})
      WITH ORDINALITY AS list (${this.#listed.join(", ")}, n))`;
  }

  /** By its name, what a column says of the record at this place, which counts from 1. */
  at(place: string): (column: string) => string {
    return (name) => {
      const list = `$${this.#listed.indexOf(name) + 1}::${this.#column(name)[0]}[]`;
      return this.#either(name, `(${list})[${place}]`);
    };
  }

  /** Whether all of them say the same where nothing else can be said. */
  fits(records: readonly T[]): boolean {
    return this.#names.every((name) => this.#listed.includes(name) || this.#common(name, records) !== undefined);
  }

  params(records: readonly T[]): Param[] {
    const common = this.#names.slice(1).map((name) => this.#common(name, records));
    const lists = this.#listed.map((name, index) => {
      if (index > 0 && common[this.#names.indexOf(name) - 1] !== undefined) return [];
      return records.map(this.#column(name)[1]);
    });
    return [...lists, ...common.map((value) => value ?? null)];
  }

  #column(name: string): Column<T> {
    return this.#columns[this.#names.indexOf(name)] as Column<T>;
  }

  /** What is said in the list, where there is one, or else of all. */
  #either(name: string, listed: string): string {
    const said = `$${this.#listed.length + this.#names.indexOf(name)}::${this.#column(name)[0]}`;
    return this.#listed.includes(name) ? `coalesce(${listed}, ${said})` : said;
  }

  /** What all of them say; undefined: not all say the same. */
  #common(name: string, records: readonly T[]): Scalar | undefined {
    const [, value] = this.#column(name);
    const [record] = records;
    const first = record === undefined ? null : value(record);
    return records.every((other) => value(other) === first) ? first : undefined;
  }
}
