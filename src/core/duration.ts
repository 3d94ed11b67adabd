/**
 * Durations as people write them (`500ms 30s 5m 2h 1d`, also combined: `1h30m`) and as we write them back.
 */

import { LeaseError } from "./errors.ts";

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;
type Unit = keyof typeof UNIT_MS;

/** Ten years: longer is a typing error, and keeps every sum of times far from the limits of an integer. */
export const LONGEST_MS = 3_650 * UNIT_MS.d;

const PART = /(\d+(?:\.\d+)?)(ms|s|m|h|d|w)/gy;

/** A time in whole milliseconds, or what is wrong with it and, where the problem does not name it, with which text. */
export function readDuration(text: string): { value: number } | { problem: string; about: string | null } {
  const trimmed = text.trim();
  if (trimmed === "0") return { value: 0 };
  let total_ms = 0;
  PART.lastIndex = 0;
  let end = 0;
  for (let match = PART.exec(trimmed); match; match = PART.exec(trimmed)) {
    total_ms += Number(match[1]) * UNIT_MS[match[2] as Unit];
    end = PART.lastIndex;
  }
  if (trimmed === "" || end !== trimmed.length) return { problem: notADuration(trimmed), about: trimmed };
  if (total_ms > LONGEST_MS) return { problem: `${trimmed} is too long: at most 3650d`, about: null };
  return { value: Math.round(total_ms) };
}

/** `name` is what the error calls the value, for example `--lease`. */
export function parseDuration(text: string, name: string): number {
  const read = readDuration(text);
  if ("value" in read) return read.value;
  const about = read.about === null ? "" : `"${read.about}" `;
  throw new LeaseError("usage", `${name} ${about}${read.problem}`);
}

function notADuration(text: string): string {
  const hint = /^\d+$/.test(text) ? ` (did you mean ${text}s?)` : "";
  const negative = text.startsWith("-") ? "can't be negative" : "is not a duration";
  return `${negative}: write 500ms, 30s, 5m, 2h or 1d${hint}`;
}

/** The two largest units that matter: `5m`, `1h30m`, `450ms`, `2.5s`. */
export function formatDuration(ms: number): string {
  if (ms < 0) return `-${formatDuration(-ms)}`;
  if (Math.round(ms) < 1_000) return `${Math.round(ms)}ms`;
  if (ms < 10_000 && Math.round(ms / 100) % 10 !== 0) return `${(Math.round(ms / 100) / 10).toFixed(1)}s`;
  // Rounded to what will be shown before the unit is chosen: 23h59m50s is 1d, not 24h.
  const seconds = Math.round(ms / 1_000);
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3_600) return twoUnits(seconds, 60, "m", "s");
  const minutes = Math.round(seconds / 60);
  if (minutes < 1_440) return twoUnits(minutes, 60, "h", "m");
  return twoUnits(Math.round(minutes / 60), 24, "d", "h");
}

function twoUnits(value: number, size: number, large: string, small: string): string {
  const rest = value % size;
  const head = `${Math.floor(value / size)}${large}`;
  return rest === 0 ? head : `${head}${String(rest).padStart(2, "0")}${small}`;
}
