/** Waiting jobs end at once, with those that wait for them; running ones are asked to. */

import { graceColumn, toGrace } from "../shared/columns.ts";
import { cancelAnswer } from "../shared/verdicts.ts";
import type { CancelOptions, CancelRequest } from "../queries.ts";
import type { CancelAnswer } from "../queries.ts";
import { noteCancelled } from "./history.ts";
import type { Database } from "./open.ts";
import { freeChildren, stateOf } from "./dependencies.ts";

const CANCEL = `UPDATE jobs SET state = 'cancelled', finished_at_ms = ?2, reason = ?3
  WHERE id = ?1 AND state IN ('blocked', 'scheduled', 'pending') RETURNING queue`;
const REQUEST_CANCEL = `UPDATE jobs SET cancel_requested_at_ms = coalesce(cancel_requested_at_ms, ?2),
  reason = coalesce(reason, ?3), cancel_grace_ms = coalesce(?4, cancel_grace_ms) WHERE id = ?1 AND state = 'running'`;

const CANCEL_REQUESTS = `SELECT id, token, cancel_grace_ms FROM jobs
  WHERE holder = ?1 AND state = 'running' AND cancel_requested_at_ms IS NOT NULL`;

/** Whether it was waiting and is cancelled now. */
export function cancelWaiting(db: Database, id: number, now_ms: number, reason: string | null): boolean {
  const queue = db.sql(CANCEL).get(id, now_ms, reason)?.["queue"];
  if (queue === undefined) return false;
  noteCancelled(db, String(queue), now_ms);
  freeChildren(db, id, now_ms);
  return true;
}

const BELOW = `WITH RECURSIVE below (id) AS (
    SELECT job_id FROM dependencies WHERE parent_id IN (SELECT value FROM json_each(?1))
    UNION SELECT d.job_id FROM below JOIN dependencies AS d ON d.parent_id = below.id)
  SELECT id FROM below JOIN jobs USING (id) WHERE finished_at_ms IS NULL ORDER BY id`;

/** All unfinished ones that wait for these, directly or not. */
function below(db: Database, ids: readonly number[]): number[] {
  return db
    .sql(BELOW)
    .all(JSON.stringify(ids))
    .map((row) => row["id"] as number);
}

export function cancel(
  db: Database,
  ids: readonly number[],
  reason: string | null,
  { grace = null, cascade = false }: CancelOptions = {},
): CancelAnswer[] {
  if (cascade) return cancel(db, [...new Set([...ids, ...below(db, ids)])], reason, { grace });
  const now_ms = db.now_ms();
  // Before anything is done: one that ends because another of them does was cancelled all the same.
  const states = ids.map((id) => stateOf(db, id));
  return ids.map((id, index) => {
    const before = states[index] ?? null;
    if (before === "blocked" && stateOf(db, id) === "cancelled") return cancelAnswer(id, before, true);
    const cancelled = cancelWaiting(db, id, now_ms, reason);
    if (!cancelled) db.sql(REQUEST_CANCEL).run(id, now_ms, reason, graceColumn(grace));
    return cancelAnswer(id, before, cancelled);
  });
}

export function cancelRequests(db: Database, holder: string): CancelRequest[] {
  const rows = db.sql(CANCEL_REQUESTS).all(holder) as unknown as {
    id: number;
    token: number;
    cancel_grace_ms: unknown;
  }[];
  return rows.map(({ id, token, cancel_grace_ms }) => ({ id, token, grace: toGrace(cancel_grace_ms) }));
}
