/** Workers as they are, running jobs in the order in which their leases end, and who holds which. */

import { LONGEST_MS } from "../core/duration.ts";
import type { Job } from "../core/job.ts";
import type { WorkerRecord } from "../core/records.ts";
import { host, isProvenDead } from "../platform/machine.ts";
import type { ExpiredQuery } from "../store/queries.ts";
import type { Glance } from "../store/store.ts";
import type { WorkerRow } from "../view/workers.ts";

/** One of this machine that is proven dead is so before a sweep has written it down. */
export async function workersNow(store: Glance): Promise<WorkerRecord[]> {
  return (await store.workers()).map((worker) => {
    const dead = worker.stopped_at_ms === null && worker.host === host && isProvenDead(worker.process);
    return dead ? { ...worker, stopped_at_ms: worker.seen_at_ms, ended: "dead" } : worker;
  });
}

/** Each with the jobs that it holds the lease of; `leases` saves asking for those of every worker. */
export async function withHeldJobs(
  store: Glance,
  workers: readonly WorkerRecord[],
  leases: Leases,
): Promise<WorkerRow[]> {
  const present = workers.filter(({ stopped_at_ms }) => stopped_at_ms === null);
  const jobs = leases.all ? leases.jobs : (await Promise.all(present.map((worker) => heldByOne(store, worker)))).flat();
  const held = Map.groupBy(jobs, ({ state }) => (state.name === "running" ? state.holder : null));
  return workers.map((worker) => ({ worker, held: held.get(worker.id) ?? [] }));
}

function heldByOne(store: Glance, { id, slots }: WorkerRecord): Promise<Job[]> {
  // One more per slot may be acquired ahead.
  return store.list({ holder: id, limit: 2 * slots, newest_first: false });
}

const PAGE = 500;

interface Wanted {
  most: number;
  wanted?: (job: Job) => boolean;
  /** How far into the future a lease may end. */
  ends_within_ms?: number;
}

export interface Leases {
  jobs: Job[];
  /** Whether these are all. */
  all: boolean;
}

/** Those that are over come first, however many there are. */
export async function leasesByEnd(store: Glance, { most, wanted, ends_within_ms }: Wanted): Promise<Leases> {
  const jobs: Job[] = [];
  let after: ExpiredQuery["after"] = null;
  for (;;) {
    const limit = Math.min(PAGE, most + 1);
    // A negative grace looks ahead.
    const page = await store.expired({ grace_ms: -(ends_within_ms ?? LONGEST_MS), dead_holders: [], after, limit });
    for (const { job } of page) if (wanted === undefined || wanted(job)) jobs.push(job);
    const last = page.at(-1);
    if (jobs.length > most) return { jobs: jobs.slice(0, most), all: false };
    if (last === undefined || page.length < limit) return { jobs, all: true };
    after = { expires_at_ms: last.expires_at_ms, id: last.job.id };
  }
}
