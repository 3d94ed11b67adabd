/** A job's settings as a person reads them, only where they differ from what everybody gets. */

import { formatDuration } from "../core/duration.ts";
import { DEFAULT_SETTINGS, type JobSettings } from "../core/job.ts";
import { DEFAULT_BACKOFF, type Backoff, type ExitRange } from "../core/retry.ts";

type Wording = { [K in keyof JobSettings]: (value: JobSettings[K]) => string };

const WORDING: Wording = {
  retries: (retries) => (retries === 0 ? "no retries" : `${retries} ${retries === 1 ? "retry" : "retries"}`),
  backoff: backoffText,
  retry_on: (causes) => (causes === "lost" ? "retried only when its worker is lost" : "retried whatever the cause"),
  fatal_exit: (ranges) => `exit ${ranges.map(rangeText).join(",")} not retried`,
  timeout_ms: (ms) => `timeout ${ms === null ? "none" : formatDuration(ms)}`,
  lease_ms: (lease) => `lease ${typeof lease === "number" ? formatDuration(lease) : (lease ?? "of the worker")}`,
  beat: (beat) => `beats by ${beat ?? "the worker's choice"}`,
  pty: (pty) => (pty ? "on a terminal (pty)" : "no terminal"),
  log_limit_bytes: (bytes) => `log up to ${bytesText(bytes)}`,
  output_limit_bytes: (bytes) => `output up to ${bytesText(bytes)}`,
};

export function changedSettings(settings: JobSettings): string[] {
  const names = Object.keys(WORDING) as (keyof JobSettings)[];
  return names.filter((name) => !same(settings[name], DEFAULT_SETTINGS[name])).map((name) => word(name, settings));
}

function word<K extends keyof JobSettings>(name: K, settings: JobSettings): string {
  return WORDING[name](settings[name]);
}

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function backoffText({ first_ms, factor, max_ms, jitter }: Backoff): string {
  const growth = factor === 1 ? "" : ` ×${factor} to ${formatDuration(max_ms)}`;
  const spread = jitter === DEFAULT_BACKOFF.jitter ? "" : ` ±${Math.round(jitter * 100)} %`;
  return `backoff ${formatDuration(first_ms)}${growth}${spread}`;
}

function rangeText([from, to]: ExitRange): string {
  return from === to ? String(from) : `${from}-${to}`;
}

const UNITS = ["B", "KiB", "MiB", "GiB"] as const;

function bytesText(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** power;
  return `${Number.isInteger(value) ? value : value.toFixed(1)} ${UNITS[power]}`;
}
