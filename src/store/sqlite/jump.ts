/**
 * Jumps of this machine's clock, noticed by comparing it with the monotonic one: what anybody saw last is kept in the
 * store, so that a sweep that begins after a jump knows of it as well.
 */

import { JUMP_MS } from "../../core/clock.ts";
import type { Statements } from "./statements.ts";

interface Reading {
  boot_id: string;
  mono_ms: number;
  hold_ms: number;
}

interface Seen {
  boot_id: string;
  /** How far the clock is ahead of the monotonic one. */
  offset_ms: number;
  /** On the monotonic clock. */
  jumped_at_ms: number | null;
}

const NAME = "clock";

function seen(statements: Statements): Seen | null {
  const row = statements.get("getMeta").get(NAME);
  return row === null ? null : (JSON.parse(row["value"] as string) as Seen);
}

/** Nothing to note, and nothing to wait for. */
export function isSteady(statements: Statements, { boot_id, mono_ms, hold_ms }: Reading, now_ms: number): boolean {
  const last = seen(statements);
  if (last === null || last.boot_id !== boot_id) return false;
  if (Math.abs(now_ms - mono_ms - last.offset_ms) > JUMP_MS) return false;
  return last.jumped_at_ms === null || mono_ms - last.jumped_at_ms >= hold_ms;
}

export function noticeJump(statements: Statements, reading: Reading, now_ms: number): boolean {
  const { boot_id, mono_ms, hold_ms } = reading;
  const offset_ms = now_ms - mono_ms;
  const last = seen(statements);
  const known = last?.boot_id === boot_id ? last : { offset_ms, jumped_at_ms: null };
  const moved_ms = offset_ms - known.offset_ms;
  if (moved_ms < -JUMP_MS) statements.get("cutLeases").run(now_ms);
  const jumped_at_ms = moved_ms > JUMP_MS ? mono_ms : known.jumped_at_ms;
  const held = jumped_at_ms !== null && mono_ms - jumped_at_ms < hold_ms;
  const next: Seen = { boot_id, offset_ms, jumped_at_ms: held ? jumped_at_ms : null };
  statements.get("setMeta").run(NAME, JSON.stringify(next));
  return held;
}
