/** Schedules, and how their times become jobs: one for each, because whoever fires holds the schedule's row, and by the key of `fired`. */

import type { StateName } from "../../core/job.ts";
import { templateText, type Firing, type Rewound, type Schedule, type ScheduleSettings } from "../../core/schedule.ts";
import { isOver, replacedReason, toSchedule } from "../shared/schedules.ts";
import { cancel } from "./cancel.ts";
import { checkAll, enqueue } from "./enqueue.ts";
import { idsOf } from "./session/arrays.ts";
import type { Connection } from "./session/session.ts";
import { CLOCK, SQL } from "./statements.ts";

const SET_AGAIN = "excluded.set_at_ms + (schedules.set_at_ms = excluded.set_at_ms)::integer";
/** One that comes every so often counts from when it was set; that changes each time, so that nobody fires it as it was. */
const SET = `WITH ${CLOCK} INSERT INTO lease.schedules
    (name, cron, every_ms, zone, overlap, catch_up, jitter_ms, job, set_at_ms, next_at_ms)
  SELECT $1, $2, $3::bigint, $4, $5, $6, $7, $8, ms, coalesce(ms + $3::bigint, $9::bigint) FROM clock
  ON CONFLICT (name) DO UPDATE SET cron = $2, every_ms = $3, zone = $4, overlap = $5, catch_up = $6, jitter_ms = $7,
    job = $8, set_at_ms = ${SET_AGAIN}, next_at_ms = coalesce(${SET_AGAIN} + $3::bigint, $9::bigint)`;
/** Until it has its own. */
export const NO_TEMPLATE = "{}";
/** The id of no job. */
const IN_PASSING = -1;
const SET_TEMPLATE = `WITH incoming AS (DELETE FROM lease.incoming_env WHERE job_id = $2 RETURNING env)
  UPDATE lease.schedules SET job = incoming.env FROM incoming WHERE name = $1`;
const DROP = "DELETE FROM lease.schedules WHERE name = $1 RETURNING name";
const PAUSE = `UPDATE lease.schedules SET paused = $2, next_at_ms = coalesce($3, next_at_ms) WHERE name = $1 RETURNING name`;
const ALL = `SELECT schedules.*, jobs.state AS last_state FROM lease.schedules LEFT JOIN lease.jobs ON jobs.id = last_job
  ORDER BY name COLLATE "C"`;
const NEXT = `WITH ${CLOCK} SELECT min(CASE WHEN coalesce(last_at_ms, set_at_ms) > clock.ms
    THEN least(clock.ms, next_at_ms) ELSE next_at_ms END) AS at_ms FROM lease.schedules, clock WHERE paused = 0`;
const REWIND = `WITH ${CLOCK} UPDATE lease.schedules SET set_at_ms = $4, next_at_ms = $5,
    last_at_ms = CASE WHEN last_at_ms > clock.ms THEN clock.ms ELSE last_at_ms END FROM clock
  WHERE name = $1 AND set_at_ms = $2 AND next_at_ms IS NOT DISTINCT FROM $3::bigint AND paused = 0 AND NOT EXISTS (
    SELECT 1 FROM (SELECT at_ms FROM lease.fired WHERE schedule = $1 ORDER BY at_ms DESC LIMIT 1 OFFSET $6) AS last
    WHERE last.at_ms > clock.ms)
  RETURNING name`;
const PARENTS = `SELECT parent_id AS id FROM lease.dependencies JOIN lease.jobs ON jobs.id = parent_id
  WHERE job_id = $1 AND finished_at_ms IS NULL`;
const IS_NEXT = `SELECT last_job FROM lease.schedules
  WHERE name = $1 AND set_at_ms = $2 AND next_at_ms IS NOT DISTINCT FROM $3::bigint AND paused = 0 FOR UPDATE`;
const STATE = "SELECT state FROM lease.jobs WHERE id = $1";
const FIRED = "INSERT INTO lease.fired (schedule, at_ms) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING at_ms";
const MADE = "UPDATE lease.fired SET job_id = $3 WHERE schedule = $1 AND at_ms = $2";
const MOVE = `UPDATE lease.schedules SET next_at_ms = $2, last_at_ms = coalesce($3, last_at_ms), last_job = $4
  WHERE name = $1`;
