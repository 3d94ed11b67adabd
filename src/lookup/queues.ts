/** Queues: what each holds and who serves it, and which one a name that nobody has used was probably meant to be. */

import { shownState, type Job } from "../core/job.ts";
import { nearest } from "../core/nearest.ts";
import type { WorkerRecord } from "../core/records.ts";
import type { Glance } from "../store/store.ts";
import { summarizeQueues, type QueueSummary } from "../view/queues.ts";
import { workerState } from "../view/workers.ts";
import { workersNow, type Leases } from "./workers.ts";

const PAGE = 1_000;

/** Every queue, with its jobs by the states that people see. */
export async function queuesNow(store: Glance, now_ms: number): Promise<QueueSummary[]> {
  return queuesAround(store, await workersNow(store), now_ms);
}

/** The same for whoever has asked for the workers already, and for leases. */
export async function queuesAround(
  store: Glance,
  workers: readonly WorkerRecord[],
  now_ms: number,
  leases: Leases | null = null,
) {
  const [counts, paused] = await Promise.all([store.counts(), store.pausedQueues()]);
  const held = leases?.all ? leases.jobs.filter((job) => shownState(job) === "cancelling") : null;
  const cancelling = held === null ? await cancellingJobs(store) : countsOf(held);
  const retrying = new Map(counts.flatMap((one) => (one.retrying === undefined ? [] : [[one.queue, one.retrying]])));
  return summarizeQueues({ counts, paused, served: servedBy(workers, now_ms), cancelling, retrying });
}

/** Which queues each live worker takes from. */
function servedBy(workers: readonly WorkerRecord[], now_ms: number) {
  return workers.filter((worker) => workerState(worker, now_ms) === "live").map(({ queues }) => queues);
}

async function cancellingJobs(store: Glance): Promise<Map<string, number>> {
  const all: Job[] = [];
  for (;;) {
    const behind_id = all.at(-1)?.id ?? 0;
    const jobs = await store.list({ states: ["cancelling"], behind_id, limit: PAGE, newest_first: false });
    all.push(...jobs);
    if (jobs.length < PAGE) return countsOf(all);
  }
}

function countsOf(jobs: readonly Job[]): Map<string, number> {
  const groups = Map.groupBy(jobs, ({ queue }) => queue);
  return new Map([...groups].map(([queue, alike]) => [queue, alike.length]));
}

/** With jobs in it, paused, or served. */
async function knownQueues(store: Glance): Promise<Set<string>> {
  const [counts, paused, workers] = await Promise.all([store.counts(), store.pausedQueues(), store.workers()]);
  const served = workers.flatMap(({ queues, stopped_at_ms }) => (stopped_at_ms === null ? (queues ?? []) : []));
  return new Set([...counts.map(({ queue }) => queue), ...paused, ...served]);
}

/** For each of the names that nobody has used, a remark to be shown; null for the others. */
export async function queueRemarks(store: Glance, queues: readonly string[]): Promise<(string | null)[]> {
  const known = await knownQueues(store);
  return queues.map((queue) => {
    if (known.has(queue)) return null;
    const meant = nearest(queue, [...known]);
    return `queue ${queue} has no jobs so far${meant === null ? "" : `; did you mean ${meant}?`}`;
  });
}
