/** A queue in memory on a clock that the test owns, and a manager of leases: what the parts are tried with. */

import { test } from "bun:test";
import { LeaseError, LeaseManager, open, type HeldLease, type Queue } from "../../src/index.ts";
import { FakeClock } from "../../src/testing.ts";

export interface Ground {
  queue: Queue;
  clock: FakeClock;
  manager: LeaseManager;
  /** Enqueues a job and acquires it. */
  held: (lease?: string) => Promise<HeldLease>;
  /** Nothing of the store can be reached any more. */
  cutOff: () => Promise<void>;
}

export function on(title: string, body: (ground: Ground) => Promise<void>): void {
  test(title, async () => {
    const clock = new FakeClock();
    const queue = await open(":memory:", { clock, random: () => 0.5, report: () => {} });
    const manager = new LeaseManager(queue, "worker-1");
    const held = async (lease?: string) => {
      await queue.enqueue({ input: { page: 1 } });
      const found = await manager.acquire(lease === undefined ? {} : { lease });
      if (found === null) throw new Error("there is one");
      return found;
    };
    try {
      await body({ queue, clock, manager, held, cutOff: () => queue.close() });
    } finally {
      await queue.close();
    }
  });
}

export const code = async (act: () => unknown): Promise<string> => {
  try {
    await act();
  } catch (error) {
    return error instanceof LeaseError ? error.code : String(error);
  }
  return "accepted";
};
