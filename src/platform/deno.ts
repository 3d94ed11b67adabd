/** The platform on Deno: `node:sqlite`. */

import { DatabaseSync } from "node:sqlite";
import process from "node:process";
import type { Platform, SqlRow } from "./platform.ts";

export const platform: Platform = {
  runtime: `deno ${process.versions["deno"] ?? ""}`,

  openSqlite(path) {
    const database = new DatabaseSync(path);
    return {
      exec: (sql) => database.exec(sql),
      prepare(sql) {
        const statement = database.prepare(sql);
        return {
          run(...params) {
            const { changes, lastInsertRowid } = statement.run(...params);
            return { changes: Number(changes), last_id: Number(lastInsertRowid) };
          },
          get: (...params) => (statement.get(...params) as SqlRow | undefined) ?? null,
          all: (...params) => statement.all(...params) as SqlRow[],
        };
      },
      close: () => database.close(),
    };
  },
};
