/** What a worker says when an attempt has ended. */

import { formatDuration } from "../core/duration.ts";
import type { Lease } from "../leasing/lease.ts";
import type { Release } from "../leasing/manager.ts";
import { NOT_STARTED } from "./acquire_ahead.ts";
import type { Level } from "../core/report.ts";

/** Null when somebody else has said it already. */
export function settledText(lease: Lease, release: Release): [Level, string] | null {
  if (release.status !== "applied") return null;
  const { state, ended, result } = release.change;
  const job = `job ${lease.job.id}`;
  switch (state.name) {
    case "completed":
      return ["debug", `${job}: completed`];
    case "failed":
      return ["warn", `${job}: failed for good: ${result.error}`];
    case "cancelled":
      return ["info", `${job}: cancelled`];
    case "scheduled": {
      const pause = formatDuration(Math.max(0, state.run_at_ms - release.decided_at_ms));
      return ["warn", `${job}: attempt ${lease.token} failed: ${ended?.error}; again in ${pause}`];
    }
    default:
      // What was only acquired ahead is nothing that happened to it.
      return [ended?.error === NOT_STARTED.error ? "debug" : "info", `${job}: back in the queue: ${ended?.error}`];
  }
}
