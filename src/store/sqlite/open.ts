/** The whole SQLite store at a path. */

import type { Store } from "../store.ts";
import { connect, type OpenSqliteOptions } from "./connection.ts";
import { SqliteStore } from "./store.ts";

export async function openSqlite(file: string, options: OpenSqliteOptions): Promise<Store> {
  return new SqliteStore(await connect(file, options), options.clock);
}
