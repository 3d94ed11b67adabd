import { describe, expect } from "bun:test";
import { FAILURES_REPORTED, LeaseExtender, type LeaseExtenderOptions } from "../../src/leasing/extender.ts";
import { Heartbeat } from "../../src/leasing/heartbeat.ts";
import type { Lease } from "../../src/leasing/lease.ts";
import { RecoverySweep } from "../../src/recovery/sweep.ts";
import { answered, benchTest as test, LEASE_MS, type Bench } from "./fixture.ts";

const INTERVAL_MS = 6_000;

interface Told {
  lost: string[];
  failures: { error: string; in_a_row: number }[];
}

interface Attached extends Told {
  lease: Lease;
  heartbeat: Heartbeat;
  extender: LeaseExtender;
  detach: () => void;
}

async function attached(b: Bench, options: Partial<LeaseExtenderOptions> = {}): Promise<Attached> {
  const lease = await b.granted();
  const heartbeat = new Heartbeat(b.clock);
  const told: Told = { lost: [], failures: [] };
  const extender = new LeaseExtender(b.manager, {
    clock: b.clock,
    interval_ms: INTERVAL_MS,
    onLost: (_lease, reason) => told.lost.push(reason),
    onFailure: (_lease, error, in_a_row) => told.failures.push({ error: (error as Error).message, in_a_row }),
    ...options,
  });
  return { lease, heartbeat, extender, detach: extender.attach(lease, heartbeat), ...told };
}

/** The store fails until the returned function is called. */
function failing(b: Bench): () => void {
  b.extend = () => Promise.reject(new Error("disk is full"));
  return () => {
    b.extend = null;
  };
}

/** A sweep gives the job back, and another worker takes it. */
async function takenOver(b: Bench, grace_ms = 0): Promise<void> {
  const sweep = new RecoverySweep({
    store: b.store,
    clock: b.clock,
    random: () => 0.5,
    report: () => {},
    store_url: b.path,
    grace_ms,
    every_ms: 1_000,
    checkpoints: false,
    keep_checkpoints: 100,
  });
  expect((await sweep.scan()).recovered).toBe(1);
  expect(await b.managerOf("w2").acquire()).toHaveLength(1);
}

