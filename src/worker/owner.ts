/** The worker, as its attempts see it, and what is left of it at its end. */

import type { Lease } from "../leasing/lease.ts";
import type { LeaseManager } from "../leasing/manager.ts";
import type { Stream } from "../platform/platform.ts";
import type { Enforcer } from "../runner/enforcer.ts";
import type { Fences } from "../runner/fence.ts";
import type { Scratch } from "../runner/scratch.ts";
import type { LogFlusher } from "./log_flusher.ts";

/** The worker, as its attempts see it. */
export interface AttemptOwner {
  readonly manager: LeaseManager;
  readonly store_id: string;
  readonly logs: LogFlusher;
  readonly scratch: Scratch;
  readonly fences: Fences;
  readonly enforcer: Enforcer;
  /** How long a settle may wait to share a commit. */
  settleWithin(): number;
  /** A settle that can't be written is given up at once. */
  givesUpSettles(): boolean;
  /** Also told what the job prints; a promise holds back the job until it is settled. */
  printed?(lease: Lease, stream: Stream, bytes: Uint8Array): void | Promise<void>;
}

/** The end of what a worker had made for its attempts: it has done its work, and ends well whatever can't be removed. */
export async function putAway({ fences, enforcer, scratch }: AttemptOwner): Promise<void> {
  for (const end of [() => fences.end(), () => enforcer.end(), () => scratch.remove()]) {
    try {
      await end();
    } catch {
      // A sweep on this machine removes what is left.
    }
  }
}
