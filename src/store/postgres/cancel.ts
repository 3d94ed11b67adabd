/**
 * What people and sweeps do beside holders: cancel, retry, pause, and the totals of recoveries.
 */

import type { StateName } from "../../core/job.ts";
import type { RecoveryTotals, SweepCounts } from "../../core/records.ts";
import { fromJson } from "../shared/rows.ts";
import { RECOVERY_TOTALS } from "../shared/schemas.ts";
import type { CancelAnswer, RetryAnswer } from "../store.ts";
import { numbers, texts } from "./session/arrays.ts";
import { freeChildren } from "./dependencies.ts";
import type { Connection } from "./session/link.ts";
import { GET_META, lockMeta, SET_META } from "./session/meta.ts";
import type { Statements } from "./session/sql.ts";

const LOCK = `SELECT id, state, key, awaited FROM lease.jobs WHERE id = ANY ($1::bigint[]) ORDER BY id FOR NO KEY UPDATE`;
const CANCEL = `UPDATE lease.jobs SET state = 'cancelled', finished_at_ms = (SELECT lease.now_ms()), reason = $2
  WHERE id = ANY ($1::bigint[]) AND state IN ('blocked', 'scheduled', 'pending') RETURNING id`;
const REQUEST_CANCEL = `UPDATE lease.jobs SET reason = coalesce(reason, $2),
    cancel_requested_at_ms = coalesce(cancel_requested_at_ms, (SELECT lease.now_ms()))
  WHERE id = ANY ($1::bigint[]) AND state = 'running'`;
const LIVE_KEYS = "SELECT key FROM lease.jobs WHERE key = ANY ($1::text[]) AND finished_at_ms IS NULL";
const RETRY = `UPDATE lease.jobs SET state = 'pending', run_at_ms = (SELECT lease.now_ms()), failures = 0,
    finished_at_ms = NULL, cause = NULL, exit_code = NULL, error = NULL, output = NULL, reason = NULL
  WHERE id = ANY ($1::bigint[])`;

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

export async function retry(
  statements: Statements,
  connection: Connection,
  ids: readonly number[],
): Promise<RetryAnswer[]> {
  const rows = await statements.sql(connection, LOCK, [numbers(ids)]);
  const jobs = new Map(rows.map((row) => [row["id"] as number, row]));
  const keys = rows.flatMap(({ key }) => (key === null ? [] : [key as string]));
  const live = keys.length === 0 ? [] : await statements.sql(connection, LIVE_KEYS, [texts(keys)]);
  const taken = new Set(live.map(({ key }) => key as string));
  const again: number[] = [];
  const answers = ids.map((id): RetryAnswer => {
    const row = jobs.get(id);
    const state = (row?.["state"] ?? null) as StateName | null;
    if (row === undefined || state === null) return { id, status: "unknown", state };
    if (state !== "completed" && state !== "failed" && state !== "cancelled") {
      return { id, status: "not_finished", state };
    }
    const key = row["key"] as string | null;
    if (key !== null && taken.has(key)) return { id, status: "key_taken", state };
    if (key !== null) taken.add(key);
    again.push(id);
    return { id, status: "pending", state };
  });
  if (again.length > 0) await statements.sql(connection, RETRY, [numbers(again)]);
  return answers;
}

const SET_PAUSED = `INSERT INTO lease.queues (name, paused_at_ms)
  SELECT name, CASE WHEN $2::boolean THEN lease.now_ms() END FROM unnest($1::text[]) AS t (name) ORDER BY name
  ON CONFLICT (name) DO UPDATE SET paused_at_ms = CASE WHEN excluded.paused_at_ms IS NULL THEN NULL
    ELSE coalesce(queues.paused_at_ms, excluded.paused_at_ms) END`;

export async function setPaused(
  statements: Statements,
  connection: Connection,
  queues: readonly string[],
  paused: boolean,
): Promise<void> {
  if (queues.length > 0) await statements.sql(connection, SET_PAUSED, [texts([...new Set(queues)]), paused]);
}

export async function recovery(statements: Statements, connection: Connection): Promise<RecoveryTotals | null> {
  const [row] = await statements.sql(connection, GET_META, ["recovery"]);
  return fromJson(RECOVERY_TOTALS, row?.["value"]);
}

export async function noteRecovery(statements: Statements, connection: Connection, counts: SweepCounts): Promise<void> {
  const { scan_duration_ms: _scan_duration_ms, ...more } = counts;
  const totals: Record<string, number> = {
    ...(await lockMeta(statements, connection, "recovery", RECOVERY_TOTALS)),
  };
  for (const [name, count] of Object.entries(more)) totals[name] = (totals[name] ?? 0) + count;
  const [now] = await statements.run(connection, "now");
  await statements.sql(connection, SET_META, ["recovery", JSON.stringify({ ...totals, last_at_ms: now?.["ms"] })]);
}
