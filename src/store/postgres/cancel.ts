/** Waiting jobs end at once, with those that wait for them; running ones are asked to. */

import type { StateName } from "../../core/job.ts";
import { graceColumn, toGrace } from "../shared/columns.ts";
import { alongReason, cancelAnswer } from "../shared/verdicts.ts";
import type { CancelOptions, CancelRequest } from "../queries.ts";
import type { CancelAnswer } from "../queries.ts";
import { freeChildren } from "./dependencies.ts";
import { byId, idsOf } from "./session/arrays.ts";
import type { Connection } from "./session/session.ts";
import { SQL } from "./statements.ts";

const CANCEL = `UPDATE lease.jobs SET state = 'cancelled', finished_at_ms = (SELECT lease.now_ms()), reason = $2
  WHERE id = ANY ($1::bigint[]) AND state IN ('blocked', 'scheduled', 'pending') RETURNING id`;
const REQUEST_CANCEL = `UPDATE lease.jobs SET reason = coalesce(reason, $2),
    cancel_requested_at_ms = coalesce(cancel_requested_at_ms, (SELECT lease.now_ms())),
    cancel_grace_ms = coalesce($3::bigint, cancel_grace_ms)
  WHERE id = ANY ($1::bigint[]) AND state = 'running'`;

/** Answers which of them were waiting and are cancelled now. */
export async function cancelWaiting(db: Connection, ids: readonly number[], reason: string | null): Promise<number[]> {
  const rows = await db.query(CANCEL, [ids, reason]);
  return idsOf(rows);
}

/** All unfinished ones that wait for these, directly or not. */
const BELOW = `WITH RECURSIVE below (id) AS (
    SELECT job_id FROM lease.dependencies WHERE parent_id = ANY ($1::bigint[])
    UNION SELECT d.job_id FROM below JOIN lease.dependencies AS d ON d.parent_id = below.id)
  SELECT jobs.id FROM below JOIN lease.jobs ON jobs.id = below.id WHERE finished_at_ms IS NULL ORDER BY jobs.id`;

export async function cancel(
  db: Connection,
  ids: readonly number[],
  reason: string | null,
  { grace = null, cascade = false }: CancelOptions = {},
): Promise<CancelAnswer[]> {
  if (cascade) {
    const named = new Set(ids);
    const along = idsOf(await db.query(BELOW, [ids])).filter((id) => !named.has(id));
    // All are locked in the order of their ids, as everybody locks them.
    await db.query(SQL.lockJobs, [[...named, ...along]]);
    // The last first: none of them is freed by the end of another.
    const others = await cancel(db, along, reason ?? alongReason(ids), { grace });
    return [...(await cancel(db, ids, reason, { grace })), ...others];
  }
  const rows = await db.query(SQL.lockJobs, [ids]);
  const before = byId(rows);
  const cancelled = await cancelWaiting(db, ids, reason);
  await db.query(REQUEST_CANCEL, [ids, reason, graceColumn(grace)]);
  await freeChildren(db, cancelled);
  const gone = new Set(cancelled);
  return ids.map((id) => cancelAnswer(id, (before.get(id)?.["state"] ?? null) as StateName | null, gone.has(id)));
}

export async function cancelRequests(db: Connection, holder: string): Promise<CancelRequest[]> {
  const rows = await db.query<{ id: number; token: number; cancel_grace_ms: unknown }>(SQL.cancelRequests, [holder]);
  return rows.map(({ id, token, cancel_grace_ms }) => ({ id, token, grace: toGrace(cancel_grace_ms) }));
}
