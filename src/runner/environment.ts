/** What a job sees of itself in its environment. */

import type { Lease } from "../leasing/lease.ts";
import type { LeaseManager } from "../leasing/manager.ts";

/** Null: the variable is not set, even if the worker has it. */
export function jobVariables(
  { job, token, grant }: Lease,
  { store_url, manager }: { store_url: string; manager: LeaseManager },
  output_path: string,
): Record<string, string | null> {
  return {
    LEASE_JOB_ID: String(job.id),
    LEASE_ATTEMPT: String(token),
    LEASE_TOKEN: String(token),
    LEASE_QUEUE: job.queue,
    LEASE_TASK: job.task,
    LEASE_KEY: job.key,
    LEASE_STORE: store_url,
    LEASE_WORKER_ID: manager.worker_id,
    LEASE_CHECKPOINT: grant.checkpoint,
    LEASE_OUTPUT: output_path,
  };
}
