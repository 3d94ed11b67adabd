/** The SQLite store at a path: the whole of it, or the part that takes new jobs, for which `lease enqueue` loads no more. */

import type { NewJob } from "../../core/job.ts";
import type { Inbox, Store } from "../store.ts";
import type { OpenSqliteOptions } from "./connection.ts";
import { Statements, connect } from "./connection.ts";
import { enqueue } from "./enqueue.ts";
import { ENQUEUE_SQL } from "./insert.ts";
import { RANK } from "./writer.ts";

export async function openSqlite(file: string, options: OpenSqliteOptions): Promise<Store> {
  const { SqliteStore } = await import("./store.ts");
  return new SqliteStore(await connect(file, options), options.clock);
}

export async function openSqliteInbox(file: string, options: OpenSqliteOptions): Promise<Inbox> {
  const connection = await connect(file, options);
  const statements = new Statements(connection.database, ENQUEUE_SQL);
  return {
    enqueue: (jobs: readonly NewJob[]) =>
      connection.writer.write(RANK.normal, () => enqueue(statements, jobs, options.clock.wall_ms())),
    close: () => connection.close({ exiting: true }),
  };
}
