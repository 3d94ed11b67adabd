/**
 * Exactly our schema, or none: a trigger, a view or a column of somebody else's could rewrite what is enqueued, or keep a
 * query busy for ever. What is ours is what the migrations make, and nothing else: they are run in memory and compared
 * with what is found. The build has done that before for the current version (see scripts/build.ts), so that a store is
 * most often known to be right by one comparison.
 */

import { platform } from "#platform";
import { LeaseError } from "../../core/errors.ts";
import type { SqlDatabase } from "../../platform/platform.ts";
import { bounded } from "../shared/columns.ts";
import { SCHEMA_TEXT } from "./quick_enqueue.ts";
import { MIGRATIONS } from "./schema.ts";

const TEXT = `SELECT ${SCHEMA_TEXT} AS text`;

const made = new Map<number, string>();

/** What the first `version` migrations make, as SCHEMA_TEXT tells it. */
export function schemaOf(version: number): string {
  const known = made.get(version);
  if (known !== undefined) return known;
  const database = platform.openSqlite(":memory:");
  try {
    for (const step of MIGRATIONS.slice(0, version)) database.exec(step);
    const text = textOf(database);
    made.set(version, text);
    return text;
  } finally {
    database.close();
  }
}

function textOf(database: SqlDatabase): string {
  return String(database.prepare(TEXT).get()?.["text"] ?? "");
}

const MOST_NAMED = 5;

/** Triggers as they were first released, before figures from elsewhere were bounded: stores have kept these. */
const FIRST_WORDING = [bounded("count"), "count"] as const;

/** `text` is what was found in the store. */
export function refuseOtherSchema(path: string, version: number, text: string): void {
  if (text === schemaOf(version)) return;
  const [ours, found] = [parse(schemaOf(version)), parse(text)];
  const first = parse(schemaOf(version).replaceAll(...FIRST_WORDING));
  const isOurs = (name: string, sql: string) => ours.get(name) === sql || first.get(name) === sql;
  const foreign = [...found].filter(([name, sql]) => !isOurs(name, sql) && !isStatistics(name, sql));
  const missing = [...ours.keys()].filter((name) => !found.has(name));
  if (foreign.length + missing.length === 0) return;
  const named = [
    ...foreign.map(([name]) => (ours.has(name) ? `a changed ${name}` : name)),
    ...missing.map((name) => `no ${name}`),
  ];
  const some = named.slice(0, MOST_NAMED).join(", ") + (named.length > MOST_NAMED ? " …" : "");
  const advice = "it could change what gets executed: use another store, or put this one right with `sqlite3`";
  throw new LeaseError("store_schema", `store ${path} is not as lease makes it (it has ${some}): ${advice}`);
}

/** By kind and name what it is, in whatever way it was written. */
function parse(text: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const row of text === "" ? [] : text.split("\u0001")) {
    const [kind = "", name = "", table = "", sql = ""] = row.split("\u0002");
    const on = kind === "table" || table === name ? "" : ` on ${table}`;
    found.set(`${kind} ${name}${on}`, unspaced(sql));
  }
  return found;
}

/** Blanks and comments say nothing, but for blanks between words, and those in a text. */
function unspaced(sql: string): string {
  const parts = sql.match(/'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[^]*?\*\/|\w+|\s+|[^]/g) ?? [];
  return parts.filter((part) => !/^(?:\s|--|\/\*)/.test(part)).join(" ");
}

/** Made by ANALYZE. */
function isStatistics(name: string, sql: string): boolean {
  if (name === "table sqlite_stat1") return sql === "CREATE TABLE sqlite_stat1 ( tbl , idx , stat )";
  return name === "table sqlite_stat4" && sql === "CREATE TABLE sqlite_stat4 ( tbl , idx , neq , nlt , ndlt , sample )";
}
