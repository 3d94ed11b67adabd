/**
 * A person's word: finished jobs become pending with all their retries, unless a live job has their key, and blocked
 * where they wait for others, as when they were enqueued. What they printed and their attempts stay, and the next
 * attempt goes on from the last progress. What can't be retried is answered with why, and keeps none of the others from it.
 */

import type { StateName } from "../../core/job.ts";
import type { SqlRow } from "../../platform/platform.ts";
import { FINISHED, retryAnswer } from "../shared/verdicts.ts";
import type { RetryAnswer } from "../queries.ts";
import type { Database } from "./open.ts";
import { waitAgain } from "./dependencies.ts";

const STATES = "SELECT id, state, key FROM jobs WHERE id IN (SELECT value FROM json_each(?1))";
const RETRY = `UPDATE jobs SET state = iif(EXISTS (SELECT 1 FROM dependencies WHERE job_id = jobs.id), 'blocked', 'pending'),
  run_at_ms = ?2, failures = 0, finished_at_ms = NULL, cause = NULL, exit_code = NULL, error = NULL, output = NULL,
  reason = NULL
  WHERE id IN (SELECT value FROM json_each(?1)) AND state IN ('completed', 'failed', 'cancelled')`;
/** One by one: another of them may have the same. */
const RETRY_KEYED = `${RETRY} AND NOT EXISTS (SELECT 1 FROM jobs AS other WHERE other.key = jobs.key
  AND other.state IN ('blocked', 'scheduled', 'pending', 'running'))`;
const BLOCKED = "SELECT id FROM jobs WHERE id IN (SELECT value FROM json_each(?1)) AND state = 'blocked'";

export function retry(db: Database, ids: readonly number[]): RetryAnswer[] {
  const now_ms = db.now_ms();
  const before = new Map<number, SqlRow>();
  for (const row of db.sql(STATES).all(JSON.stringify(ids))) before.set(row["id"] as number, row);
  const finished = ids.filter((id) => FINISHED.has(before.get(id)?.["state"]));
  const hasKey = (id: number) => before.get(id)?.["key"] !== null;
  const keyless = finished.filter((id) => !hasKey(id));
  const again = new Set(keyless);
  if (keyless.length > 0) db.unchecked(keyless.length, () => db.sql(RETRY).run(JSON.stringify(keyless), now_ms));
  for (const id of finished.filter(hasKey)) {
    if (db.sql(RETRY_KEYED).run(JSON.stringify([id]), now_ms).changes > 0) again.add(id);
  }
  // Only now: one of them may wait for another that comes behind it in the list.
  const waiting = db.sql(BLOCKED).all(JSON.stringify([...again]));
  const blocked = new Set(waiting.map(({ id }) => id as number).filter((id) => waitAgain(db, id, now_ms)));
  return ids.map((id) => {
    const state = (before.get(id)?.["state"] ?? null) as StateName | null;
    return retryAnswer(id, state, again.has(id) ? (blocked.has(id) ? "blocked" : "pending") : null);
  });
}
