/** The rows of a SQLite store, for `lease copy`. */

import { KINDS, SHAPES, refusedRow, type Kind, type Transfer, type TransferCell } from "../copy/transfer.ts";
import type { Database } from "./open.ts";
import { explain, isStoreFailure } from "./failure.ts";
import { SQL } from "./statements.ts";
import { RANK, type Writer } from "./writer.ts";

const MARK = "copy";

const marks = (names: readonly string[]) => names.map((_, index) => `?${index + 1}`).join(", ");

function selectSql(kind: Kind, behind: boolean): string {
  const { names, key } = SHAPES[kind];
  const keys = names.slice(0, key);
  const where = behind ? `WHERE (${keys.join(", ")}) > (${marks(keys)})` : "";
  const limit = behind ? key + 1 : 1;
  return `SELECT ${names.join(", ")} FROM ${kind} ${where} ORDER BY ${keys.join(", ")} LIMIT ?${limit}`;
}

export function sqliteTransfer(db: Database, writer: Writer, location: string): Transfer {
  const inWrite = (work: () => void) => writer.write(RANK.normal, work);
  const inRead = async <T>(work: () => T): Promise<T> => {
    try {
      return work();
    } catch (error) {
      throw explain(error, location);
    }
  };
  return {
    read: (kind, behind, limit) =>
      inRead(() => {
        const { names, key } = SHAPES[kind];
        const rows = db.sql(selectSql(kind, behind !== null)).all(...(behind?.slice(0, key) ?? []), limit);
        return rows.map((row) => names.map((name) => row[name] as TransferCell));
      }),
    write: (kind, rows) =>
      inWrite(() => {
        const { names } = SHAPES[kind];
        const insert = db.sql(`INSERT INTO ${kind} (${names.join(", ")}) VALUES (${marks(names)})`);
        for (const row of rows) {
          try {
            insert.run(...row);
          } catch (error) {
            throw isStoreFailure(error) ? error : refusedRow(kind, row, location, error);
          }
        }
      }),
    clear: () => inWrite(() => KINDS.toReversed().forEach((kind) => db.sql(`DELETE FROM ${kind}`).run())),
    nextIds: () =>
      inRead(() => {
        const rows = db.sql("SELECT name, seq FROM sqlite_sequence").all();
        const next = (name: string) => ((rows.find((row) => row["name"] === name)?.["seq"] ?? 0) as number) + 1;
        return { jobs: next("jobs"), checkpoints: next("checkpoints") };
      }),
    finish: (next) =>
      inWrite(() => {
        for (const [name, id] of Object.entries(next)) {
          const set = db.sql("UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1");
          if (set.run(name, id - 1).changes > 0) continue;
          db.sql("INSERT INTO sqlite_sequence VALUES (?1, ?2)").run(name, id - 1);
        }
      }),
    mark: () => inRead(() => (db.sql(SQL.getMeta).get(MARK)?.["value"] ?? null) as string | null),
    setMark: (from) =>
      inWrite(() => {
        if (from === null) db.sql("DELETE FROM meta WHERE name = ?1").run(MARK);
        else db.sql(SQL.setMeta).run(MARK, from);
      }),
  };
}
