/** Workers as they are, and the jobs that each of them holds. */

import type { Job } from "../core/job.ts";
import type { WorkerRecord } from "../core/records.ts";
import { host, isProvenDead } from "../platform/machine.ts";
import type { Store } from "../store/store.ts";
import type { WorkerRow } from "../view/workers.ts";
import type { Leases } from "./leases.ts";

/** One of this machine that is proven dead is so before a sweep has written it down. */
export async function workersNow(store: Store): Promise<WorkerRecord[]> {
  return (await store.workers()).map((worker) => {
    const dead = worker.stopped_at_ms === null && worker.host === host && isProvenDead(worker.process);
    return dead ? { ...worker, stopped_at_ms: worker.seen_at_ms, ended: "dead" } : worker;
  });
}

/** Each with the jobs that it holds the lease of; `leases` saves asking for those of every worker. */
export async function withHeldJobs(
  store: Store,
  workers: readonly WorkerRecord[],
  leases: Leases,
): Promise<WorkerRow[]> {
  const held = await heldBy(store, workers, leases);
  return workers.map((worker) => ({ worker, held: held.get(worker.id) ?? [] }));
}

/** Which jobs each worker holds the lease of. */
export async function heldBy(
  store: Store,
  workers: readonly WorkerRecord[],
  leases: Leases,
): Promise<Map<string, Job[]>> {
  const held = new Map<string, Job[]>();
  const present = workers.filter(({ stopped_at_ms }) => stopped_at_ms === null);
  const jobs = leases.all ? leases.jobs : (await Promise.all(present.map((worker) => heldByOne(store, worker)))).flat();
  for (const job of jobs) {
    if (job.state.name !== "running") continue;
    const { holder } = job.state;
    held.set(holder, [...(held.get(holder) ?? []), job]);
  }
  return held;
}

function heldByOne(store: Store, { id, slots }: WorkerRecord): Promise<Job[]> {
  // One more per slot may be acquired ahead.
  return store.list({ holder: id, limit: 2 * slots, newest_first: false });
}
