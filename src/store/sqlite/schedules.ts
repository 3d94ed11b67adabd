/** Schedules, and how their times become jobs: one for each, by the key of `fired` and because a time is fired only while it is next. */

import type { StateName } from "../../core/job.ts";
import { templateText, type Firing, type Rewound, type Schedule, type ScheduleSettings } from "../../core/schedule.ts";
import { isOver, replacedReason, toSchedule } from "../shared/schedules.ts";
import { cancel } from "./cancel.ts";
import { stateOf } from "./dependencies.ts";
import { enqueue } from "./enqueue.ts";
import type { Database } from "./open.ts";

/** One that comes every so often counts from when it was set; that changes each time, so that nobody fires it as it was. */
const SET = `INSERT INTO schedules (name, cron, every_ms, zone, overlap, catch_up, jitter_ms, job, set_at_ms, next_at_ms)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, coalesce(?9 + ?3, ?10)) ON CONFLICT (name) DO UPDATE SET cron = ?2,
    every_ms = ?3, zone = ?4, overlap = ?5, catch_up = ?6, jitter_ms = ?7, job = ?8,
    set_at_ms = ?9 + (set_at_ms = ?9), next_at_ms = coalesce(?9 + (set_at_ms = ?9) + ?3, ?10)`;
const DROP = "DELETE FROM schedules WHERE name = ?1";
const PAUSE = "UPDATE schedules SET paused = ?2, next_at_ms = coalesce(?3, next_at_ms) WHERE name = ?1";
const ALL = `SELECT schedules.*, jobs.state AS last_state FROM schedules LEFT JOIN jobs ON jobs.id = schedules.last_job
  ORDER BY name`;
const NEXT = `SELECT min(iif(coalesce(last_at_ms, set_at_ms) > ?1, min(?1, next_at_ms), next_at_ms)) AS at_ms
  FROM schedules WHERE paused = 0`;
const REWIND = `UPDATE schedules SET set_at_ms = ?4, next_at_ms = ?5, last_at_ms = min(last_at_ms, ?6)
  WHERE name = ?1 AND set_at_ms = ?2 AND next_at_ms IS ?3 AND paused = 0 AND NOT EXISTS (
    SELECT 1 FROM (SELECT at_ms FROM fired WHERE schedule = ?1 ORDER BY at_ms DESC LIMIT 1 OFFSET ?7) WHERE at_ms > ?6)`;
const IS_NEXT = `SELECT last_job FROM schedules
  WHERE name = ?1 AND set_at_ms = ?2 AND next_at_ms IS ?3 AND paused = 0`;
const FIRED = "INSERT INTO fired (schedule, at_ms, job_id) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
const MOVE =
  "UPDATE schedules SET next_at_ms = ?2, last_at_ms = coalesce(?3, last_at_ms), last_job = ?4 WHERE name = ?1";
const FORGET = `DELETE FROM fired WHERE schedule = ?1 AND at_ms < (
  SELECT at_ms FROM fired WHERE schedule = ?1 ORDER BY at_ms DESC LIMIT 1 OFFSET ?2)`;
const PARENTS = `SELECT parent_id FROM dependencies JOIN jobs ON jobs.id = parent_id
  WHERE job_id = ?1 AND finished_at_ms IS NULL`;
const KEPT = 1_000;

export function setSchedule(db: Database, settings: ScheduleSettings, next_at_ms: number): void {
  const { name, cron, every_ms, zone, overlap, catch_up, jitter_ms, job } = settings;
  const params = [name, cron, every_ms, zone, overlap, catch_up, jitter_ms, templateText(job), db.now_ms(), next_at_ms];
  db.sql(SET).run(...params);
}

export function dropSchedule(db: Database, name: string): boolean {
  return db.sql(DROP).run(name).changes > 0;
}

export function pauseSchedule(db: Database, name: string, paused: boolean, next_at_ms: number | null): boolean {
  return db.sql(PAUSE).run(name, paused ? 1 : 0, next_at_ms).changes > 0;
}

export function schedules(db: Database): Schedule[] {
  return db.sql(ALL).all().map(toSchedule);
}

export function nextSchedule(db: Database): number | null {
  return (db.sql(NEXT).get(db.now_ms())?.["at_ms"] ?? null) as number | null;
}

export function fire(
  db: Database,
  schedule: Schedule,
  firings: readonly Firing[],
  next_at_ms: number | null,
): number | null {
  const row = db.sql(IS_NEXT).get(schedule.name, schedule.set_at_ms, schedule.next_at_ms);
  if (row === null) return null;
  let last = row["last_job"] as number | null;
  let made = 0;
  for (const { at_ms, job } of firings) {
    if (db.sql(FIRED).run(schedule.name, at_ms, null).changes === 0) continue;
    const id = fireOne(db, schedule, job, last);
    if (id === null) continue;
    db.sql("UPDATE fired SET job_id = ?3 WHERE schedule = ?1 AND at_ms = ?2").run(schedule.name, at_ms, id);
    last = id;
    made += 1;
  }
  db.sql(MOVE).run(schedule.name, next_at_ms, firings.at(-1)?.at_ms ?? null, last);
  db.sql(FORGET).run(schedule.name, KEPT);
  return made;
}

/** Null: it was left out, because the one before is not over. */
function fireOne(db: Database, schedule: Schedule, job: Firing["job"], last: number | null): number | null {
  const state = last === null ? null : (stateOf(db, last) as StateName | null);
  if (last === null || isOver(state) || schedule.overlap === "queue") return enqueue(db, [job])[0]?.id ?? null;
  if (schedule.overlap === "skip") return null;
  // It may itself have waited for one to end, whose place it was to take.
  const before = db.sql(PARENTS).all(last);
  const [answer] = cancel(db, [last], replacedReason(schedule.name));
  const after_any = [...job.after_any, ...before.map((row) => row["parent_id"] as number)];
  if (answer?.status === "cancelling") after_any.push(last);
  return enqueue(db, [{ ...job, after_any }])[0]?.id ?? null;
}

export function rewindSchedule(db: Database, { name, set_at_ms, next_at_ms }: Schedule, to: Rewound): boolean {
  const params = [name, set_at_ms, next_at_ms, to.set_at_ms, to.next_at_ms, db.now_ms(), KEPT - 1];
  return db.sql(REWIND).run(...params).changes > 0;
}
