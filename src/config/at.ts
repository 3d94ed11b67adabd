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

/** What is wrong with what was given. */
type Refuse = (problem: string) => never;
type Groups = Readonly<Record<string, string | undefined>>;

/** `name` is what the error calls the value, for example `--at`. */
export function parseAt(text: string, name: string, now_ms: number): number {
  const trimmed = text.trim();
  const refuse: Refuse = (problem) => {
    throw new LeaseError("usage", `${name} "${trimmed}" ${problem}`);
  };
  const by_day = BY_DAY.exec(trimmed)?.groups;
  const groups = MOMENT.exec(trimmed)?.groups;
  const at_ms = by_day ? byDay(by_day, now_ms, refuse) : groups ? moment(groups, now_ms, refuse) : null;
  if (at_ms === null && hasPassed(trimmed, now_ms)) return refuse(PASSED);
  if (at_ms === null) return refuse(`is not a moment: ${hint(trimmed)}`);
  if (at_ms < now_ms - MINUTE_MS) return refuse(PASSED);
  if (at_ms > now_ms + LONGEST_MS) return refuse("is too far ahead: at most 3650 days");
  return at_ms;
}

const PASSED = "has passed: leave it out to run at once";

/** Of a day without a time: whatever time is added, it can't be right. */
function hasPassed(text: string, now_ms: number): boolean {
  const [, year, month, day] = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text) ?? [];
  return year !== undefined && new Date(Number(year), Number(month) - 1, Number(day) + 1).getTime() <= now_ms;
}

function byDay(groups: Groups, now_ms: number, refuse: Refuse): number | null {
  const time_ms = timeOf(groups, refuse);
  const word = groups["word"]?.toLowerCase();
  const now = new Date(now_ms);
  const today = { year: now.getFullYear(), month: now.getMonth() + 1, day: now.getDate() };
  const days = word === "tomorrow" ? [1] : word === "today" ? [0] : [0, 1];
  const moments = days.flatMap((more) => momentsOf({ ...today, day: today.day + more, time_ms }));
  // None is ahead: of the words for a day the first is right, and refused as past.
  return moments.find((at_ms) => at_ms > now_ms) ?? moments[0] ?? null;
}

function moment(groups: Groups, now_ms: number, refuse: Refuse): number | null {
  const [year, month, day] = [Number(groups["year"]), Number(groups["month"]), Number(groups["day"])];
  const wall: Wall = { year, month, day, time_ms: timeOf(groups, refuse) };
  const date = new Date(asUtc({ ...wall, time_ms: 0 }));
  if (date.getUTCMonth() + 1 !== month || date.getUTCDate() !== day) refuse("is not a day of the calendar");
  const zone = groups["zone"];
  if (zone !== undefined) return asUtc(wall) - zoneOffset(zone, refuse);
  const moments = momentsOf(wall);
  return moments.find((at_ms) => at_ms > now_ms) ?? moments.at(-1) ?? null;
}

function timeOf(groups: Groups, refuse: Refuse): number {
  const [hour, minute, second] = [Number(groups["hour"]), Number(groups["minute"]), Number(groups["second"] ?? 0)];
  if (hour > 23 || minute > 59 || second > 59) refuse("is not a time of day: 0:00 to 23:59:59");
  const fraction_ms = Number((groups["fraction"] ?? "").padEnd(3, "0").slice(0, 3));
  return hour * HOUR_MS + minute * MINUTE_MS + second * 1_000 + fraction_ms;
}

function zoneOffset(zone: string, refuse: Refuse): number {
  if (zone.toLowerCase() === "z") return 0;
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(-2))];
  if (hours > 23 || minutes > 59) refuse("has no offset that exists: write Z, or +01:00");
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

function asUtc({ year, month, day, time_ms }: Wall): number {
  return Date.UTC(year, month - 1, day) + time_ms;
}

function hint(text: string): string {
  const usual = "write 18:30, tomorrow 9:00, 2026-12-24 18:00 or 2026-12-24T18:00:00Z";
  if (/^\d{4}-\d{2}-\d{2}$/.test(text)) return `say a time as well, ${text} 18:00`;
  if (/^(?:now\b|in\b|\+)/i.test(text)) return `${usual}; a time from now is --delay 5m`;
  return usual;
}
