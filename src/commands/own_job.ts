/** The job that this process belongs to, as its worker told it: for commands that a job calls about itself. */

import { LeaseError } from "../core/errors.ts";

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

export function leaseLost(id: number, why: "expired" | "conflict"): LeaseError {
  const reason = why === "expired" ? "it has run out" : "somebody else holds it";
  return new LeaseError("lease_lost", `job ${id} has lost its lease (${reason}): stop working on it`);
}
