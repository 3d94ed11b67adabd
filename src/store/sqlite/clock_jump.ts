/**
 * Jumps of this machine's clock, noticed by comparing it with the time since boot: what anybody saw last is kept in the
 * store, so that a sweep that begins after a jump knows of it as well. A sleep of the machine counts as one.
 */

import * as v from "valibot";
import { JUMP_MS, type MachineTime } from "../../core/clock.ts";
import { finite, fromJson } from "../shared/rows.ts";
import type { Database } from "./open.ts";
import { SQL } from "./statements.ts";

interface Reading extends MachineTime {
  wall_ms: number;
  hold_ms: number;
}

const CLOCK_SEEN = v.object({
  boot_id: v.string(),
  /** When the machine was booted, by its clock of now. */
  booted_at_ms: finite,
  suspends: finite,
  /** In time since boot. */
  jumped_at_ms: v.nullable(finite),
});
type Seen = v.InferOutput<typeof CLOCK_SEEN>;

const NAME = "clock";

const CUT_LEASES = `UPDATE jobs SET expires_at_ms = ?1 + granted.lease_ms, last_beat_at_ms = min(last_beat_at_ms, ?1)
  FROM attempts AS granted WHERE granted.job_id = jobs.id AND granted.attempt = jobs.token
    AND jobs.state = 'running' AND jobs.expires_at_ms > ?1 + granted.lease_ms`;
// A pause before a retry is an interval; what a person put off is a moment, and stays. One that began after the clock
// was set and before anybody noticed is cut short: better than an hour too long.
const MOVE_RETRIES = "UPDATE jobs SET run_at_ms = run_at_ms + ?1 WHERE state = 'scheduled' AND token > 0";

function seen(db: Database, boot_id: string): Seen | null {
  const last = fromJson(CLOCK_SEEN, db.sql(SQL.getMeta).get(NAME)?.["value"]);
  return last?.boot_id === boot_id ? last : null;
}

function moved(last: Seen, { wall_ms, uptime_ms }: Reading): number {
  return wall_ms - uptime_ms - last.booted_at_ms;
}

/** Nothing to note, and nothing to wait for. */
export function isSteady(db: Database, reading: Reading): boolean {
  // A system that does not tell its uptime: there is nothing to compare with.
  if (Number.isNaN(reading.uptime_ms)) return true;
  const last = seen(db, reading.boot_id);
  if (last === null || last.suspends !== reading.suspends) return false;
  return Math.abs(moved(last, reading)) <= JUMP_MS && last.jumped_at_ms === null;
}

export function noticeClockJump(db: Database, reading: Reading): boolean {
  const { boot_id, wall_ms, uptime_ms, suspends, hold_ms } = reading;
  const last = seen(db, boot_id);
  const moved_ms = last === null ? 0 : moved(last, reading);
  if (moved_ms < -JUMP_MS) {
    db.sql(CUT_LEASES).run(wall_ms);
    db.sql(MOVE_RETRIES).run(moved_ms);
  }
  const jumped = moved_ms > JUMP_MS || (last !== null && suspends !== last.suspends);
  const jumped_at_ms = jumped ? uptime_ms : (last?.jumped_at_ms ?? null);
  const held = jumped_at_ms !== null && uptime_ms - jumped_at_ms < hold_ms;
  const next: Seen = { boot_id, booted_at_ms: wall_ms - uptime_ms, suspends, jumped_at_ms: held ? jumped_at_ms : null };
  db.sql(SQL.setMeta).run(NAME, JSON.stringify(next));
  return held;
}
