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
import { anyChildBetween, waitAgain } from "./dependencies.ts";
import { rangeOf } from "./ranges.ts";

const STATES = "SELECT id, state, key FROM jobs WHERE id IN (SELECT value FROM json_each(?1))";
const AFRESH = `failures = 0, finished_at_ms = NULL, cause = NULL, exit_code = NULL, error = NULL, output = NULL,
  reason = NULL`;
const RETRY = `UPDATE jobs SET state = iif(EXISTS (SELECT 1 FROM dependencies WHERE job_id = jobs.id), 'blocked', 'pending'),
  run_at_ms = ?2, ${AFRESH}
  WHERE id IN (SELECT value FROM json_each(?1)) AND state IN ('completed', 'failed', 'cancelled')`;
/** One by one: another of them may have the same. */
const RETRY_KEYED = `${RETRY} AND NOT EXISTS (SELECT 1 FROM jobs AS other WHERE other.key = jobs.key
  AND other.state IN ('blocked', 'scheduled', 'pending', 'running'))`;
const BLOCKED = "SELECT id FROM jobs WHERE id IN (SELECT value FROM json_each(?1)) AND state = 'blocked'";

const ALIKE = `SELECT count(*) AS count, min(state) AS state, max(state) AS last_state FROM jobs
  WHERE id BETWEEN ?1 AND ?2 AND state IN ('completed', 'failed', 'cancelled') AND key IS NULL`;
const RETRY_RANGE = `UPDATE jobs SET state = 'pending', run_at_ms = ?3, ${AFRESH} WHERE id BETWEEN ?1 AND ?2`;

/**
 * Many in a row that ended in the same way and have neither keys nor parents, as a queue is retried: half of the time
 * goes to what is read and kept about each. Answers what they were; null: they are not like that, and nothing was done.
 */
function retryRange(db: Database, ids: readonly number[], now_ms: number): StateName | null {
  const range = rangeOf(ids);
  if (range === null || anyChildBetween(db, range)) return null;
  const { count, state, last_state } = db.sql(ALIKE).get(...range) ?? {};
  if (count !== ids.length || state !== last_state) return null;
  db.unchecked(ids.length, () => db.sql(RETRY_RANGE).run(...range, now_ms));
  return state as StateName;
}

export function retry(db: Database, ids: readonly number[]): RetryAnswer[] {
  const now_ms = db.now_ms();
  const alike = retryRange(db, ids, now_ms);
  if (alike !== null) return ids.map((id) => ({ id, status: "pending", state: alike }));
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
