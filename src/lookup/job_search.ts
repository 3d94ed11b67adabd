/**
 * Jobs as people look for them: by filters and a part of their text. What is named exactly (an id, a key, a task) is found
 * however old it is; a part of a text among the newest jobs, and the answer says where to look on.
 */

import { shownState, type Job, type ShownState } from "../core/job.ts";
import type { Glance } from "../store/store.ts";

export interface JobFilter {
  text: string;
  states: readonly ShownState[];
  queue: string | null;
  task: string | null;
  behind_id: number | null;
  limit: number;
}

export interface FoundJobs {
  jobs: Job[];
  /** Where to go on; null: that was all. */
  behind_id: number | null;
}

/** About 40 ms of a busy machine, in a store of any size. */
export const SEARCHED_JOBS = 100_000;

export async function findJobs(store: Glance, filter: JobFilter): Promise<FoundJobs> {
  const { text, states, queue, task, behind_id, limit } = filter;
  const [found, exact] = await Promise.all([
    store.search({
      text,
      among: SEARCHED_JOBS,
      limit,
      ...(states.length === 0 ? {} : { states }),
      ...(queue === null ? {} : { queues: [queue] }),
      ...(task === null ? {} : { task }),
      ...(behind_id === null ? {} : { behind_id }),
    }),
    text === "" || behind_id !== null ? [] : named(store, text, limit),
  ]);
  const seen = new Set(found.jobs.map(({ id }) => id));
  const fits = (job: Job) =>
    !seen.has(job.id) &&
    (states.length === 0 || states.includes(shownState(job))) &&
    (queue === null || job.queue === queue) &&
    (task === null || job.task === task);
  const more = new Map(exact.filter(fits).map((job) => [job.id, job]));
  const jobs = [...more.values(), ...found.jobs].toSorted((a, b) => b.id - a.id);
  return { jobs, behind_id: found.behind_id };
}

async function named(store: Glance, text: string, limit: number): Promise<Job[]> {
  const id = /^#?\d{1,15}$/.test(text) ? Number(text.replace("#", "")) : null;
  const [by_id, by_key, by_task] = await Promise.all([
    id === null ? ([] as (Job | null)[]) : store.jobs([id]),
    store.list({ key: text, limit, newest_first: true }),
    store.list({ task: text, limit, newest_first: true }),
  ]);
  return [...by_id.filter((job) => job !== null), ...by_key, ...by_task];
}
