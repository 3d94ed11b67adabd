/**
 * Lists for pipes: a header, then one line per row, values between tabs. The names are those of the JSON, the columns
 * never depend on what is in the list, and `cut -f1` is a list of ids.
 */

import { commandText } from "./quote.ts";
import type { JobRow } from "./lists.ts";
import { jobJson } from "./json.ts";
import { visible } from "./text.ts";

export const TSV_NAMES = {
  // What GNU parallel's joblog has, and what it can't know: why, by whom, and the how-manieth time.
  jobs:
    "id state queue task key priority attempts holder created_at started_at finished_at runtime exit_code cause " +
    "reason command",
  queues: "queue paused workers running cancelling pending scheduled retrying blocked completed failed cancelled",
  workers:
    "id name state host pid version queues task slots slots_idle slots_processing slots_draining slots_stopped completed " +
    "failed started_at seen_at stopped_at",
  leases:
    "id state queue task token holder stale expires_at last_beat_at minutes_since_beat minutes_since_expiry started_at",
  checkpoints: "id job task kind token at text",
} as const;

/** The rows of `jobs`: its JSON, with the command as one would type it, and how long it ran in seconds. */
export function jobTsv({ job, reason }: JobRow, now_ms: number) {
  const { state, started_at_ms } = job;
  const end_ms = state.name === "running" ? now_ms : "finished_at_ms" in state ? state.finished_at_ms : null;
  const ran_ms = started_at_ms === null || end_ms === null ? null : Math.max(0, end_ms - started_at_ms);
  const runtime = ran_ms === null ? null : (ran_ms / 1_000).toFixed(3);
  return { ...jobJson(job, reason), runtime, command: commandText(job) };
}

export function tsvHeader(names: string): string {
  return `${names.replaceAll(" ", "\t")}\n`;
}

/** Tabs and line ends inside a value appear as escapes. */
export function tsvLine(names: string, row: object): string {
  const values = new Map(Object.entries(row));
  return `${names
    .split(" ")
    .map((name) => visible(valueText(values.get(name))))
    .join("\t")}\n`;
}

function valueText(value: unknown): string {
  if (value === null || value === undefined) return "";
  return Array.isArray(value) ? value.join(",") : String(value);
}
