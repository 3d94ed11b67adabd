/** Paused queues: what runs goes on, and nobody acquires from them. */

import type { Connection } from "./session/session.ts";

/** How whoever looks for the next job skips them. */
export const isPaused = (queue: string) =>
  `(SELECT paused_at_ms IS NOT NULL FROM lease.queues WHERE queues.name = ${queue}) IS TRUE`;

const SET_PAUSED = `INSERT INTO lease.queues (name, paused_at_ms)
  SELECT name, CASE WHEN $2::boolean THEN lease.now_ms() END FROM unnest($1::text[]) AS t (name) ORDER BY name
  ON CONFLICT (name) DO UPDATE SET paused_at_ms = CASE WHEN excluded.paused_at_ms IS NULL THEN NULL
    ELSE coalesce(queues.paused_at_ms, excluded.paused_at_ms) END`;
const PAUSED = `SELECT name FROM lease.queues WHERE paused_at_ms IS NOT NULL ORDER BY name COLLATE "C"`;

export async function setPaused(db: Connection, queues: readonly string[], paused: boolean): Promise<void> {
  if (queues.length > 0) await db.query(SET_PAUSED, [[...new Set(queues)], paused]);
}

export async function pausedQueues(db: Connection): Promise<string[]> {
  return (await db.query(PAUSED)).map(({ name }) => name as string);
}