describe("an extension that fails", () => {
  test("is told, and tried again without waiting for the next beat", async (b) => {
    const { heartbeat, failures, lost, lease } = await attached(b);
    const mend = failing(b);
    await b.pass(INTERVAL_MS);
    heartbeat.beat();
    const beat_at_ms = b.clock.wall_ms();
    await answered();
    expect(failures).toEqual([{ error: "disk is full", in_a_row: 1 }]);
    mend();
    await b.pass(1_000);
    expect([b.extensions.length, failures.length, lost]).toEqual([2, 1, []]);
    expect(await b.expiryOf(lease.job.id)).toBe(beat_at_ms + LEASE_MS);
  });

  test("is tried again with the newest beat", async (b) => {
    const { heartbeat, lease } = await attached(b);
    const mend = failing(b);
    await b.pass(INTERVAL_MS);
    heartbeat.beat();
    await b.pass(100);
    mend();
    heartbeat.beat();
    const beat_at_ms = b.clock.wall_ms();
    await b.pass(1_000);
    expect(b.extensions.at(-1)).toMatchObject({ beats: 2 });
    expect(await b.expiryOf(lease.job.id)).toBe(beat_at_ms + LEASE_MS);
  });

  test("takes what the job said of itself along when it is tried again, unless it has said more since", async (b) => {
    const lease = await b.granted();
    const extender = new LeaseExtender(b.manager, { clock: b.clock, interval_ms: INTERVAL_MS });
    const attachment = extender.attach(lease, new Heartbeat(b.clock));
    const mend = failing(b);
    attachment.note({ progress: 40, message: "page 2" });
    await b.pass(500, 100);
    attachment.note({ progress: 60, message: "page 3" });
    await b.pass(500, 100);
    mend();
    await b.pass(1_000);
    expect(b.extensions[1]).toMatchObject({ progress: 40, message: "page 2" });
    expect(b.extensions.at(-1)).toMatchObject({ progress: 60, message: "page 3" });
    attachment();
  });

  test("is tried a few times a second at most, however chatty the job is", async (b) => {
    const { heartbeat } = await attached(b);
    failing(b);
    await b.pass(INTERVAL_MS);
    for (let beat = 0; beat < 500; beat++) {
      heartbeat.beat();
      await b.clock.advance(10);
    }
    expect(b.extensions.length).toBeLessThanOrEqual(50);
  });

  test("is tried a few times a second at most, also where every beat is written at once", async (b) => {
    const { heartbeat } = await attached(b, { interval_ms: 0 });
    // Mended after so many tries that the test has seen enough.
    b.extend = () => {
      if (b.extensions.length > 200) b.extend = null;
      return Promise.reject(new Error("disk is full"));
    };
    await b.pass(1_000);
    heartbeat.beat();
    await b.pass(1_000, 10);
    expect(b.extensions.length).toBeLessThanOrEqual(10);
  });

  test("three times in a row can be told from one that fails now and then", async (b) => {
    const { heartbeat, failures } = await attached(b);
    const mend = failing(b);
    await b.pass(INTERVAL_MS);
    heartbeat.beat();
    await b.pass(600);
    expect(failures.map(({ in_a_row }) => in_a_row)).toEqual([1, 2, 3]);
    expect(FAILURES_REPORTED).toBe(3);
    mend();
    await b.pass(INTERVAL_MS + 1_000);
    failing(b);
    heartbeat.beat();
    await answered();
    expect(failures.map(({ in_a_row }) => in_a_row)).toEqual([1, 2, 3, 1]);
  });

  test("does not cost the job its lease while the lease lasts", async (b) => {
    const { heartbeat, lost, lease } = await attached(b);
    const mend = failing(b);
    await b.pass(INTERVAL_MS);
    heartbeat.beat();
    await b.pass(LEASE_MS - INTERVAL_MS - 1_000);
    mend();
    await b.pass(1_000);
    expect(lost).toEqual([]);
    expect(await b.expiryOf(lease.job.id)).toBe(b.clock.wall_ms() + INTERVAL_MS);
  });

  test("counts anew for the next lease", async (b) => {
    const { heartbeat, failures, detach, extender } = await attached(b);
    failing(b);
    await b.pass(INTERVAL_MS);
    heartbeat.beat();
    await b.pass(300);
    detach();
    const nextHeart = new Heartbeat(b.clock);
    extender.attach(await b.granted(), nextHeart);
    await b.pass(INTERVAL_MS);
    nextHeart.beat();
    await answered();
    expect(failures.map(({ in_a_row }) => in_a_row)).toEqual([1, 2, 1]);
  });

  test("is given up when the extender is detached", async (b) => {
    const { heartbeat, failures, detach } = await attached(b);
    failing(b);
    await b.pass(INTERVAL_MS);
    heartbeat.beat();
    await answered();
    detach();
    expect(b.clock.timers).toBe(0);
    await b.pass(INTERVAL_MS);
    expect([b.extensions.length, failures.length]).toEqual([1, 1]);
  });
});

describe("an extension that is refused", () => {
  test("because the lease had run out means that it is lost: expired", async (b) => {
    const { heartbeat, lost, failures, extender } = await attached(b);
    await b.pass(LEASE_MS + 1);
    heartbeat.beat();
    await answered();
    expect([lost, failures, extender.extensions]).toEqual([["expired"], [], 0]);
  });

  test("in the very last millisecond of the lease is not refused", async (b) => {
    const { heartbeat, lost } = await attached(b);
    await b.pass(LEASE_MS);
    heartbeat.beat();
    await answered();
    expect(lost).toEqual([]);
  });

  test("because somebody else has the job means that it is lost: conflict", async (b) => {
    const { heartbeat, lost } = await attached(b);
    await b.pass(LEASE_MS + 1);
    await takenOver(b);
    heartbeat.beat();
    await answered();
    expect(lost).toEqual(["conflict"]);
  });

  test("after some that failed is a loss, not one more failure", async (b) => {
    const { heartbeat, lost, failures } = await attached(b);
    const mend = failing(b);
    await b.pass(INTERVAL_MS);
    heartbeat.beat();
    await b.pass(LEASE_MS - INTERVAL_MS + 1);
    await takenOver(b);
    const failed = failures.length;
    mend();
    await b.pass(1_000);
    expect([lost[0], failures.length]).toEqual(["conflict", failed]);
  });

  test("is told once: a lost lease does not come back, so it is not asked for again", async (b) => {
    const { heartbeat, lost } = await attached(b);
    await b.pass(LEASE_MS + 1);
    for (let beat = 0; beat < 10; beat++) {
      heartbeat.beat();
      await b.pass(100);
    }
    expect([lost, b.extensions.length]).toEqual([["expired"], 1]);
  });
});
