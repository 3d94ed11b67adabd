/** The jobs of a task and who waits for whom, with the chain of them that has taken longest so far. */

import type { Job } from "../core/job.ts";
import type { Dependency } from "../store/queries.ts";
import type { Reader } from "../store/store.ts";
import { runtimeOf } from "../view/lists.ts";

export interface TaskGraph {
  task: string;
  /** By id. */
  jobs: readonly Job[];
  /** Also to jobs of other tasks. */
  links: readonly Dependency[];
  /** There are more than are shown. */
  cut: boolean;
}

export interface CriticalPath {
  /** From the first to the last. */
  ids: readonly number[];
  took_ms: number;
}

/** More nobody reads as a tree. */
const MOST_JOBS = 1_000;

/** Null: it has no job. */
export async function taskGraph(store: Pick<Reader, "list" | "links">, task: string): Promise<TaskGraph | null> {
  const found = await store.list({ task, limit: MOST_JOBS + 1, newest_first: false });
  if (found.length === 0) return null;
  const jobs = found.slice(0, MOST_JOBS);
  const links = await store.links(jobs.map(({ id }) => id));
  return { task, jobs, links, cut: found.length > jobs.length };
}

/** The chain that has taken longest, each job with the longest of those that it waits for. */
export function criticalPath({ jobs, links }: TaskGraph, now_ms: number): CriticalPath {
  const parents = Map.groupBy(links, ({ job }) => job);
  const known = new Map(jobs.map((job) => [job.id, job]));
  const longest = new Map<number, { took_ms: number; before: number | null }>();
  // A list, not recursion: a chain may be as long as people make it. Each is looked at again when its parents are known.
  const open = jobs.map(({ id }) => id);
  const begun = new Set<number>();
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    if (longest.has(id)) continue;
    begun.add(id);
    const above = (parents.get(id) ?? []).map(({ parent }) => parent).filter((parent) => known.has(parent));
    // One that was begun and is not known yet waits for this one, in a store that is damaged: it does not count here.
    const unknown = above.filter((parent) => !begun.has(parent));
    if (unknown.length > 0) {
      open.push(id, ...unknown);
      continue;
    }
    const before = above.reduce<number | null>(
      (best, parent) => (tookOf(longest, parent) > tookOf(longest, best) ? parent : best),
      null,
    );
    longest.set(id, {
      before,
      took_ms: (runtimeOf(known.get(id) as Job, now_ms) ?? 0) + Math.max(0, tookOf(longest, before)),
    });
  }
  const last = jobs.reduce<number | null>(
    (best, { id }) => (tookOf(longest, id) > tookOf(longest, best) ? id : best),
    null,
  );
  const ids: number[] = [];
  for (let id = last; id !== null; id = longest.get(id)?.before ?? null) ids.unshift(id);
  return { ids, took_ms: Math.max(0, tookOf(longest, last)) };
}

function tookOf(longest: ReadonlyMap<number, { took_ms: number }>, id: number | null): number {
  return id === null ? -1 : (longest.get(id)?.took_ms ?? -1);
}
