/**
 * Limits: who set them, what is in use of them, and how much room that leaves.
 *
 * A job that is bounded is granted in a transaction that holds a row lock on each limit it counts for, and a lock for
 * its machine where it needs something of that, and that counts after it has them: two acquirers can't both see the last
 * place as free. Locks are taken in the order of names. Who ends a job needs none of this, because an end only makes
 * room; and a job that nothing bounds is granted without any of it.
 */

import type { LimitSettings, LimitUse } from "../../core/gate.ts";
import type { Holding } from "../../core/resources.ts";
import { limitUse, toHeld, toLimit, type GateCount } from "../shared/room.ts";
import type { Connection } from "./session/session.ts";

/** The gates at which jobs wait, by stepping through their index. */
export const GATES = `gates (name) AS (
    SELECT min(gate) FROM lease.jobs WHERE state = 'pending' AND gate <> ''
    UNION ALL
    SELECT (SELECT min(gate) FROM lease.jobs WHERE state = 'pending' AND gate <> '' AND gate > gates.name)
      FROM gates WHERE gates.name IS NOT NULL
  )`;

/** The limits that the text of a gate has in it: no name has a quote. */
export const namesIn = (gate: string) => `SELECT found[1] FROM regexp_matches(${gate}, '"=([^"]+)"', 'g') AS found`;

/**
 * The limits that are used up, found by what counts for them: of very many, most are not in use. What runs is read in the
 * order of its index (a limit that the planner can't foresee sees to that): so each entry that a job left behind is met
 * once and marked, where another plan would visit all of them at every look until the next vacuum.
 */
export const FULL = `used AS (
    SELECT name, count(*) AS count FROM (
        SELECT queue, gate FROM lease.jobs WHERE state = 'running' ORDER BY holder LIMIT (SELECT 1000000)) AS running
      CROSS JOIN LATERAL (SELECT running.queue UNION ${namesIn("running.gate")}) AS counted (name) GROUP BY name
  ), full_limits AS MATERIALIZED (
    SELECT limits.name FROM used JOIN lease.limits USING (name) WHERE most <= used.count
    UNION ALL SELECT name FROM lease.limits WHERE most = 0
    UNION ALL SELECT limits.name FROM clock, lease.limits JOIN lease.starts USING (name)
      WHERE at_ms > clock.ms - rate_ms GROUP BY limits.name, rate_count HAVING count(*) >= rate_count
  )`;

/**
 * No limit of a gate is used up. There may be thousands of both: a condition would be made a join and compare each with
 * each, and what is selected is looked up in a table of hashes.
 */
export const isOpenGate = (gate: string) => `(SELECT bool_or(named.name IN (SELECT f.name FROM full_limits AS f))
      FROM (${namesIn(gate)}) AS named (name)) IS NOT TRUE`;

/** The text of a gate at which nothing but limits is asked for. */
export const needsNothing = (gate: string) => `${gate} LIKE '%[]]'`;

/** A job that is bounded may start, as far as limits go and by the names of what it needs. */
export const BOUNDED = `EXISTS (SELECT 1 FROM gates WHERE gates.name IS NOT NULL
      AND ${isOpenGate("gates.name")}
      AND (${needsNothing("gates.name")} OR gates.name NOT LIKE '[[%' OR gates.name LIKE ANY ($7::text[])))
    OR EXISTS (SELECT 1 FROM lease.limits WHERE limits.name NOT IN (SELECT f.name FROM full_limits AS f)
      AND EXISTS (SELECT 1 FROM lease.jobs WHERE state = 'pending' AND jobs.queue = limits.name))`;

/** What a limit bounds is not for this statement to grant. */
export const isLimit = (queue: string) => `(SELECT TRUE FROM lease.limits WHERE limits.name = ${queue}) IS TRUE`;

/** When a rate that is used up lets the next job start; null: it is not. */
const nextStart = (limit: string) => `(SELECT at_ms + ${limit}.rate_ms FROM (
    SELECT at_ms, row_number() OVER (ORDER BY at_ms DESC) AS back FROM lease.starts
    WHERE starts.name = ${limit}.name AND at_ms > (SELECT lease.now_ms()) - ${limit}.rate_ms
  ) AS recent WHERE back = ${limit}.rate_count)`;

/** Of all limits. */
export const NEXT_START = `(SELECT min(${nextStart("limits")}) FROM lease.limits WHERE rate_ms IS NOT NULL)`;

const LIMITS = `SELECT limits.*, ${nextStart("limits")} AS next_start_at_ms, (SELECT count(*) FROM lease.starts
      WHERE starts.name = limits.name AND at_ms > (SELECT lease.now_ms()) - rate_ms) AS started
    FROM lease.limits ORDER BY name COLLATE "C"`;
const GATE_COUNTS = `SELECT state, queue, gate, count(*) AS count FROM lease.jobs WHERE state = 'running'
      OR (state = 'pending' AND (gate <> '' OR queue IN (SELECT name FROM lease.limits))) GROUP BY state, queue, gate`;
const HOLDINGS = `SELECT jobs.id AS job, attempts.host, jobs.held FROM lease.jobs
    JOIN lease.attempts ON job_id = id AND attempt = token WHERE state = 'running' AND gate <> ''`;
const SET_LIMIT = `INSERT INTO lease.limits (name, most, rate_count, rate_ms) VALUES ($1, $2, $3, $4)
  ON CONFLICT (name) DO UPDATE SET most = $2, rate_count = $3, rate_ms = $4`;
const DROP_LIMIT = "DELETE FROM lease.limits WHERE name = $1 RETURNING name";
const DROP_STARTS = "DELETE FROM lease.starts WHERE name = $1";

export async function setLimit(db: Connection, name: string, limit: LimitSettings | null): Promise<boolean> {
  if (limit !== null) {
    await db.query(SET_LIMIT, [name, limit.most, limit.rate?.count ?? null, limit.rate?.per_ms ?? null]);
    return true;
  }
  await db.query(DROP_STARTS, [name]);
  return (await db.query(DROP_LIMIT, [name])).length > 0;
}

export async function limits(db: Connection): Promise<LimitUse[]> {
  const rows = await db.query(LIMITS);
  const counts = rows.length === 0 ? [] : await db.query(GATE_COUNTS);
  const of = (state: string) => counts.filter((row) => row["state"] === state) as unknown as GateCount[];
  return rows.map((row) => {
    const [started, next_start_at_ms] = [row["started"] as number, row["next_start_at_ms"] as number | null];
    return limitUse(toLimit(row), of("running"), of("pending"), { started, next_start_at_ms });
  });
}

/** What running attempts were given. */
export async function holdings(db: Connection): Promise<Holding[]> {
  const rows = await db.query(HOLDINGS);
  return rows.map((row) => ({ job: row["job"] as number, host: row["host"] as string, held: toHeld(row["held"]) }));
}
