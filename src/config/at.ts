/**
 * Moments as people write them for `--at`, in the local time zone unless they name another:
 *
 *     18:30   today 18:30   tomorrow 9:00   2026-12-24 18:00   2026-12-24T18:00:00+01:00
 *
 * A time alone is the next time a clock on the wall shows it. What has passed is refused, as at(1) does; a moment of the
 * last minute still counts as now, so that `--at "$(date -Is)"` works.
 *
 * When clocks change: of a time that comes twice the first that is still ahead counts, and one that is skipped is the
 * moment at which it would have come.
 */

import { LONGEST_MS } from "../core/duration.ts";
import { LeaseError } from "../core/errors.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

const TIME = String.raw`(?<hour>\d{1,2}):(?<minute>\d{2})(?::(?<second>\d{2})(?:[.,](?<fraction>\d{1,9}))?)?`;
const DATE = String.raw`(?<year>\d{4})-(?<month>\d{2})-(?<day>\d{2})`;
const ZONE = String.raw`(?<zone>z|[+-]\d{2}:?\d{2})`;
const MOMENT = new RegExp(`^${DATE}(?:t|\\s+)${TIME}\\s*${ZONE}?$`, "i");
const BY_DAY = new RegExp(`^(?:(?<word>today|tomorrow)\\s+)?${TIME}$`, "i");

/** A day and a time as a calendar and a clock on the wall show them. */
interface Wall {
  year: number;
  /** From 1 on. */
  month: number;
  day: number;
  /** Since midnight. */
  time_ms: number;
}

/** `name` is what the error calls the value, for example `--at`. */
export function parseAt(text: string, name: string, now_ms: number): number {
  const trimmed = text.trim();
  const at_ms = byDay(trimmed, name, now_ms) ?? moment(trimmed, name, now_ms);
  if (at_ms === null) refuse(`${name} "${trimmed}" is not a moment: ${hint(trimmed)}`);
  if (at_ms < now_ms - MINUTE_MS) refuse(`${name} "${trimmed}" has passed: leave it out to run at once`);
  if (at_ms > now_ms + LONGEST_MS) refuse(`${name} "${trimmed}" is too far ahead: at most 3650 days`);
  return at_ms;
}

function byDay(text: string, name: string, now_ms: number): number | null {
  const groups = BY_DAY.exec(text)?.groups;
  if (groups === undefined) return null;
  const time_ms = timeOf(groups, name, text);
  const word = groups["word"]?.toLowerCase();
  const today = dayOf(now_ms);
  const days = word === "tomorrow" ? [1] : word === "today" ? [0] : [0, 1];
  const moments = days.flatMap((more) => momentsOf({ ...today, day: today.day + more, time_ms }));
  // None is ahead: of the words for a day the first is right, and refused as past.
  return moments.find((at_ms) => at_ms > now_ms) ?? moments[0] ?? null;
}

function moment(text: string, name: string, now_ms: number): number | null {
  const groups = MOMENT.exec(text)?.groups;
  if (groups === undefined) return null;
  const wall: Wall = {
    year: Number(groups["year"]),
    month: Number(groups["month"]),
    day: Number(groups["day"]),
    time_ms: timeOf(groups, name, text),
  };
  const date = new Date(asUtc({ ...wall, time_ms: 0 }));
  if (date.getUTCMonth() + 1 !== wall.month || date.getUTCDate() !== wall.day) {
    refuse(`${name} "${text}" is not a day of the calendar`);
  }
  const zone = groups["zone"];
  if (zone !== undefined) return asUtc(wall) - zoneOffset(zone, name, text);
  const moments = momentsOf(wall);
  return moments.find((at_ms) => at_ms > now_ms) ?? moments.at(-1) ?? null;
}

function timeOf(groups: Readonly<Record<string, string | undefined>>, name: string, text: string): number {
  const [hour, minute, second] = [Number(groups["hour"]), Number(groups["minute"]), Number(groups["second"] ?? 0)];
  if (hour > 23 || minute > 59 || second > 59) refuse(`${name} "${text}" is not a time of day: 0:00 to 23:59:59`);
  const fraction_ms = Number((groups["fraction"] ?? "").padEnd(3, "0").slice(0, 3));
  return hour * HOUR_MS + minute * MINUTE_MS + second * 1_000 + fraction_ms;
}

function zoneOffset(zone: string, name: string, text: string): number {
  if (zone.toLowerCase() === "z") return 0;
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(-2))];
  if (hours > 23 || minutes > 59) refuse(`${name} "${text}" has no offset that exists: write Z, or +01:00`);
  return (zone.startsWith("-") ? -1 : 1) * (hours * HOUR_MS + minutes * MINUTE_MS);
}

/** All moments at which a clock here shows it, in order: one, two where clocks go back, and a stand-in where it is skipped. */
function momentsOf(wall: Wall): number[] {
  const utc_ms = asUtc(wall);
  const before_ms = utc_ms - offsetAt(utc_ms - DAY_MS);
  const after_ms = utc_ms - offsetAt(utc_ms + DAY_MS);
  const shown = [...new Set([before_ms, after_ms])].filter((at_ms) => at_ms + offsetAt(at_ms) === utc_ms);
  return shown.length === 0 ? [before_ms] : shown.toSorted((a, b) => a - b);
}

/** How far clocks here are ahead of UTC. */
function offsetAt(at_ms: number): number {
  return -new Date(at_ms).getTimezoneOffset() * MINUTE_MS;
}

function dayOf(at_ms: number): Wall {
  const date = new Date(at_ms);
  return { year: date.getFullYear(), month: date.getMonth() + 1, day: date.getDate(), time_ms: 0 };
}

function asUtc({ year, month, day, time_ms }: Wall): number {
  return Date.UTC(year, month - 1, day) + time_ms;
}

function hint(text: string): string {
  const usual = "write 18:30, tomorrow 9:00, 2026-12-24 18:00 or 2026-12-24T18:00:00Z";
  if (/^\d{4}-\d{2}-\d{2}$/.test(text)) return `say a time as well, ${text} 18:00`;
  if (/^(?:now\b|in\b|\+)/i.test(text)) return `${usual}; a time from now is --delay 5m`;
  return usual;
}

function refuse(message: string): never {
  throw new LeaseError("usage", message);
}
