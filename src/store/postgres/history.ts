/**
 * What is remembered about beginnings and ends. Statements add it to `deltas` (see schema.ts); here these are folded,
 * by one process at a time and without anybody waiting, and read together with what has been folded.
 */

import { HOUR_MS, HOURS_KEPT_MS, MINUTES_KEPT_MS, MINUTE_MS, startOf } from "../../core/history.ts";
import type { HistoryPoint, QueueTotal } from "../../core/history.ts";
import type { HistoryQuery } from "../queries.ts";
import { FIGURE_COLUMNS, added, aggregated, toPoint, toTotal } from "../shared/history.ts";
import type { Connection } from "./session/session.ts";
import { SQL } from "./statements.ts";

/** So many changes of a process, and it folds: reads have few deltas to add up, and writers little to do for it. */
export const FOLD_EVERY = 500;
const MOST_FOLDED = 20_000;

const whole = (sql: string) => `${sql}::bigint`;
const number = (which: string) => `coalesce(sum(count) FILTER (WHERE ${which}), 0)::bigint`;
const sumOf = (kind: string) => `coalesce(sum(sum_ms) FILTER (WHERE kind = '${kind}'), 0)::bigint`;
const maxOf = (kind: string) => `coalesce(max(max_ms) FILTER (WHERE kind = '${kind}'), 0)::bigint`;

/** The points of history that deltas make. */
const pointsOf = (deltas: string) => `SELECT at_ms, queue, ${number("state = 'completed'")} AS completed,
    ${number("state = 'failed'")} AS failed, ${number("state = 'cancelled'")} AS cancelled,
    ${number("state IN ('pending', 'scheduled')")} AS retried, ${number("recovered")} AS recovered,
    ${number("kind = 'end'")} AS ended, ${sumOf("end")} AS run_ms, ${maxOf("end")} AS run_max_ms,
    ${number("kind = 'wait'")} AS first_ended, ${sumOf("wait")} AS wait_ms, ${maxOf("wait")} AS wait_max_ms
  FROM ${deltas} WHERE at_ms IS NOT NULL GROUP BY at_ms, queue`;

const totalsOf = (deltas: string) => `SELECT queue, CASE kind WHEN 'wait' THEN 'wait' ELSE 'run' END AS name,
    class::text AS label, sum(count)::bigint AS count, sum(sum_ms)::bigint AS sum_ms
  FROM ${deltas} WHERE class IS NOT NULL GROUP BY queue, kind, class
  UNION ALL SELECT queue, 'end', cause, sum(count)::bigint, sum(sum_ms)::bigint
  FROM ${deltas} WHERE cause IS NOT NULL GROUP BY queue, cause`;

const ADD_POINTS = (points: string) => `INSERT INTO lease.history (span_ms, at_ms, queue, ${FIGURE_COLUMNS}) ${points}
  ON CONFLICT (span_ms, at_ms, queue) DO UPDATE SET ${added("greatest")}`;

const FOLD = `WITH gone AS (
    DELETE FROM lease.deltas WHERE ctid = ANY (ARRAY(SELECT ctid FROM lease.deltas LIMIT ${MOST_FOLDED})) RETURNING *
  ), counted AS (
    INSERT INTO lease.tallies (queue, state, retries, count)
    SELECT queue, state, retries, sum(count) FROM gone WHERE state NOT IN ('pending', 'running')
    GROUP BY queue, state, retries
    ON CONFLICT (queue, state, retries) DO UPDATE SET count = tallies.count + excluded.count
  ), timed AS (
    INSERT INTO lease.totals (queue, name, label, count, sum_ms) ${totalsOf("gone")}
    ON CONFLICT (queue, name, label) DO UPDATE SET count = totals.count + excluded.count,
      sum_ms = totals.sum_ms + excluded.sum_ms
  ), remembered AS (
    ${ADD_POINTS(`SELECT ${MINUTE_MS}, at_ms, queue, ${FIGURE_COLUMNS} FROM (${pointsOf("gone")}) AS points`)}
  ) SELECT count(*) AS count FROM gone`;

/** Whoever is second has nothing to do; the lock is that of this store's schema. */
const LOCK =
  "SELECT pg_try_advisory_xact_lock(hashtextextended('lease fold ' || 'lease.deltas'::regclass::oid, 0)) AS got";

async function isFirst(db: Connection): Promise<boolean> {
  const [row] = await db.query(LOCK);
  return (row?.["got"] as unknown) === true;
}

/** Inside a transaction. */
export async function foldDeltas(db: Connection): Promise<void> {
  if (!(await isFirst(db))) return;
  for (;;) {
    const [row] = await db.query(FOLD);
    if ((row?.["count"] as number) < MOST_FOLDED) return;
  }
}

const FOLD_HOURS = `WITH old AS (
    DELETE FROM lease.history WHERE span_ms = ${MINUTE_MS} AND at_ms < $1::bigint RETURNING *
  ) ${ADD_POINTS(`SELECT ${HOUR_MS}, at_ms / ${HOUR_MS} * ${HOUR_MS}, queue, ${aggregated(whole)} FROM old GROUP BY 2, 3`)}`;
const DROP_HOURS = `DELETE FROM lease.history WHERE span_ms = ${HOUR_MS} AND at_ms < $1::bigint`;
const DROP_EMPTY = "DELETE FROM lease.tallies WHERE count = 0";

/** Inside a transaction. */
export async function foldHours(db: Connection): Promise<void> {
  if (!(await isFirst(db))) return;
  const [row] = await db.query<{ ms: number }>(SQL.now);
  const now_ms = row?.ms as number;
  await db.query(FOLD_HOURS, [startOf(now_ms - MINUTES_KEPT_MS, HOUR_MS)]);
  await db.query(DROP_HOURS, [startOf(now_ms - HOURS_KEPT_MS, HOUR_MS)]);
  await db.query(DROP_EMPTY);
}

const HISTORY = `SELECT at_ms / $3::bigint * $3::bigint AS at_ms, queue, ${aggregated(whole)} FROM (
    SELECT at_ms, queue, ${FIGURE_COLUMNS} FROM lease.history
      WHERE span_ms = ANY ($5::bigint[]) AND at_ms >= $1::bigint AND at_ms < $2::bigint
    UNION ALL ${pointsOf("lease.deltas")}
  ) AS points WHERE at_ms >= $1::bigint AND at_ms < $2::bigint AND ($4::text[] IS NULL OR queue = ANY ($4::text[]))
  GROUP BY 1, 2 ORDER BY 1, queue COLLATE "C"`;

export async function history(db: Connection, query: HistoryQuery): Promise<HistoryPoint[]> {
  const { since_ms, until_ms = Number.MAX_SAFE_INTEGER, span_ms, queues } = query;
  const spans = span_ms % HOUR_MS === 0 ? [MINUTE_MS, HOUR_MS] : [MINUTE_MS];
  const rows = await db.query(HISTORY, [startOf(since_ms, span_ms), until_ms, span_ms, queues ?? null, spans]);
  return rows.map(toPoint);
}

const TOTALS = `SELECT queue, name, label, sum(count)::bigint AS count, sum(sum_ms)::bigint AS sum_ms FROM (
    SELECT * FROM lease.totals UNION ALL ${totalsOf("lease.deltas")}
  ) AS totals GROUP BY queue, name, label ORDER BY queue COLLATE "C", name COLLATE "C", label COLLATE "C"`;

export async function totals(db: Connection): Promise<QueueTotal[]> {
  return (await db.query(TOTALS)).map(toTotal);
}
