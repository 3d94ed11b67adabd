/** Paused queues: what runs goes on, and nobody acquires from them. */

import type { Database } from "./open.ts";

/** How whoever looks for the next job skips them. */
export const notPaused = (queue: string) =>
  `NOT EXISTS (SELECT 1 FROM queues WHERE name = ${queue} AND paused_at_ms IS NOT NULL)`;

const SET_PAUSED = `INSERT INTO queues (name, paused_at_ms) VALUES (?1, ?2)
  ON CONFLICT (name) DO UPDATE SET paused_at_ms = iif(?2 IS NULL, NULL, coalesce(paused_at_ms, ?2))`;
const PAUSED = "SELECT name FROM queues WHERE paused_at_ms IS NOT NULL ORDER BY name";

export function setPaused(db: Database, queues: readonly string[], paused: boolean): void {
  for (const queue of queues) db.sql(SET_PAUSED).run(queue, paused ? db.now_ms() : null);
}

export function pausedQueues(db: Database): string[] {
  const rows = db.sql(PAUSED).all();
  return rows.map(({ name }) => name as string);
}
