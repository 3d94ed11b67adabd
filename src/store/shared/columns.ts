/** What a new job is as columns, and whom it waits for. Settings are stored as what differs from the defaults: a default job costs no text. */

import { DEFAULT_SETTINGS, type JobSettings, type NewJob } from "../../core/job.ts";

type Text = string | null;
type Int = number | null;

/** Zero stands for a learned lease, as a lease of no time can't be asked for. */
export const LEASE_AUTO = 0;

/** Longer than any lease that is granted. */
export const LONGEST_LEASE_MS = 2 ** 50;

/** What the smallest integer of any engine holds. A grant never counts beyond it, and no job that can be read has it. */
export const MOST_GRANTS = 2 ** 31 - 1;

export function leaseColumn(settings: JobSettings): Int {
  return settings.lease_ms === "auto" ? LEASE_AUTO : settings.lease_ms;
}

/** The settings that have no column of their own and are not the default; null when there are none. */
export function settingsColumn(settings: JobSettings): Text {
  if (settings === DEFAULT_SETTINGS) return null;
  const { retries: _retries, lease_ms: _lease_ms, ...rest } = settings;
  const own: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(rest)) {
    const usual = DEFAULT_SETTINGS[name as keyof JobSettings];
    if (value !== usual && JSON.stringify(value) !== JSON.stringify(usual)) own[name] = value;
  }
  return Object.keys(own).length === 0 ? null : JSON.stringify(own);
}

export function envColumn(env: Readonly<Record<string, string>>): Text {
  for (const _ in env) return JSON.stringify(env);
  return null;
}

export function isBlocked(job: NewJob): boolean {
  return job.after.length + job.after_any.length > 0;
}

export type DependencyKind = "success" | "any";

/** Whom it waits for, and how they have to end; who is named in both ways has to complete. */
export function parentsOf(job: NewJob): Map<number, DependencyKind> {
  const kinds = new Map<number, DependencyKind>();
  for (const parent of job.after_any) kinds.set(parent, "any");
  for (const parent of job.after) kinds.set(parent, "success");
  return kinds;
}
