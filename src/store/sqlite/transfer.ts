/** The rows of a SQLite store, for `lease copy`. */

import type { SqlRow, SqlStatement } from "../../platform/platform.ts";
import type { Kind, NextIds, Transfer, TransferCell, TransferRow } from "../copy/transfer.ts";
import { KINDS, SHAPES, refusedRow } from "../copy/transfer.ts";
import type { Database } from "./connection.ts";
import { isStoreFailure } from "./failure.ts";
import { SQL } from "./statements.ts";
import { RANK, type Writer } from "./writer.ts";

const MARK = "copy";

function selectSql(kind: Kind, behind: boolean): string {
  const { columns, key } = SHAPES[kind];
  const names = Object.keys(columns);
  const keys = names.slice(0, key);
  const params = keys.map((_, index) => `?${index + 1}`);
  const where = behind ? `WHERE (${keys.join(", ")}) > (${params.join(", ")})` : "";
  const limit = behind ? key + 1 : 1;
  return `SELECT ${names.join(", ")} FROM ${kind} ${where} ORDER BY ${keys.join(", ")} LIMIT ?${limit}`;
}

function insertSql(kind: Kind): string {
  const names = Object.keys(SHAPES[kind].columns);
  const params = names.map((_, index) => `?${index + 1}`);
  return `INSERT INTO ${kind} (${names.join(", ")}) VALUES (${params.join(", ")})`;
}

export class SqliteTransfer implements Transfer {
  readonly #db: Database;
  readonly #writer: Writer;
  readonly #location: string;

  constructor(db: Database, writer: Writer, location: string) {
    this.#location = location;
    this.#db = db;
    this.#writer = writer;
  }

  async read(kind: Kind, behind: TransferRow | null, limit: number): Promise<TransferRow[]> {
    const names = Object.keys(SHAPES[kind].columns);
    const key = behind?.slice(0, SHAPES[kind].key) ?? [];
    const rows = this.#db.sql(selectSql(kind, behind !== null)).all(...key, limit);
    return rows.map((row: SqlRow) => names.map((name) => row[name] as TransferCell));
  }

  async write(kind: Kind, rows: readonly TransferRow[]): Promise<void> {
    await this.#writer.write(RANK.normal, () => {
      const insert = this.#db.sql(insertSql(kind));
      for (const row of rows) this.#insert(insert, kind, row);
    });
  }

  #insert(insert: SqlStatement, kind: Kind, row: TransferRow): void {
    try {
      insert.run(...row);
    } catch (error) {
      throw isStoreFailure(error) ? error : refusedRow(kind, row, this.#location, error);
    }
  }

  async clear(): Promise<void> {
    await this.#writer.write(RANK.normal, () => {
      for (const kind of KINDS.toReversed()) this.#db.sql(`DELETE FROM ${kind}`).run();
    });
  }

  async nextIds(): Promise<NextIds> {
    const rows = this.#db.sql("SELECT name, seq FROM sqlite_sequence").all();
    const next = (name: string) => ((rows.find((row) => row["name"] === name)?.["seq"] ?? 0) as number) + 1;
    return { jobs: next("jobs"), checkpoints: next("checkpoints") };
  }

  async finish(next: NextIds): Promise<void> {
    await this.#writer.write(RANK.normal, () => {
      for (const [name, id] of Object.entries(next)) {
        const { changes } = this.#db
          .sql("UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1")
          .run(name, id - 1);
        if (changes === 0) this.#db.sql("INSERT INTO sqlite_sequence VALUES (?1, ?2)").run(name, id - 1);
      }
    });
  }

  async mark(): Promise<string | null> {
    return (this.#db.sql(SQL.getMeta).get(MARK)?.["value"] ?? null) as string | null;
  }

  async setMark(from: string | null): Promise<void> {
    await this.#writer.write(RANK.normal, () => {
      if (from === null) this.#db.sql("DELETE FROM meta WHERE name = ?1").run(MARK);
      else this.#db.sql(SQL.setMeta).run(MARK, from);
    });
  }
}