const FORGET = `DELETE FROM lease.fired WHERE schedule = $1 AND at_ms < (
  SELECT at_ms FROM lease.fired WHERE schedule = $1 ORDER BY at_ms DESC LIMIT 1 OFFSET $2)`;
const KEPT = 1_000;

export async function setSchedule(db: Connection, settings: ScheduleSettings, next_at_ms: number): Promise<void> {
  const { name, cron, every_ms, zone, overlap, catch_up, jitter_ms, job } = settings;
  await db.query(SET, [name, cron, every_ms, zone, overlap, catch_up, jitter_ms, NO_TEMPLATE, next_at_ms]);
  await writeTemplate(db, name, templateText(job));
}

/** Of a schedule that was just written without: it holds variables, which never go as parameters (see writeEnvs). */
export async function writeTemplate(db: Connection, schedule: string, text: string): Promise<void> {
  await db.copyIn(SQL.copyEnv, [[IN_PASSING, text]]);
  await db.query(SET_TEMPLATE, [schedule, IN_PASSING]);
}

export async function dropSchedule(db: Connection, name: string): Promise<boolean> {
  return (await db.query(DROP, [name])).length > 0;
}

export async function pauseSchedule(
  db: Connection,
  name: string,
  paused: boolean,
  next_at_ms: number | null,
): Promise<boolean> {
  return (await db.query(PAUSE, [name, paused ? 1 : 0, next_at_ms])).length > 0;
}

export async function schedules(db: Connection): Promise<Schedule[]> {
  return (await db.query(ALL)).map(toSchedule);
}

export async function nextSchedule(db: Connection): Promise<number | null> {
  const [row] = await db.query(NEXT);
  return (row?.["at_ms"] ?? null) as number | null;
}

/** In a transaction. */
export async function fire(
  db: Connection,
  schedule: Schedule,
  firings: readonly Firing[],
  next_at_ms: number | null,
): Promise<number | null> {
  const [row] = await db.query(IS_NEXT, [schedule.name, schedule.set_at_ms, schedule.next_at_ms]);
  if (row === undefined) return null;
  let last = row["last_job"] as number | null;
  let made = 0;
  for (const { at_ms, job } of firings) {
    if ((await db.query(FIRED, [schedule.name, at_ms])).length === 0) continue;
    const id = await fireOne(db, schedule, job, last);
    if (id === null) continue;
    await db.query(MADE, [schedule.name, at_ms, id]);
    last = id;
    made += 1;
  }
  await db.query(MOVE, [schedule.name, next_at_ms, firings.at(-1)?.at_ms ?? null, last]);
  await db.query(FORGET, [schedule.name, KEPT]);
  return made;
}

/** Null: it was left out, because the one before is not over. */
async function fireOne(db: Connection, schedule: Schedule, job: Firing["job"], last: number | null) {
  const add = async (one: Firing["job"]) => {
    checkAll([one]);
    return (await enqueue(db, [one]))[0]?.id ?? null;
  };
  const [row] = last === null ? [] : await db.query(STATE, [last]);
  const state = (row?.["state"] ?? null) as StateName | null;
  if (last === null || isOver(state) || schedule.overlap === "queue") return add(job);
  if (schedule.overlap === "skip") return null;
  // It may itself have waited for one to end, whose place it was to take.
  const after_any = [...job.after_any, ...idsOf(await db.query(PARENTS, [last]))];
  const [answer] = await cancel(db, [last], replacedReason(schedule.name));
  if (answer?.status === "cancelling") after_any.push(last);
  return add({ ...job, after_any });
}

export async function rewindSchedule(db: Connection, schedule: Schedule, to: Rewound): Promise<boolean> {
  const { name, set_at_ms, next_at_ms } = schedule;
  const params = [name, set_at_ms, next_at_ms, to.set_at_ms, to.next_at_ms, KEPT - 1];
  return (await db.query(REWIND, params)).length > 0;
}
