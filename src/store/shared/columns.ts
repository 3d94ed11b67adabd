/** What a new job is as columns, and whom it waits for. Settings are stored as what differs from the defaults: a default job costs no text. */

import { DEFAULT_SETTINGS, type Grace, type JobSettings, type NewJob, type StateName } from "../../core/job.ts";

type Text = string | null;
type Int = number | null;

/** Zero stands for a learned lease, as a lease of no time can't be asked for. */
export const LEASE_AUTO = 0;

/** Longer than any lease that is granted. */
export const LONGEST_LEASE_MS = 2 ** 50;

/** What the smallest integer of any engine holds. A grant never counts beyond it, and no job that can be read has it. */
export const MOST_GRANTS = 2 ** 31 - 1;

/** A figure that one more is added to. From elsewhere it may be any number, and a sum that does not fit fails the commit. */
export function bounded(figure: string, greater: "max" | "greatest" = "max"): string {
  const lesser = greater === "max" ? "min" : "least";
  return `${greater}(-${Number.MAX_SAFE_INTEGER}, ${lesser}(${Number.MAX_SAFE_INTEGER}, ${figure}))`;
}

export function leaseColumn(settings: JobSettings): Int {
  return settings.lease_ms === "auto" ? LEASE_AUTO : settings.lease_ms;
}

const GRACE_NEVER = -1;

export function graceColumn(grace: Grace | null): Int {
  return grace === "never" ? GRACE_NEVER : grace === null ? null : Math.round(grace);
}

export function toGrace(column: unknown): Grace | null {
  if (typeof column !== "number") return null;
  return column < 0 ? "never" : column;
}

/** The settings that have no column of their own and are not the default; null when there are none. */
export function settingsColumn(settings: JobSettings): Text {
  if (settings === DEFAULT_SETTINGS) return null;
  let own: Record<string, unknown> | null = null;
  for (const name in settings) {
    const value = settings[name as keyof JobSettings];
    const usual = DEFAULT_SETTINGS[name as keyof JobSettings];
    if (value === usual || name === "retries" || name === "lease_ms") continue;
    if (JSON.stringify(value) !== JSON.stringify(usual)) (own ??= {})[name] = value;
  }
  return own === null ? null : JSON.stringify(own);
}

export function envColumn(env: Readonly<Record<string, string>>): Text {
  for (const _ in env) return JSON.stringify(env);
  return null;
}

export function isBlocked(job: NewJob): boolean {
  return job.after.length + job.after_any.length + job.after_failed.length + job.after_task.length > 0;
}

/** How one has to end that another waits for. */
export type DependencyKind = "success" | "any" | "failure";

const ENDS: Readonly<Record<DependencyKind, readonly StateName[]>> = {
  success: ["completed"],
  any: ["completed", "failed", "cancelled"],
  failure: ["failed"],
};

export function isSatisfied(kind: DependencyKind, state: StateName): boolean {
  // A kind that nobody knows is never satisfied.
  return (ENDS as Partial<typeof ENDS>)[kind]?.includes(state) ?? false;
}

/** The same about a dependency `d` and its `parent`. */
export const SATISFIED = `(CASE d.kind ${Object.entries(ENDS)
  .map(([kind, states]) => `WHEN '${kind}' THEN parent.state IN (${states.map((state) => `'${state}'`).join(", ")})`)
  .join(" ")} ELSE 1 = 0 END)`;

/** Whom it waits for, and how they have to end; who is named in several ways has to complete. */
export function parentsOf(job: NewJob, of_tasks: readonly number[]): Map<number, DependencyKind> {
  const kinds = new Map<number, DependencyKind>();
  for (const parent of job.after_any) kinds.set(parent, "any");
  for (const parent of job.after_failed) kinds.set(parent, "failure");
  for (const parent of of_tasks) kinds.set(parent, "success");
  for (const parent of job.after) kinds.set(parent, "success");
  return kinds;
}
