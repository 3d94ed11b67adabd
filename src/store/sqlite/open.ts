/**
 * The SQLite store at a path. `lease enqueue` has no time to load more than it needs, so that the part that takes new jobs
 * can be had alone.
 */

import type { Inbox, Store } from "../store.ts";
import { Database, connect, type OpenSqliteOptions } from "./connection.ts";
import { enqueue } from "./enqueue.ts";
import { RANK } from "./writer.ts";

export async function openSqlite(file: string, options: OpenSqliteOptions): Promise<Store> {
  const { sqliteStore } = await import("./store.ts");
  const connection = await connect(file, options);
  return sqliteStore(connection, options.clock);
}

/** Closes as if the process ended right after. */
export async function openSqliteInbox(file: string, options: OpenSqliteOptions): Promise<Inbox> {
  const connection = await connect(file, options);
  const db = new Database(connection.database, options.clock);
  return {
    enqueue: (jobs) => connection.writer.write(RANK.normal, () => enqueue(db, jobs)),
    close: () => connection.close({ exiting: true }),
  };
}
