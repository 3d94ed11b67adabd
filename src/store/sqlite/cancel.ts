/** Waiting jobs end at once, with those that wait for them; running ones are asked to. */

import { graceColumn, toGrace } from "../shared/columns.ts";
import { alongReason, cancelAnswer } from "../shared/verdicts.ts";
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

/** Answers which of them were waiting and are cancelled now: all of them before those that wait for one hear of it. */
export function cancelWaiting(
  db: Database,
  ids: readonly number[],
  now_ms: number,
  reason: string | null,
): ReadonlySet<number> {
  const cancelled = new Set<number>();
  for (const id of ids) {
    const queue = db.sql(CANCEL).get(id, now_ms, reason)?.["queue"];
    if (queue === undefined) continue;
    noteCancelled(db, String(queue), now_ms);
    cancelled.add(id);
  }
  for (const id of cancelled) freeChildren(db, id, now_ms);
  return cancelled;
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
  if (cascade) {
    const named = new Set(ids);
    const along = below(db, ids).filter((id) => !named.has(id));
    // The last first: none of them is freed by the end of another.
    const others = cancel(db, along, reason ?? alongReason(ids), { grace });
    return [...cancel(db, ids, reason, { grace }), ...others];
  }
  const now_ms = db.now_ms();
  const states = ids.map((id) => stateOf(db, id));
  const cancelled = cancelWaiting(db, ids, now_ms, reason);
  return ids.map((id, index) => {
    if (!cancelled.has(id)) db.sql(REQUEST_CANCEL).run(id, now_ms, reason, graceColumn(grace));
    return cancelAnswer(id, states[index] ?? null, cancelled.has(id));
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
