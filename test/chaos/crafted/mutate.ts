/** Stores as somebody makes them who means harm, or whose disk does: one change each, chosen by chance that can be had again. */

import { Database } from "bun:sqlite";
import { readFileSync, truncateSync, writeFileSync } from "node:fs";
import { deflateRawSync } from "node:zlib";
import type { Chance } from "../../sim/chance.ts";

/** A process that must outlive everything, as a row can name it. */
export interface Bystander {
  pid: number;
  pid_started: number;
  boot_id: string;
}

export interface Mutation {
  kind: keyof typeof KINDS;
  what: string;
  /** Nothing of the store may run: it is refused as a whole. */
  refused: boolean;
}

const KINDS = { row: 45, schema: 15, chunk: 15, bytes: 20, beside: 5 } as const;

export function mutate(path: string, chance: Chance, bystander: Bystander): Mutation {
  const kind = chance.weighted(KINDS);
  const change = { row, schema, chunk, bytes, beside }[kind];
  const what = change(path, chance, bystander);
  return { kind, what, refused: kind === "schema" };
}

function withDatabase<T>(path: string, work: (database: Database) => T): T {
  const database = new Database(path, { safeIntegers: true });
  try {
    database.run("PRAGMA ignore_check_constraints = ON");
    database.run("PRAGMA foreign_keys = OFF");
    return work(database);
  } finally {
    database.run("PRAGMA wal_checkpoint(TRUNCATE)");
    database.close();
  }
}

const NUMBERS = [
  -1n,
  0n,
  1n,
  2n ** 31n - 1n,
  2n ** 31n,
  2n ** 53n,
  2n ** 63n - 1n,
  -(2n ** 63n),
  253402300800000n,
  10n ** 15n,
];
const WORDS = [
  "",
  "null",
  "[]",
  "{}",
  "[1]",
  '["canary"',
  '{"a":',
  "[".repeat(50_000),
  '{"__proto__":{"x":1}}',
  '["a\\u0000b"]',
  "\u0000",
  "a\u0000b",
  "\u001b[2J\u001b]0;owned\u0007",
  "\r\n\u0085\u009b31m",
  "../../../../tmp/x",
  "$(touch /tmp/x)`id`",
  "x".repeat(2_000_000),
  "\ud800",
  "NaN",
  "9999999999999999999999",
  "left.a.b.c",
  "running",
  "pending",
];

