import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { instant, Lease } from "../../src/leasing/lease.ts";
import { ManualClock } from "../support/clock.ts";
import { jobIn } from "../support/jobs.ts";

const LEASE_MS = 60_000;
const HOUR_MS = 3_600_000;

function granted(clock: ManualClock): Lease {
  const expires_at_ms = clock.wall_ms() + LEASE_MS;
  const job = jobIn({ name: "running", holder: "w", expires_at_ms, cancel_requested_at_ms: null }, { token: 4 });
  return new Lease(
    { job, lease_ms: LEASE_MS, expires_at_ms, checkpoint: null, previous: null, held: {} },
    instant(clock),
    clock,
  );
}

describe("what remains of a lease", () => {
  test("runs down with time, and below zero when it is over", async () => {
    const clock = new ManualClock();
    const lease = granted(clock);
    expect(lease.remaining()).toBe(LEASE_MS);
    await clock.advance(LEASE_MS - 1);
    expect(lease.remaining()).toBe(1);
    await clock.advance(2);
    expect(lease.remaining()).toBe(-1);
  });

  test("is nothing after the machine slept past its end, though the monotonic clock stood still", async () => {
    const clock = new ManualClock();
    const lease = granted(clock);
    clock.jumpWall(LEASE_MS + 5_000);
    expect(lease.remaining()).toBe(-5_000);
  });

  test("does not grow when the wall clock is set back", async () => {
    const clock = new ManualClock();
    const lease = granted(clock);
    await clock.advance(10_000);
    clock.jumpWall(-HOUR_MS);
    expect(lease.remaining()).toBe(LEASE_MS - 10_000);
  });

  test("comes back when the wall clock was set ahead by mistake and then right", async () => {
    const clock = new ManualClock();
    const lease = granted(clock);
    clock.jumpWall(HOUR_MS);
    expect(lease.remaining()).toBeLessThan(0);
    clock.jumpWall(-HOUR_MS);
    await clock.advance(1_000);
    expect(lease.remaining()).toBe(LEASE_MS - 1_000);
  });

  test("counts from when an accepted extension was sent", async () => {
    const clock = new ManualClock();
    const lease = granted(clock);
    await clock.advance(20_000);
    const sent = instant(clock);
    await clock.advance(3_000);
    lease.extended(sent, LEASE_MS, clock.wall_ms() + LEASE_MS);
    expect(lease.remaining()).toBe(LEASE_MS - 3_000);
    expect(lease.expires_at_ms).toBe(clock.wall_ms() + LEASE_MS);
  });

  test("starts anew with an extension after the wall clock was set", async () => {
    const clock = new ManualClock();
    const lease = granted(clock);
    clock.jumpWall(-HOUR_MS);
    lease.extended(instant(clock), LEASE_MS, clock.wall_ms() + LEASE_MS);
    clock.jumpWall(30_000);
    expect(lease.remaining()).toBe(LEASE_MS - 30_000);
  });

  test("is never more than the store would say at the same moment, whatever the clocks do", async () => {
    const moves = fc.array(
      fc.oneof(
        fc.record({ do: fc.constant("pass" as const), ms: fc.integer({ min: 0, max: 20_000 }) }),
        fc.record({ do: fc.constant("jump" as const), ms: fc.integer({ min: -HOUR_MS, max: HOUR_MS }) }),
        fc.record({ do: fc.constant("extend" as const), ms: fc.integer({ min: 0, max: 5_000 }) }),
      ),
      { maxLength: 30 },
    );
    await fc.assert(
      fc.asyncProperty(moves, async (course) => {
        const clock = new ManualClock();
        const lease = granted(clock);
        for (const { do: what, ms } of course) {
          if (what === "pass") await clock.advance(ms);
          else if (what === "jump") clock.jumpWall(ms);
          else {
            // The store takes `ms` to commit, and counts from then.
            const sent = instant(clock);
            await clock.advance(ms);
            lease.extended(sent, LEASE_MS, clock.wall_ms() + LEASE_MS);
          }
          expect(lease.remaining()).toBeLessThanOrEqual(lease.expires_at_ms - clock.wall_ms());
        }
      }),
      { numRuns: 50 },
    );
  });
});

describe("a lease", () => {
  test("names the job, the token and how long it is", () => {
    const clock = new ManualClock();
    const { job, token, lease_ms, granted_at, cancel_requested } = granted(clock);
    expect([job.id, token, lease_ms, cancel_requested]).toEqual([1, 4, LEASE_MS, false]);
    expect(granted_at).toEqual({ mono_ms: clock.mono_ms(), wall_ms: clock.wall_ms() });
  });
});
