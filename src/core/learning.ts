/**
 * Leases that learn (`--lease auto`): how long the gaps between beats were in earlier runs, and what lease follows.
 *
 * Gaps are counted by size class, each a tenth wider than the one before, so that a long history takes little room and
 * the percentile is right to a tenth. Old runs fade: past a number of runs all counts are halved.
 */

import type { Job } from "./job.ts";

/** Size class → how many gaps fell into it. */
export type Gaps = Readonly<Record<string, number>>;

export interface Learned {
  runs: number;
  gaps: Gaps;
  /** The 99th percentile of the gaps. */
  gap_ms: number;
  /** What a job of this subject is granted; null until enough runs were seen. */
  lease_ms: number | null;
}

/** What is granted until enough is known. */
export const UNLEARNED_LEASE_MS = 5 * 60_000;

export const RUNS_NEEDED = 20;
const FACTOR = 3;
const LEAST_LEASE_MS = 30_000;
const PERCENTILE = 0.99;
const WIDTH = 1.1;
const FADE_AFTER_RUNS = 1_000;
/** What is less than this is forgotten. */
const FADED = 1 / 32;

/** Whose runs teach the lease of this job: those with its key, else those of its queue. */
export function subjectOf(job: Pick<Job, "key" | "queue">): string {
  return job.key === null ? `queue ${job.queue}` : `key ${job.key}`;
}

export function addGap(gaps: Record<string, number>, gap_ms: number): void {
  const size = Math.max(0, Math.ceil(Math.log(Math.max(1, gap_ms)) / Math.log(WIDTH)));
  gaps[size] = (gaps[size] ?? 0) + 1;
}

/** What is known after one more run. */
export function learn(before: Pick<Learned, "runs" | "gaps"> | null, run: Gaps): Learned {
  const gaps: Record<string, number> = { ...before?.gaps };
  for (const [size, count] of Object.entries(run)) gaps[size] = (gaps[size] ?? 0) + count;
  const runs = (before?.runs ?? 0) + 1;
  if (runs <= FADE_AFTER_RUNS) return conclude(runs, gaps);
  // Fractions are kept: rounded up, a gap that was seen once would never go.
  const halved = Object.entries(gaps).map(([size, count]) => [size, count / 2] as const);
  return conclude(FADE_AFTER_RUNS / 2, Object.fromEntries(halved.filter(([, count]) => count >= FADED)));
}

export function conclude(runs: number, gaps: Gaps): Learned {
  const gap_ms = percentile(gaps);
  const lease_ms = runs < RUNS_NEEDED ? null : Math.max(LEAST_LEASE_MS, Math.round(FACTOR * gap_ms));
  return { runs, gaps, gap_ms, lease_ms };
}

function percentile(gaps: Gaps): number {
  const sizes = Object.keys(gaps)
    .map(Number)
    .toSorted((a, b) => a - b);
  const total = Object.values(gaps).reduce((sum, count) => sum + count, 0);
  let seen = 0;
  for (const size of sizes) {
    seen += gaps[size] ?? 0;
    if (seen >= total * PERCENTILE) return Math.round(WIDTH ** size);
  }
  return 0;
}
