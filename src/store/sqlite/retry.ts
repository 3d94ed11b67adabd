/**
 * A person's word: finished jobs become pending with all their retries, unless a live job has their key, and blocked
 * where they wait for others, as when they were enqueued. What they printed and their attempts stay, and the next
 * attempt goes on from the last progress. What can't be retried is answered with why, and keeps none of the others from it.
 */

import { retryAnswer } from "../shared/verdicts.ts";
import type { RetryAnswer } from "../queries.ts";
import type { Database } from "./open.ts";
import { stateOf, waitAgain } from "./dependencies.ts";

const RETRY = `UPDATE jobs SET state = iif(EXISTS (SELECT 1 FROM dependencies WHERE job_id = jobs.id), 'blocked', 'pending'),
  run_at_ms = ?2, failures = 0, finished_at_ms = NULL, cause = NULL, exit_code = NULL, error = NULL, output = NULL,
  reason = NULL
  WHERE id = ?1 AND state IN ('completed', 'failed', 'cancelled')
    AND NOT EXISTS (SELECT 1 FROM jobs AS other WHERE other.key = jobs.key
      AND other.state IN ('blocked', 'scheduled', 'pending', 'running'))`;

export function retry(db: Database, ids: readonly number[]): RetryAnswer[] {
  const now_ms = db.now_ms();
  const retried = ids.map((id) => {
    const before = stateOf(db, id);
    return { id, before, again: db.sql(RETRY).run(id, now_ms).changes > 0 };
  });
  // Only now: one of them may wait for another that comes behind it in the list.
  return retried.map(({ id, before, again }) =>
    retryAnswer(id, before, again ? (waitAgain(db, id, now_ms) ? "blocked" : "pending") : null),
  );
}
