/** The job that this process belongs to, as its worker told it: for commands that a job calls about itself. */

import { LeaseError } from "../core/errors.ts";
import { isFinished, type Job } from "../core/job.ts";
import type { Store } from "../store/store.ts";

export interface OwnJob {
  id: number;
  token: number;
}

export function ownJob(env: Readonly<Record<string, string | undefined>>): OwnJob {
  const id = Number(env["LEASE_JOB_ID"] ?? "");
  const token = Number(env["LEASE_TOKEN"] ?? "");
  if (Number.isSafeInteger(id) && id > 0 && Number.isSafeInteger(token) && token > 0) return { id, token };
  throw new LeaseError("usage", "this is for use inside a job: LEASE_JOB_ID and LEASE_TOKEN are not set");
}

/** Says what became of the job, which is what whoever lost it wants to know. */
export async function leaseLost(store: Store, { id, token }: OwnJob): Promise<LeaseError> {
  const [job = null] = await store.jobs([id]);
  return new LeaseError("lease_lost", `job ${id} has lost its lease (${lossText(job, token)}): stop working on it`);
}

function lossText(job: Job | null, token: number): string {
  if (job === null) return "there is no such job any more";
  const { name } = job.state;
  if (name !== "running") return isFinished(job.state) ? `it has ended: ${name}` : `it is ${name} again`;
  return job.token === token ? "it has run out" : "somebody else holds it";
}
