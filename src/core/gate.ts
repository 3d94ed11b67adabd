/**
 * What a pending job has to pass before it is granted: the limits it joined, and the resources it needs. Jobs with the
 * same of both wait at the same gate: one of them can start exactly when any of them can. A store keeps them in one
 * line, so that any number of them behind a full limit costs those who look for work a single look.
 */

import type { Needs } from "./resources.ts";

export interface Gate {
  limits: readonly string[];
  needs: Needs;
}

/** So many starts in so much time. */
export interface Rate {
  count: number;
  per_ms: number;
}

/** Null: no bound of that kind. */
export interface Limit {
  name: string;
  /** Jobs that run at a time. */
  most: number | null;
  rate: Rate | null;
}

export type LimitSettings = Pick<Limit, "most" | "rate">;

/** A limit, and what is in use of it. */
export interface LimitUse extends Limit {
  running: number;
  /** Starts that the rate still counts. */
  started: number;
  /** When the next of these is forgotten; null: there is none. */
  next_start_at_ms: number | null;
  /** Pending jobs that have joined it by name. */
  waiting: number;
}

/** Of the text of a gate, so that it fits into an index of any engine. */
export const LONGEST_GATE = 1_000;

/**
 * The same text for the same gate; empty for the jobs that have none, as most. A limit is in it as `"=name"`, quotes
 * included, and no other text can be taken for that: so SQL can look for one.
 */
export function gateText({ limits, needs }: Gate): string {
  const names = Object.keys(needs);
  if (limits.length === 0 && names.length === 0) return "";
  const sorted = names.toSorted().map((name) => [name, needs[name]]);
  return JSON.stringify([[...new Set(limits)].toSorted().map((name) => `=${name}`), sorted]);
}

/** That of a job that nothing bounds. */
export const OPEN_GATE: Gate = { limits: [], needs: {} };

/** Null when it is not one. */
export function readGate(text: string): Gate | null {
  if (text === "") return OPEN_GATE;
  try {
    const read: unknown = JSON.parse(text);
    if (!Array.isArray(read) || read.length !== 2) return null;
    const [limits, needs] = read as [unknown, unknown];
    if (!Array.isArray(limits) || !limits.every((name) => typeof name === "string")) return null;
    if (!Array.isArray(needs) || !needs.every(isNeed)) return null;
    return { limits: limits.map((name: string) => name.slice(1)), needs: Object.fromEntries(needs) };
  } catch {
    return null;
  }
}

function isNeed(pair: unknown): pair is [string, number] {
  return Array.isArray(pair) && pair.length === 2 && typeof pair[0] === "string" && Number.isSafeInteger(pair[1]);
}

/** Whom a job counts for: its queue is a limit by its own name. */
export function limitsOf(queue: string, { limits }: Pick<Gate, "limits">): string[] {
  return limits.includes(queue) ? [...limits] : [queue, ...limits];
}
