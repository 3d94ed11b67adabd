/** Gathers what the overview shows. Counts, and reads only the few rows that are shown: the store may be large. */

import type { QueueCount, WorkerRecord } from "../core/records.ts";
import type { Store } from "../store/store.ts";
import { overviewJson } from "../view/json.ts";
import { overviewText, type Overview } from "../view/overview.ts";
import { summarizeQueues, type QueueSummary } from "../view/queues.ts";
import { workerState } from "../view/workers.ts";
import { heldBy, leasesByEnd } from "./leases.ts";
import type { View } from "../commands/inspect/views.ts";
import { workersNow } from "./workers.ts";

const LATEST_FAILURES = 5;
const ENDED_WORKERS = 20;
/** So many leases are read at once; of more, only those of workers that are there. */
const MOST_LEASES = 500;
const PAGE = 1_000;

export const overviewView: View = {
  title: "",
  tsv: null,
  narrowed: false,
  async *look(store, now_ms) {
    const overview = await overviewOf(store, now_ms);
    yield {
      text: (screen) => overviewText(overview, screen),
      objects: (at_ms) => [overviewJson(overview, at_ms)],
    };
  },
};

async function overviewOf(store: Store, now_ms: number): Promise<Overview> {
  const [counts, workers, paused, failures, retries, recovery, leases, first] = await Promise.all([
    store.counts(),
    workersNow(store),
    store.pausedQueues(),
    store.list({ states: ["failed"], sort: "finished", limit: LATEST_FAILURES, newest_first: true }),
    store.retryCounts(),
    store.recovery(),
    store.leases(),
    leasesByEnd(store, { most: MOST_LEASES }),
  ]);
  const present = workers.filter(({ stopped_at_ms }) => stopped_at_ms === null);
  const ended = workers.filter(({ stopped_at_ms }) => stopped_at_ms !== null).slice(-ENDED_WORKERS);
  const held = await heldBy(store, present, first);
  return {
    queues: summarizeQueues({ counts, paused, served: servedBy(present, now_ms) }),
    workers: [...present, ...ended].map((worker) => ({ worker, held: held.get(worker.id) ?? [] })),
    leases,
    retries,
    recovery,
    failures,
  };
}

/** Which queues each live worker takes from. */
function servedBy(workers: readonly WorkerRecord[], now_ms: number) {
  return workers.filter((worker) => workerState(worker, now_ms) === "live").map(({ queues }) => queues);
}

/** Every queue, with its jobs by the states that people see. */
export async function queuesNow(store: Store, now_ms: number): Promise<QueueSummary[]> {
  const [counts, workers, paused] = await Promise.all([store.counts(), workersNow(store), store.pausedQueues()]);
  const [cancelling, retrying] = await Promise.all([cancellingJobs(store), retryingJobs(store, counts)]);
  return summarizeQueues({ counts, paused, served: servedBy(workers, now_ms), cancelling, retrying });
}

async function cancellingJobs(store: Store): Promise<Map<string, number>> {
  const numbers = new Map<string, number>();
  let behind_id = 0;
  for (;;) {
    const jobs = await store.list({ states: ["cancelling"], behind_id, limit: PAGE, newest_first: false });
    for (const { queue } of jobs) numbers.set(queue, (numbers.get(queue) ?? 0) + 1);
    if (jobs.length < PAGE) return numbers;
    behind_id = jobs.at(-1)?.id ?? behind_id;
  }
}

async function retryingJobs(store: Store, counts: readonly QueueCount[]): Promise<Map<string, number>> {
  const queues = counts.filter(({ state }) => state === "scheduled").map(({ queue }) => queue);
  if (queues.length === 0 || (await store.backlog({ queues: null, task: null })).retrying === 0) return new Map();
  const backlogs = await Promise.all(queues.map((queue) => store.backlog({ queues: [queue], task: null })));
  return new Map(queues.map((queue, index) => [queue, backlogs[index]?.retrying ?? 0]));
}
