/** Numbers and times as people read them. */

const UNITS: readonly [ms: number, name: string][] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "m"],
  [1_000, "s"],
];

/** `41s`, `3m 12s`, `2h 5m`, `5d`: two units at the most. */
export function lengthText(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)}s`;
  const first = UNITS.findIndex(([unit]) => ms >= unit);
  const [large_ms, large] = UNITS[first] ?? [1_000, "s"];
  const next = UNITS[first + 1];
  const whole = Math.floor(ms / large_ms);
  const rest = next === undefined ? 0 : Math.floor((ms % large_ms) / next[0]);
  return rest === 0 || next === undefined ? `${whole}${large}` : `${whole}${large} ${rest}${next[1]}`;
}

/** `3m ago`, `in 41s`, `in 1h 59m`, `now`: what is awaited is told closer, and to the nearest minute or second. */
export function agoText(at_ms: number, now_ms: number): string {
  const distance_ms = at_ms - now_ms;
  const far_ms = Math.abs(distance_ms);
  if (far_ms < 1_000) return "now";
  if (distance_ms > 0) return `in ${untilText(distance_ms)}`;
  const [unit_ms, unit] = UNITS.find(([ms]) => far_ms >= ms) ?? [1_000, "s"];
  return `${Math.floor(far_ms / unit_ms)}${unit} ago`;
}

function untilText(ms: number): string {
  const seconds = Math.round(ms / 1_000);
  return seconds < 60 ? `${seconds}s` : lengthText(Math.round(ms / 60_000) * 60_000);
}

const grouped = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** All digits up to 99,999; `1.2M` beyond. */
export function countText(count: number): string {
  return count < 100_000 ? grouped.format(count) : compact.format(count);
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${countText(count)} ${count === 1 ? one : many}`;
}

const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function momentText(at: string): string {
  return clock.format(new Date(at));
}

/** `14:03:09`, in local time. */
export function clockText(at: string): string {
  return new Date(at).toLocaleTimeString("en-GB");
}