/** One cell of one row, as the engine lets it be. */
function row(path: string, chance: Chance, bystander: Bystander): string {
  return withDatabase(path, (database) => {
    const tables = database
      .query("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
      .values()
      .map(([name]) => String(name));
    for (;;) {
      const table = chance.weighted(
        Object.fromEntries(tables.map((name) => [name, name === "jobs" ? 8 : 2])) as Record<string, number>,
      );
      const columns = database.query(`SELECT name, type FROM pragma_table_info('${table}')`).values() as [
        string,
        string,
      ][];
      const [column, type] = chance.pick(columns);
      if (column === "pid" || column === "pid_started" || column === "boot_id")
        return pointAt(database, table, bystander);
      const value = type === "INTEGER" ? chance.pick(NUMBERS) : type === "REAL" ? 1e308 : chance.pick(WORDS);
      const cell = type === "BLOB" ? new TextEncoder().encode(String(value)) : value;
      const one = chance.of(0.5) ? "" : ` WHERE ${column} IS NOT NULL`;
      try {
        const { changes } = database.run(`UPDATE OR IGNORE ${table} SET ${column} = ?1${one}`, [cell as never]);
        if (changes > 0) return `${table}.${column} = ${String(value).slice(0, 40)}`;
      } catch {
        // A unique index, or a type: something else then.
      }
    }
  });
}

/** A holder or a job that seems to be somebody else's process, or everybody's. */
function pointAt(database: Database, table: string, { pid, pid_started, boot_id }: Bystander): string {
  for (const [column, value] of Object.entries({ pid, pid_started, boot_id })) {
    database.run(`UPDATE ${table} SET ${column} = ?1`, [value]);
  }
  database.run("UPDATE jobs SET expires_at_ms = 1 WHERE state = 'running'");
  return `${table} points at ${pid}`;
}

const LOOP = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
const SCHEMAS = [
  `CREATE TRIGGER x AFTER INSERT ON jobs BEGIN UPDATE jobs SET argv = '["canary"]', state = 'pending'; END`,
  `CREATE TRIGGER x BEFORE UPDATE ON meta BEGIN ${LOOP}; END`,
  `CREATE TRIGGER x AFTER UPDATE ON jobs BEGIN ${LOOP}; END`,
  `CREATE TRIGGER x AFTER INSERT ON attempts BEGIN DELETE FROM jobs; END`,
  `CREATE VIEW x AS ${LOOP}`,
  `DROP TABLE learned; CREATE VIEW learned AS ${LOOP}`,
  `DROP TABLE queues; CREATE VIEW queues AS SELECT 'default' AS name, NULL AS paused_at_ms`,
  "CREATE TABLE x (y)",
  "CREATE INDEX x ON jobs (abs(random()))",
  "CREATE INDEX x ON jobs (argv)",
  "ALTER TABLE jobs ADD COLUMN x TEXT AS (upper(argv))",
  "ALTER TABLE jobs ADD COLUMN x TEXT DEFAULT 'y'",
  "ALTER TABLE jobs RENAME COLUMN argv TO x",
  "ALTER TABLE logs RENAME TO x",
  "DROP INDEX jobs_due",
  "DROP TABLE logs",
  "DROP TABLE meta",
  "CREATE VIRTUAL TABLE x USING fts5 (y)",
];

function schema(path: string, chance: Chance): string {
  return withDatabase(path, (database) => {
    for (;;) {
      const sql = chance.pick(SCHEMAS);
      try {
        database.exec(sql);
        return sql.slice(0, 60);
      } catch {
        // This engine does not know it, or something depends on it.
      }
    }
  });
}

const BOMB = deflateRawSync(new Uint8Array(64 * 1024 * 1024));

/** What a job printed, as nobody prints. */
function chunk(path: string, chance: Chance): string {
  const noise = Uint8Array.from({ length: chance.between(0, 400) }, () => chance.between(0, 255));
  const [name, data] = chance.pick([
    ["noise", noise],
    ["plain noise", new Uint8Array([0, ...noise])],
    ["packed noise", new Uint8Array([1, ...noise])],
    ["well packed noise", new Uint8Array([1, ...deflateRawSync(noise)])],
    ["a bomb", new Uint8Array([1, ...BOMB])],
    ["a long entry", new Uint8Array([0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 65])],
    ["no time", new Uint8Array([0, 1, 255, 248, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 65])],
  ] as [string, Uint8Array][]);
  const start = chance.pick([0n, -1n, 5n, 2n ** 62n]);
  const size = chance.pick([0n, -5n, 1n, 2n ** 62n]);
  return withDatabase(path, (database) => {
    database.run("UPDATE logs SET data = ?1", [data]);
    if (chance.of(0.5)) database.run("UPDATE OR IGNORE logs SET start = ?1, bytes = ?2", [start, size]);
    return name;
  });
}

/** The file itself. */
function bytes(path: string, chance: Chance): string {
  const content = readFileSync(path);
  const page = 4_096;
  const pages = Math.floor(content.length / page);
  const how = chance.pick(["flip", "flip", "flip", "header", "zero", "copy", "cut", "grow"] as const);
  const at = chance.between(0, pages - 1) * page;
  if (how === "flip") {
    for (let n = chance.between(1, 64); n > 0; n--)
      content[chance.between(0, content.length - 1)] = chance.between(0, 255);
  } else if (how === "header") content[chance.between(0, 107)] = chance.between(0, 255);
  else if (how === "zero") content.fill(0, at, at + page);
  else if (how === "copy") content.copy(content, at, chance.between(0, pages - 1) * page, content.length);
  writeFileSync(path, content);
  if (how === "cut") truncateSync(path, chance.between(1, content.length));
  if (how === "grow") truncateSync(path, content.length + chance.between(1, 3 * page));
  return how;
}

/** What lies beside it, of our own. */
function beside(path: string, chance: Chance): string {
  const suffix = chance.pick(["-wal", "-shm", "-journal"]);
  const noise = Uint8Array.from({ length: chance.between(1, 9_000) }, () => chance.between(0, 255));
  if (suffix === "-journal") noise.set([0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7].slice(0, noise.length));
  if (suffix === "-wal") noise.set([0x37, 0x7f, 0x06, 0x82].slice(0, noise.length));
  writeFileSync(path + suffix, noise, { mode: 0o600 });
  return suffix;
}
