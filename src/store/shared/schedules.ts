/** Schedules as they are stored, the same for every engine. */

import type { StateName } from "../../core/job.ts";
import { CATCH_UPS, OVERLAPS, readTemplate, type Schedule } from "../../core/schedule.ts";
import type { SqlRow } from "../../platform/platform.ts";

export function toSchedule(row: SqlRow): Schedule {
  const text = (name: string) => (row[name] ?? null) as string | null;
  const number = (name: string) => (row[name] ?? null) as number | null;
  return {
    name: text("name") ?? "",
    cron: text("cron"),
    every_ms: number("every_ms"),
    zone: text("zone"),
    overlap: OVERLAPS.find((word) => word === row["overlap"]) ?? "skip",
    catch_up: CATCH_UPS.find((word) => word === row["catch_up"]) ?? "one",
    jitter_ms: number("jitter_ms") ?? 0,
    job: readTemplate(text("job") ?? "{}"),
    set_at_ms: number("set_at_ms") ?? 0,
    paused: Number(row["paused"]) !== 0,
    next_at_ms: number("next_at_ms"),
    last_at_ms: number("last_at_ms"),
    last_job: number("last_job"),
    last_state: text("last_state"),
  };
}

const LIVE: ReadonlySet<StateName | null> = new Set(["blocked", "scheduled", "pending", "running"]);

export function isOver(state: StateName | null): boolean {
  return !LIVE.has(state);
}

export function replacedReason(name: string): string {
  return `replaced by the next job of schedule ${name}`;
}
