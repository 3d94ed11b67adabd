/** Workers as they are: one of this machine that is proven dead is so before a sweep has written it down. */

import type { WorkerRecord } from "../core/records.ts";
import { host, isProvenDead } from "../platform/machine.ts";
import type { Store } from "../store/store.ts";

export async function workersNow(store: Store): Promise<WorkerRecord[]> {
  return (await store.workers()).map((worker) => {
    const dead = worker.stopped_at_ms === null && worker.host === host && isProvenDead(worker.process);
    return dead ? { ...worker, stopped_at_ms: worker.seen_at_ms, ended: "dead" } : worker;
  });
}
