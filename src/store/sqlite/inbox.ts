/** The part of a SQLite store that takes new jobs, without the rest: `lease enqueue` has no time to load more. */

import type { NewJob } from "../../core/job.ts";
import type { Inbox } from "../store.ts";
import { connect, type OpenSqliteOptions } from "./connection.ts";
import { enqueue } from "./enqueue.ts";
import { ENQUEUE_SQL } from "./enqueue_sql.ts";
import { Statements } from "./prepared.ts";
import { RANK } from "./writer.ts";

export async function openSqliteInbox(file: string, options: OpenSqliteOptions): Promise<Inbox> {
  const connection = await connect(file, options);
  const statements = new Statements(connection.database, ENQUEUE_SQL);
  return {
    enqueue: (jobs: readonly NewJob[]) =>
      connection.writer.write(RANK.normal, () => enqueue(statements, jobs, options.clock.wall_ms())),
    close: () => connection.close({ exiting: true }),
  };
}
