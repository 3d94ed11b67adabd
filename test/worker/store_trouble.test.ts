import { describe, expect, test } from "bun:test";
import type { Lease } from "../../src/leasing/lease.ts";
import { StoreTrouble, writeWhileLeased } from "../../src/worker/store_trouble.ts";
import { ManualClock } from "../support/clock.ts";

describe("trouble with a store", () => {
  test("is waited out longer each time, up to a limit, and not for ever", async () => {
    const clock = new ManualClock();
    const trouble = new StoreTrouble(clock);
    const pauses: (number | null)[] = [];
    for (let pause = trouble.nextPause(); ; pause = trouble.nextPause()) {
      pauses.push(pause);
      if (pause === null) break;
      await clock.advance(pause);
    }
    expect(pauses.slice(0, 8)).toEqual([100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
    expect(pauses.at(-1)).toBeNull();
    trouble.over();
    expect(trouble.nextPause()).toBe(100);
  });
});

describe("a write while a lease lasts", () => {
  /** Tries to write until it is given up, and answers how many tries that took. */
  async function tries(clock: ManualClock, ends_at_ms: number, gives_up_at_ms: number): Promise<number> {
    const lease = { remaining: () => ends_at_ms - clock.mono_ms() } as Lease;
    const start_ms = clock.mono_ms();
    let count = 0;
    const end = { reached: false };
    const written = writeWhileLeased(lease, clock, {
      write: () => {
        count += 1;
        return Promise.reject(new Error("disk is full"));
      },
      givesUp: () => clock.mono_ms() - start_ms >= gives_up_at_ms,
      failed: () => {},
    }).catch(() => (end.reached = true));
    while (!end.reached) await clock.advance(50);
    await written;
    return count;
  }

  test("is tried after growing pauses until the lease is over", async () => {
    const clock = new ManualClock();
    const start_ms = clock.mono_ms();
    expect(await tries(clock, start_ms + 10_000, Infinity)).toBeGreaterThan(10);
    expect(clock.mono_ms() - start_ms).toBeGreaterThanOrEqual(10_000);
  });

  test("is given up a moment after nobody waits for it any more", async () => {
    const clock = new ManualClock();
    const start_ms = clock.mono_ms();
    await tries(clock, start_ms + 600_000, 0);
    expect(clock.mono_ms() - start_ms).toBeLessThan(3_000);
  });
});
