/**
 * Columns of rows, and what they must be to be believed: numbers that can be reckoned with, times that can be shown, words
 * that are known, JSON that says what it should.
 */

import * as v from "valibot";
import { once, type Made } from "../../core/once.ts";
import type { SqlRow, SqlValue } from "../../platform/platform.ts";
import { MOST_GRANTS } from "./columns.ts";

export interface RowColumn<T> {
  schema: Made<v.GenericSchema<unknown, T>>;
  test: (value: SqlValue | undefined) => boolean;
  /** What stands for one that can't be read. */
  instead: T;
}

type Columns = Readonly<Record<string, RowColumn<unknown>>>;
export type ColumnValues<C extends Columns> = { [name in keyof C]: C[name] extends RowColumn<infer T> ? T : never };

/** The columns of a kind of row. */
export class RowTable<C extends Columns> {
  /** A row of which nothing can be read. */
  readonly instead: ColumnValues<C>;
  readonly #names: readonly string[];
  readonly #columns: readonly RowColumn<unknown>[];

  constructor(columns: C) {
    this.instead = Object.fromEntries(
      Object.entries(columns).map(([name, { instead }]) => [name, instead]),
    ) as ColumnValues<C>;
    this.#names = Object.keys(columns);
    this.#columns = Object.values(columns);
  }

  /** The row itself where it is right at a glance, as most are; or else what can be read of it, and what is wrong. */
  read(row: SqlRow): { values: ColumnValues<C>; damage: string | null } {
    if (this.isReadable(row)) return { values: row as ColumnValues<C>, damage: null };
    const values: Record<string, unknown> = {};
    let damage: string | null = null;
    for (const [index, { schema, instead }] of this.#columns.entries()) {
      const name = this.#names[index] as string;
      const found = v.safeParse(schema(), row[name]);
      values[name] = found.success ? found.output : instead;
      if (!found.success) damage ??= damageOf(name, found.issues[0]);
    }
    return { values: values as ColumnValues<C>, damage };
  }

  isReadable(row: SqlRow): boolean {
    for (let index = 0; index < this.#names.length; index++) {
      if (!this.#columns[index]?.test(row[this.#names[index] as string])) return false;
    }
    return true;
  }
}

/** Without the value: that may be a secret, and of any length. */
function damageOf(column: string, issue: v.BaseIssue<unknown>): string {
  const inside = v.getDotPath(issue);
  const where = inside === null ? column : `${column}.${inside}`;
  if (issue.type === "parse_json") return `${where} is not JSON`;
  if (issue.type === "picklist") return `${where} is none that is known`;
  return issue.kind === "schema" ? `${where} is not of type ${issue.expected}` : `${where} is out of range`;
}

/** Years of four digits, as every format has them that is written down. What is outside is no time of anything. */
const EARLIEST_MS = Date.parse("0001-01-01T00:00:00Z");
const LATEST_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

export function numberIn(from: number, to: number, instead = 0): RowColumn<number> {
  return {
    schema: once(() => v.pipe(v.number(), v.integer(), v.minValue(from), v.maxValue(to))),
    test: (value) => Number.isInteger(value) && from <= (value as number) && (value as number) <= to,
    instead,
  };
}

export function wordOf<const W extends readonly string[]>(words: W, instead: W[number]): RowColumn<W[number]> {
  const known: ReadonlySet<unknown> = new Set(words);
  return { schema: once(() => v.picklist(words)), test: (value) => known.has(value), instead };
}

export function orNull<T>({ schema, test }: RowColumn<T>): RowColumn<T | null> {
  return { schema: once(() => v.nullable(schema())), test: (value) => value === null || test(value), instead: null };
}

/** Parsed, which no glance does. */
export function parsed<T>(schema: Made<v.GenericSchema<unknown, T>>, instead: T): RowColumn<T> {
  return { schema: once(() => v.pipe(v.string(), v.parseJson(), schema())), test: () => false, instead };
}

export const string: RowColumn<string> = {
  schema: once(() => v.string()),
  test: (value) => typeof value === "string",
  instead: "",
};
export const stringOrNull = orNull(string);
export const int = numberIn(-Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
export const intOrNull = orNull(int);
export const natural = numberIn(0, Number.MAX_SAFE_INTEGER);
export const grants = numberIn(0, MOST_GRANTS - 1);
export const time = numberIn(EARLIEST_MS, LATEST_MS);
export const timeOrNull = orNull(time);
export const finite = once(() => v.pipe(v.number(), v.finite()));

/** A text that a program can be given: as a word, as a variable, as the name of a folder. */
export const given = once(() =>
  v.pipe(
    v.string(),
    v.check((text) => !text.includes("\0")),
  ),
);

/** By their names. */
export const variables = once(() => v.record(v.pipe(given(), v.regex(/^[^=]+$/)), given()));
