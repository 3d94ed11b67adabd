/** Queues that nobody acquires from. */

import { texts } from "./session/arrays.ts";
import type { Connection } from "./session/link.ts";
import type { Statements } from "./session/sql.ts";

const SET_PAUSED = `INSERT INTO lease.queues (name, paused_at_ms)
  SELECT name, CASE WHEN $2::boolean THEN lease.now_ms() END FROM unnest($1::text[]) AS t (name) ORDER BY name
  ON CONFLICT (name) DO UPDATE SET paused_at_ms = CASE WHEN excluded.paused_at_ms IS NULL THEN NULL
    ELSE coalesce(queues.paused_at_ms, excluded.paused_at_ms) END`;

export async function setPaused(
  statements: Statements,
  connection: Connection,
  queues: readonly string[],
  paused: boolean,
): Promise<void> {
  if (queues.length > 0) await statements.sql(connection, SET_PAUSED, [texts([...new Set(queues)]), paused]);
}

const PAUSED = `SELECT name FROM lease.queues WHERE paused_at_ms IS NOT NULL ORDER BY name COLLATE "C"`;

export async function pausedQueues(statements: Statements, connection: Connection): Promise<string[]> {
  return (await statements.sql(connection, PAUSED)).map(({ name }) => name as string);
}
