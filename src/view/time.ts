/** Moments as text: relative to now for people, RFC 3339 in UTC for machines. */

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** `3m ago`, `in 41s`, `in 1h59m`, `now`: one unit tells how long ago something was, what is awaited is told closer. */
export function relative(at_ms: number, now_ms: number): string {
  const distance_ms = at_ms - now_ms;
  if (Math.abs(distance_ms) < 1_000) return "now";
  return distance_ms > 0 ? `in ${until(distance_ms)}` : `${coarse(-distance_ms)} ago`;
}

/** The same in a sentence: "completed just now". */
export function sentenceRelative(at_ms: number, now_ms: number): string {
  const text = relative(at_ms, now_ms);
  return text === "now" ? "just now" : text;
}

/** To the nearest second, minute, or hour of several days. */
function until(ms: number): string {
  if (Math.round(ms / 1_000) < 60) return `${Math.round(ms / 1_000)}s`;
  const minutes = Math.round(ms / MINUTE_MS);
  if (minutes < 60) return `${minutes}m`;
  if (minutes < 24 * 60) return twoUnits(Math.floor(minutes / 60), "h", minutes % 60, "m");
  const hours = Math.round(ms / HOUR_MS);
  return twoUnits(Math.floor(hours / 24), "d", hours % 24, "h");
}

function twoUnits(large: number, unit: string, small: number, of: string): string {
  return `${large}${unit}${small === 0 ? "" : `${small}${of}`}`;
}

/** A length of time in its largest unit: `41s`, `3m`, `2h`, `5d`. */
export function coarse(ms: number): string {
  if (ms < MINUTE_MS) return `${Math.floor(ms / 1_000)}s`;
  if (ms < HOUR_MS) return `${Math.floor(ms / MINUTE_MS)}m`;
  if (ms < DAY_MS) return `${Math.floor(ms / HOUR_MS)}h`;
  return `${Math.floor(ms / DAY_MS)}d`;
}

/** `2026-03-01T09:30:00.000Z`. */
export function rfc3339(at_ms: number): string {
  return new Date(at_ms).toISOString();
}

/** `2026-03-01 09:30:00`: the same moment as a calendar and a clock on the wall show it, for people. */
export function readable(at_ms: number): string {
  const moment = new Date(at_ms);
  const two = (number: number) => String(number).padStart(2, "0");
  const day = [moment.getFullYear(), two(moment.getMonth() + 1), two(moment.getDate())].join("-");
  return `${day} ${[moment.getHours(), moment.getMinutes(), moment.getSeconds()].map(two).join(":")}`;
}
