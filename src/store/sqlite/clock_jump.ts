/**
 * Jumps of this machine's clock, noticed by comparing it with the time since boot: what anybody saw last is kept in the
 * store, so that a sweep that begins after a jump knows of it as well. A sleep of the machine counts as one.
 */

import type { MachineTime } from "../../core/clock.ts";
import { JUMP_MS } from "../../core/clock.ts";
import { fromJson } from "../shared/rows.ts";
import { CLOCK_SEEN } from "../shared/schemas.ts";
import type { Statements } from "./connection.ts";

interface Reading extends MachineTime {
  wall_ms: number;
  hold_ms: number;
}

interface Seen {
  boot_id: string;
  /** When the machine was booted, by its clock of now. */
  booted_at_ms: number;
  suspends: number;
  /** In time since boot. */
  jumped_at_ms: number | null;
}

const NAME = "clock";

function seen(statements: Statements, boot_id: string): Seen | null {
  const last: Seen | null = fromJson(CLOCK_SEEN, statements.get("getMeta").get(NAME)?.["value"]);
  return last?.boot_id === boot_id ? last : null;
}

function moved(last: Seen, { wall_ms, uptime_ms }: Reading): number {
  return wall_ms - uptime_ms - last.booted_at_ms;
}

/** Nothing to note, and nothing to wait for. */
export function isSteady(statements: Statements, reading: Reading): boolean {
  // A system that does not tell its uptime: there is nothing to compare with.
  if (Number.isNaN(reading.uptime_ms)) return true;
  const last = seen(statements, reading.boot_id);
  if (last === null || last.suspends !== reading.suspends) return false;
  return Math.abs(moved(last, reading)) <= JUMP_MS && last.jumped_at_ms === null;
}

export function noticeJump(statements: Statements, reading: Reading): boolean {
  const { boot_id, wall_ms, uptime_ms, suspends, hold_ms } = reading;
  const last = seen(statements, boot_id);
  const moved_ms = last === null ? 0 : moved(last, reading);
  if (moved_ms < -JUMP_MS) {
    statements.get("cutLeases").run(wall_ms);
    statements.get("moveRetries").run(moved_ms);
  }
  const jumped = moved_ms > JUMP_MS || (last !== null && suspends !== last.suspends);
  const jumped_at_ms = jumped ? uptime_ms : (last?.jumped_at_ms ?? null);
  const held = jumped_at_ms !== null && uptime_ms - jumped_at_ms < hold_ms;
  const next: Seen = { boot_id, booted_at_ms: wall_ms - uptime_ms, suspends, jumped_at_ms: held ? jumped_at_ms : null };
  statements.get("setMeta").run(NAME, JSON.stringify(next));
  return held;
}
