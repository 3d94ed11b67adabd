/**
 * Values as people write them on a command line or in a file. Each error names the flag, what was given and what would
 * be right.
 */

import { formatDuration, parseDuration } from "../core/duration.ts";
import { LeaseError } from "../core/errors.ts";
import type { Backoff, ExitRange } from "../core/retry.ts";
import { DEFAULT_BACKOFF } from "../core/retry.ts";

export function parseInteger(text: string, name: string, range: { min?: number; max?: number } = {}): number {
  const { min = Number.MIN_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER } = range;
  const value = /^[+-]?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(value) && value >= min && value <= max) return value;
  const upper = max === Number.MAX_SAFE_INTEGER ? "" : ` to ${max}`;
  const from = min === Number.MIN_SAFE_INTEGER ? "" : ` from ${min}${upper === "" ? " up" : upper}`;
  throw new LeaseError("usage", `${name} "${text}" is not a whole number${from}`);
}

const BYTE_UNITS: Readonly<Record<string, number>> = { "": 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30 };

/** `4096`, `64k`, `16MiB`, `1g`. */
export function parseBytes(text: string, name: string): number {
  const match = /^(\d+)\s*([kmg]?)(?:i?b)?$/i.exec(text.trim());
  const unit = BYTE_UNITS[match?.[2]?.toLowerCase() ?? ""];
  const bytes = match === null || unit === undefined ? Number.NaN : Number(match[1]) * unit;
  if (Number.isSafeInteger(bytes) && bytes <= 2 ** 30) return bytes;
  throw new LeaseError("usage", `${name} "${text}" is not a size up to 1GiB: write 4096, 64k or 16MiB`);
}

/** `2,64-78`. */
export function parseExitRanges(text: string, name: string): ExitRange[] {
  return text.split(",").map((part) => {
    const match = /^(\d{1,3})(?:-(\d{1,3}))?$/.exec(part.trim());
    const from = Number(match?.[1]);
    const to = Number(match?.[2] ?? match?.[1]);
    if (match !== null && from <= to && to <= 255) return [from, to];
    throw new LeaseError("usage", `${name} "${text}" is not a list of exit codes: write 2,64-78 (0 to 255)`);
  });
}

const MOST_IDS = 1_000_000;

/** Ids and ranges, by spaces or commas: `7 9-12`. */
export function parseIds(words: readonly string[], name: string): number[] {
  if (words.length === 0) return [];
  const ids = new Set<number>();
  for (const word of words.flatMap((words_) => words_.split(",")).filter((part) => part !== "")) {
    const match = /^(\d{1,15})(?:-(\d{1,15}))?$/.exec(word);
    const from = Number(match?.[1]);
    const to = Number(match?.[2] ?? match?.[1]);
    if (match === null || from < 1 || from > to) {
      throw new LeaseError("usage", `${name} "${word}" is not a job id: write 7, or 9-12 for a range`);
    }
    if (to - from + ids.size >= MOST_IDS) throw new LeaseError("usage", `${name} "${word}" is too many jobs at once`);
    for (let id = from; id <= to; id++) ids.add(id);
  }
  if (ids.size === 0) throw new LeaseError("usage", `${name} is empty: write 7, or 9-12 for a range`);
  return [...ids];
}

/** `5s` (doubling from there), `1s..10m` (doubling, with a longest), `fixed:30s`, `none`. */
export function parseBackoff(text: string, name: string): Backoff {
  if (text === "none" || text === "0") return { ...DEFAULT_BACKOFF, first_ms: 0, max_ms: 0 };
  if (text.startsWith("fixed:")) {
    const first_ms = parseDuration(text.slice("fixed:".length), name);
    return { ...DEFAULT_BACKOFF, first_ms, max_ms: first_ms, factor: 1 };
  }
  const [first = "", most, ...more] = text.split("..");
  if (more.length > 0) throw new LeaseError("usage", `${name} "${text}" has more than two ends: write 1s..10m`);
  const first_ms = parseDuration(first, name);
  const max_ms = most === undefined ? Math.max(DEFAULT_BACKOFF.max_ms, first_ms) : parseDuration(most, name);
  if (max_ms >= first_ms) return { ...DEFAULT_BACKOFF, first_ms, max_ms };
  throw new LeaseError(
    "usage",
    `${name} "${text}" begins above its end: ${formatDuration(first_ms)} is more than ${formatDuration(max_ms)}`,
  );
}

/** `A,B=1`: A as it is now, B as given; `\,` is a comma in a value. */
export function parseEnv(
  text: string,
  name: string,
  current: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const env: Record<string, string> = {};
  if (text === "") return env;
  for (const part of text.split(/(?<!\\),/).filter((item) => item !== "")) {
    const equals = part.indexOf("=");
    const key = equals === -1 ? part : part.slice(0, equals);
    const here = Object.hasOwn(current, key) ? current[key] : undefined;
    const value = equals === -1 ? here : part.slice(equals + 1).replaceAll(String.raw`\,`, ",");
    if (!/^[A-Za-z_]\w*$/.test(key)) throw new LeaseError("usage", notAVariable(key, name, text));
    if (value === undefined) throw new LeaseError("usage", `${name} ${key} is not set here: set it, or write ${key}=…`);
    env[key] = value;
  }
  return env;
}

function notAVariable(key: string, name: string, text: string): string {
  const comma = text.includes(`,${key}`) ? String.raw`; a comma inside a value is written \,` : "";
  return `${name} "${key}" is not a variable's name${comma}`;
}

const MOMENT = /^\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[Zz]|[+-]\d\d:\d\d)?)?$/;

/** `2h` before now, or a moment in RFC 3339; one without a zone, or a day alone, is meant as the clock on the wall. */
export function parseSince(text: string, name: string, now_ms: number): number {
  const trimmed = text.trim();
  if (!/^\d{4}-/.test(trimmed)) return now_ms - parseDuration(text, name);
  const at_ms = MOMENT.test(trimmed) ? Date.parse(trimmed.length === 10 ? `${trimmed}T00:00` : trimmed) : Number.NaN;
  if (Number.isFinite(at_ms)) return at_ms;
  throw new LeaseError("usage", `${name} "${text}" is not a moment: write 2h, or 2026-03-01T09:30:00Z`);
}

/** `never` is null. */
export function parseGrace(text: string, name: string): number | null {
  return text === "never" ? null : parseDuration(text, name);
}

/** `auto` is learned from earlier runs. */
export function parseLease(text: string, name: string): number | "auto" {
  return text === "auto" ? "auto" : parseDuration(text, name);
}
