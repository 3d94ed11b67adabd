/** Waiting jobs end at once, with those that wait for them; running ones are asked to. */

import type { StateName } from "../../core/job.ts";
import { graceColumn, toGrace } from "../shared/columns.ts";
import { alongReason, cancelAnswer } from "../shared/verdicts.ts";
import type { CancelOptions, CancelRequest } from "../queries.ts";
import type { CancelAnswer } from "../queries.ts";
import { noteCancelled } from "./history.ts";
import type { Database } from "./open.ts";
import { freeChildren, parentsAmong, parentsBetween } from "./dependencies.ts";
import { rangeOf } from "./ranges.ts";

const IS_WAITING = "state IN ('blocked', 'scheduled', 'pending')";
const STATES = "SELECT id, state, queue FROM jobs WHERE id IN (SELECT value FROM json_each(?1))";
const CANCEL = `UPDATE jobs SET state = 'cancelled', finished_at_ms = ?2, reason = ?3
  WHERE id IN (SELECT value FROM json_each(?1)) AND ${IS_WAITING}`;
const ALIKE = `SELECT count(*) AS count, min(state) AS state, max(state) AS last_state, min(queue) AS queue,
  max(queue) AS last_queue FROM jobs WHERE id BETWEEN ?1 AND ?2 AND ${IS_WAITING}`;
const CANCEL_RANGE = `UPDATE jobs SET state = 'cancelled', finished_at_ms = ?3, reason = ?4 WHERE id BETWEEN ?1 AND ?2`;
const WAITING: ReadonlySet<unknown> = new Set(["blocked", "scheduled", "pending"]);
const REQUEST_CANCEL = `UPDATE jobs SET cancel_requested_at_ms = coalesce(cancel_requested_at_ms, ?2),
  reason = coalesce(reason, ?3), cancel_grace_ms = coalesce(?4, cancel_grace_ms) WHERE id = ?1 AND state = 'running'`;

const CANCEL_REQUESTS = `SELECT id, token, cancel_grace_ms FROM jobs
  WHERE holder = ?1 AND state = 'running' AND cancel_requested_at_ms IS NOT NULL`;

/** What each of them was before, by id. Those that waited are cancelled, all of them before those that wait for one hear of it. */
export function cancelWaiting(
  db: Database,
  ids: readonly number[],
  now_ms: number,
  reason: string | null,
): ReadonlyMap<number, StateName> {
  const named = JSON.stringify(ids);
  const before = new Map<number, StateName>();
  const queues = new Map<string, number>();
  const cancelled: number[] = [];
  for (const { id, state, queue } of db.sql(STATES).all(named)) {
    before.set(id as number, state as StateName);
    if (!WAITING.has(state)) continue;
    cancelled.push(id as number);
    queues.set(String(queue), (queues.get(String(queue)) ?? 0) + 1);
  }
  if (cancelled.length === 0) return before;
  db.unchecked(cancelled.length, () => db.sql(CANCEL).run(named, now_ms, reason));
  for (const [queue, count] of queues) noteCancelled(db, queue, now_ms, count);
  for (const id of parentsAmong(db, cancelled)) freeChildren(db, id, now_ms);
  return before;
}

/**
 * Many in a row of one queue that all wait in the same way, as a queue is cancelled: half of the time goes to what is
 * read and kept about each. Answers what they were; null: they are not like that, and nothing was done.
 */
function cancelRange(db: Database, ids: readonly number[], now_ms: number, reason: string | null): StateName | null {
  const range = rangeOf(ids);
  if (range === null) return null;
  const { count, state, last_state, queue, last_queue } = db.sql(ALIKE).get(...range) ?? {};
  if (count !== ids.length || state !== last_state || queue !== last_queue) return null;
  db.unchecked(ids.length, () => db.sql(CANCEL_RANGE).run(...range, now_ms, reason));
  noteCancelled(db, String(queue), now_ms, ids.length);
  for (const id of parentsBetween(db, range)) freeChildren(db, id, now_ms);
  return state as StateName;
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
  const alike = cancelRange(db, ids, now_ms, reason);
  if (alike !== null) return ids.map((id) => ({ id, status: "cancelled", state: alike }));
  const before = cancelWaiting(db, ids, now_ms, reason);
  return ids.map((id) => {
    const state = before.get(id) ?? null;
    if (state === "running") db.sql(REQUEST_CANCEL).run(id, now_ms, reason, graceColumn(grace));
    return cancelAnswer(id, state, WAITING.has(state));
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
