/** The platform on Bun: `bun:sqlite`. */

import { Database } from "bun:sqlite";
import type { Platform, SqlRow, SqlValue } from "./platform.ts";

export const platform: Platform = {
  runtime: `bun ${Bun.version}`,

  openSqlite(path) {
    const database = new Database(path, { readwrite: true, create: true });
    return {
      exec: (sql) => void database.run(sql),
      prepare(sql) {
        const statement = database.prepare<SqlRow, SqlValue[]>(sql);
        return {
          run(...params) {
            const { changes, lastInsertRowid } = statement.run(...params);
            return { changes, last_id: Number(lastInsertRowid) };
          },
          get: (...params) => statement.get(...params),
          all: (...params) => statement.all(...params),
        };
      },
      close: () => database.close(),
    };
  },
};
