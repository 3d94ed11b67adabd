/** What goes wrong, grouped: the newest failures by what they say, so that a thousand times the same is one line. */

import { isFinished, type Job } from "../core/job.ts";
import type { Checkpoint } from "../core/records.ts";
import type { Glance } from "../store/store.ts";
import { outputLine } from "../view/text.ts";

/** A job that failed, and what it said last. */
export interface Failure {
  job: Job;
  last_line: string | null;
}

export interface FailureGroup {
  /** What all have in common: numbers and the like are left out. */
  error: string;
  failures: readonly Failure[];
  /** How many of them have another try. */
  retrying: number;
  first_at_ms: number;
  last_at_ms: number;
}

const NEWEST = 500;

/** Of the newest jobs that failed, and of those that wait for another try; the latest group first. */
export async function failureGroups(store: Glance): Promise<FailureGroup[]> {
  const [failed, retrying] = await Promise.all([
    store.list({ states: ["failed"], sort: "finished", limit: NEWEST, newest_first: true }),
    store.list({ states: ["retrying"], limit: NEWEST, newest_first: true }),
  ]);
  const failures = await lastWords(store, [...failed, ...retrying]);
  const groups = Map.groupBy(failures, saying);
  return [...groups].map(([error, alike]) => groupOf(error, alike)).toSorted((a, b) => b.last_at_ms - a.last_at_ms);
}

/**
 * What jobs said before they failed is in the audit trail of their attempts. The newest note of each is looked up by an
 * index: the trail may be long, and between these notes there may be any number of others.
 */
export async function lastWords(store: Glance, jobs: readonly Job[]): Promise<Failure[]> {
  if (jobs.length === 0) return [];
  const newest_of = jobs.map(({ id }) => id);
  return withNotes(jobs, await store.checkpoints({ newest_of, kind: "error", limit: jobs.length }));
}

function withNotes(jobs: readonly Job[], newest_first: readonly Checkpoint[]): Failure[] {
  const last = new Map(newest_first.toReversed().map(({ job, token, text }) => [`${job} ${token}`, lastLineOf(text)]));
  return jobs.map((job) => ({ job, last_line: last.get(`${job.id} ${job.token}`) ?? null }));
}

function lastLineOf(text: string): string | null {
  try {
    const { last_lines } = JSON.parse(text) as { last_lines?: unknown };
    const line: unknown = Array.isArray(last_lines) ? last_lines.at(-1) : null;
    return typeof line === "string" && line.trim() !== "" ? outputLine(line).slice(0, 500) : null;
  } catch {
    // Somebody else's text.
    return null;
  }
}

/** Of an exit code alone nobody learns anything. */
function saying({ job, last_line }: Failure): string {
  const error = commonPart(job.result.error ?? job.reason ?? "");
  return last_line === null ? error : `${error}: ${commonPart(last_line)}`;
}

function groupOf(error: string, alike: readonly Failure[]): FailureGroup {
  const times = alike.map(failedAt);
  return {
    error,
    failures: alike.toSorted((a, b) => failedAt(b) - failedAt(a)),
    retrying: alike.filter(({ job }) => !isFinished(job.state)).length,
    first_at_ms: Math.min(...times),
    last_at_ms: Math.max(...times),
  };
}

function failedAt({ job: { state, last_beat_at_ms, started_at_ms, created_at_ms } }: Failure): number {
  return isFinished(state) ? state.finished_at_ms : (last_beat_at_ms ?? started_at_ms ?? created_at_ms);
}

const ALIKE_CHARACTERS = 160;

/** Two errors are alike when they differ in numbers, addresses, quoted names and what comes late. */
export function commonPart(error: string): string {
  return error
    .slice(0, 4 * ALIKE_CHARACTERS)
    .replaceAll(/\b(?:0x)?[\da-f]{8,}\b|\b[\da-f]{8}-[\da-f-]{27}\b/gi, "…")
    .replaceAll(/(?<!(?:exit(?: code)?|code|signal|status) )\b\d+(?:[.:]\d+)*(?:ms|s|m|h|d)?\b/g, "…")
    .replaceAll(/"[^"]*"|'[^']*'/g, "“…”")
    .replaceAll(/(?:…[\s:.,/]*){2,}/g, "… ")
    .trim()
    .slice(0, ALIKE_CHARACTERS);
}
