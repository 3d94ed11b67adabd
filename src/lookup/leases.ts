/** Running jobs in the order in which their leases end: those that are over come first, however many there are. */

import { LONGEST_MS } from "../core/duration.ts";
import type { Job } from "../core/job.ts";
import type { ExpiredQuery } from "../store/queries.ts";
import type { Store } from "../store/store.ts";

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

export async function leasesByEnd(store: Store, { most, wanted, ends_within_ms }: Wanted): Promise<Leases> {
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
