import { describe, expect, test } from "bun:test";
import type { Lease } from "../../src/leasing/lease.ts";
import { AcquireAhead } from "../../src/worker/acquire_ahead.ts";
import { ManualClock } from "../support/clock.ts";

describe("leases acquired ahead", () => {
  const lease = (name: string, retries = 3): Lease =>
    ({ name, job: { settings: { retries }, failures: 0 } }) as unknown as Lease;

  function aheadOf(clock: ManualClock): { ahead: AcquireAhead; returned: unknown[] } {
    const returned: unknown[] = [];
    return { ahead: new AcquireAhead(clock, (given) => returned.push(given)), returned };
  }

  function observe(ahead: AcquireAhead, took_ms: number): void {
    for (let job = 0; job < 200; job++) ahead.observe(took_ms);
  }

  test("are wanted only when jobs have shown to be short: the shorter, the more", () => {
    const { ahead } = aheadOf(new ManualClock());
    expect(ahead.wanted(4)).toBe(0);
    observe(ahead, 20);
    expect(ahead.wanted(4)).toBe(4);
    observe(ahead, 5);
    expect(ahead.wanted(4)).toBe(16);
    // However short they are: a worker that is killed has spent an attempt of each.
    observe(ahead, 0.1);
    expect(ahead.wanted(4)).toBe(64);
    for (let job = 0; job < 3; job++) ahead.observe(10_000);
    expect(ahead.wanted(4)).toBe(0);
  });

  test("are wanted when there are none left, so that one commit grants for all slots", () => {
    const { ahead } = aheadOf(new ManualClock());
    observe(ahead, 20);
    ahead.add(lease("a"));
    expect([ahead.wanted(4), ahead.size]).toEqual([0, 1]);
    ahead.take();
    expect(ahead.wanted(4)).toBe(4);
  });

  test("are wanted in time where there are many: the store may be far away", () => {
    const { ahead } = aheadOf(new ManualClock());
    observe(ahead, 2);
    for (let job = 0; job < 5; job++) ahead.add(lease("a"));
    expect(ahead.wanted(4)).toBe(0);
    ahead.take();
    expect(ahead.wanted(4)).toBe(36);
  });

  test("are one per slot where a job has no retries left, which a worker that is killed would lose", () => {
    const { ahead } = aheadOf(new ManualClock());
    observe(ahead, 2);
    expect(ahead.wanted(4)).toBe(40);
    ahead.add(lease("a", 0));
    ahead.take();
    expect(ahead.wanted(4)).toBe(4);
    ahead.add(lease("b"));
    ahead.take();
    expect(ahead.wanted(4)).toBe(40);
  });

  test("are taken in the order in which they came", async () => {
    const clock = new ManualClock();
    const { ahead, returned } = aheadOf(clock);
    const [first, second] = [lease("a"), lease("b")];
    ahead.add(first);
    ahead.add(second);
    expect([ahead.take(), ahead.take(), ahead.take()]).toEqual([first, second, null]);
    await clock.advance(10_000);
    expect([returned, clock.timers]).toEqual([[], 0]);
  });

  test("go back when they are not started almost at once, and then no more are wanted", async () => {
    const clock = new ManualClock();
    const { ahead, returned } = aheadOf(clock);
    observe(ahead, 3);
    ahead.add(lease("a"));
    await clock.advance(100);
    expect([returned.length, ahead.size, ahead.wanted(4)]).toEqual([1, 0, 0]);
  });

  test("go back all at once when the worker stops", () => {
    const clock = new ManualClock();
    const { ahead, returned } = aheadOf(clock);
    ahead.add(lease("a"));
    ahead.add(lease("b"));
    ahead.giveAllBack();
    expect([returned.length, ahead.size, clock.timers]).toEqual([2, 0, 0]);
  });

  test("are given back each after its own time, not after that of another that was started long ago", async () => {
    const clock = new ManualClock();
    const { ahead, returned } = aheadOf(clock);
    const [first, second, third] = [lease("a"), lease("b"), lease("c")];
    ahead.add(first);
    await clock.advance(60);
    ahead.add(second);
    expect(ahead.take()).toBe(first);
    await clock.advance(60);
    expect(returned).toEqual([]);
    ahead.add(third);
    await clock.advance(60);
    expect(returned).toEqual([second]);
    await clock.advance(60);
    expect(returned).toEqual([second, third]);
  });
});
