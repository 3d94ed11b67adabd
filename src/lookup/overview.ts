/** What is going on, at a glance. Counts, and reads only the few rows that are shown: the store may be large. */

import type { Glance } from "../store/store.ts";
import type { Overview } from "../view/overview.ts";
import { lastWords } from "./failures.ts";
import { queuesAround } from "./queues.ts";
import { leasesByEnd, withHeldJobs, workersNow } from "./workers.ts";

const LATEST_FAILURES = 5;
const ENDED_WORKERS = 20;
/** So many leases are read at once; of more, only those of workers that are there. */
const MOST_LEASES = 500;

export async function overviewNow(store: Glance, now_ms: number): Promise<Overview> {
  const [workers, failures, retries, recovery, leases, first] = await Promise.all([
    workersNow(store),
    store.list({ states: ["failed"], sort: "finished", limit: LATEST_FAILURES, newest_first: true }),
    store.retryCounts(),
    store.recovery(),
    store.leases(),
    leasesByEnd(store, { most: MOST_LEASES }),
  ]);
  const present = workers.filter(({ stopped_at_ms }) => stopped_at_ms === null);
  const ended = workers.filter(({ stopped_at_ms }) => stopped_at_ms !== null).slice(-ENDED_WORKERS);
  return {
    queues: await queuesAround(store, present, now_ms, first),
    workers: await withHeldJobs(store, [...present, ...ended], first),
    leases,
    retries,
    recovery,
    failures: await lastWords(store, failures),
  };
}
