/** When the times of a schedule come: cron expressions in any zone, across daylight saving, or every so often. */

import { LeaseError } from "../core/errors.ts";
import type { NextTime, Schedule, ScheduleSettings } from "../core/schedule.ts";

type Times = Pick<ScheduleSettings, "cron" | "every_ms" | "zone"> & Pick<Schedule, "set_at_ms">;

const FIELDS = ["minute", "hour", "day of the month", "month", "day of the week"];
const RANGES = ["0-59", "0-23", "1-31", "1-12 or JAN-DEC", "0-7 or SUN-SAT"] as const;

/** Throws what is wrong, with the field; the reader of cron expressions is loaded only where there is one. */
export async function timesOf({ cron, every_ms, zone, set_at_ms }: Times): Promise<NextTime> {
  if (every_ms !== null) {
    return (behind_ms) => set_at_ms + (Math.floor((behind_ms - set_at_ms) / every_ms) + 1) * every_ms;
  }
  const expression = cron ?? "";
  const timezone = zone ?? "UTC";
  if (!isZone(timezone)) refuse(`tz ${JSON.stringify(timezone)} is not a time zone: write one such as Europe/Berlin`);
  const { Cron } = await import("croner");
  const read = (text: string) => new Cron(text, { timezone, paused: true, mode: "5-part" });
  const parts = expression.trim().split(/\s+/);
  try {
    const pattern = read(expression);
    return (behind_ms) => pattern.nextRun(new Date(behind_ms))?.getTime() ?? null;
  } catch {
    return refuse(`cron ${JSON.stringify(expression)} ${whatIsWrong(parts, (text) => void read(text))}`);
  }
}

function isZone(zone: string): boolean {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: zone }).resolvedOptions().timeZone !== "";
  } catch {
    return false;
  }
}

/** The first field that can't be read by itself. */
function whatIsWrong(parts: readonly string[], read: (text: string) => void): string {
  if (parts.length !== FIELDS.length) {
    return `has ${parts.length} fields, and five are needed: ${FIELDS.join(", ")}, such as '*/5 * * * *'`;
  }
  for (const [index, part] of parts.entries()) {
    try {
      read(FIELDS.map((_, at) => (at === index ? part : "*")).join(" "));
    } catch {
      return `has the ${FIELDS[index]} ${JSON.stringify(part)}: write ${RANGES[index]}, or *, */5, 1-4, 1,15`;
    }
  }
  return "can't be read: write minute, hour, day of the month, month and day of the week";
}

function refuse(message: string): never {
  throw new LeaseError("usage", message);
}

/** The next so many behind a moment. */
export function timesAhead(next: NextTime, behind_ms: number, count: number): number[] {
  const times: number[] = [];
  for (let at_ms = next(behind_ms); at_ms !== null && times.length < count; at_ms = next(at_ms)) times.push(at_ms);
  return times;
}

/** When it is set: its first time; one that never comes is refused. */
export async function firstTime(settings: ScheduleSettings, now_ms: number): Promise<number> {
  const next = (await timesOf({ ...settings, set_at_ms: now_ms }))(now_ms);
  return next ?? refuse(`cron ${JSON.stringify(settings.cron)} never comes: there is no such day`);
}
