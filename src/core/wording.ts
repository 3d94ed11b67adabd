/** A job's settings in words, as `inspect` shows them. */

import { formatDuration } from "./duration.ts";
import { DEFAULT_BACKOFF, type Backoff, type ExitRange } from "./retry.ts";

export function retriesWording(retries: number): string {
  return retries === 0 ? "no retries" : `${retries} ${retries === 1 ? "retry" : "retries"}`;
}

export function durationWording(ms: number | "auto"): string {
  return ms === "auto" ? ms : formatDuration(ms);
}

export function backoffWording({ first_ms, factor, max_ms, jitter }: Backoff): string {
  const growth = factor === 1 ? "" : ` ×${factor} to ${formatDuration(max_ms)}`;
  const spread = jitter === DEFAULT_BACKOFF.jitter ? "" : ` ±${Math.round(jitter * 100)} %`;
  return `backoff ${formatDuration(first_ms)}${growth}${spread}`;
}

export function rangesWording(ranges: readonly ExitRange[]): string {
  return ranges.map(([from, to]) => (from === to ? String(from) : `${from}-${to}`)).join(",");
}

const UNITS = ["B", "KiB", "MiB", "GiB"] as const;

export function bytesWording(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** power;
  return `${Number.isInteger(value) ? value : value.toFixed(1)} ${UNITS[power]}`;
}
