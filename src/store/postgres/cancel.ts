/**
 * What people and sweeps do beside holders: cancel, retry, pause, and the totals of recoveries.
 */

import type { StateName } from "../../core/job.ts";
import type { CancelAnswer } from "../store.ts";
import { freeChildren } from "./dependencies.ts";
import { numbers } from "./session/arrays.ts";
import type { Connection } from "./session/link.ts";
import type { Statements } from "./session/sql.ts";

export const LOCK = `SELECT id, state, key, awaited FROM lease.jobs WHERE id = ANY ($1::bigint[]) ORDER BY id FOR NO KEY UPDATE`;

const CANCEL = `UPDATE lease.jobs SET state = 'cancelled', finished_at_ms = (SELECT lease.now_ms()), reason = $2
  WHERE id = ANY ($1::bigint[]) AND state IN ('blocked', 'scheduled', 'pending') RETURNING id`;

const REQUEST_CANCEL = `UPDATE lease.jobs SET reason = coalesce(reason, $2),
    cancel_requested_at_ms = coalesce(cancel_requested_at_ms, (SELECT lease.now_ms()))
  WHERE id = ANY ($1::bigint[]) AND state = 'running'`;

/** Answers which of them were waiting and are cancelled now. */
export async function cancelWaiting(
  statements: Statements,
  connection: Connection,
  ids: readonly number[],
  reason: string | null,
): Promise<number[]> {
  const rows = await statements.sql(connection, CANCEL, [numbers(ids), reason]);
  return rows.map(({ id }) => id as number);
}

export async function cancel(
  statements: Statements,
  connection: Connection,
  ids: readonly number[],
  reason: string | null,
): Promise<CancelAnswer[]> {
  const rows = await statements.sql(connection, LOCK, [numbers(ids)]);
  const states = new Map(rows.map(({ id, state }) => [id as number, state as StateName]));
  const cancelled = await cancelWaiting(statements, connection, ids, reason);
  await statements.sql(connection, REQUEST_CANCEL, [numbers(ids), reason]);
  await freeChildren(statements, connection, cancelled);
  const gone = new Set(cancelled);
  return ids.map((id) => {
    const state = states.get(id) ?? null;
    if (state === null) return { id, status: "unknown", state };
    if (gone.has(id)) return { id, status: "cancelled", state };
    return { id, status: state === "running" ? "cancelling" : "finished", state };
  });
}
