import { describe, expect } from "bun:test";
import type { Lease } from "../../src/leasing/lease.ts";
import { answered, benchTest as test, LEASE_MS, type Bench } from "./fixture.ts";
import { GRACE_MS, RENEWED_TOO_LATE, SLACK_MS, watched, words } from "./watched.ts";

const CLOSING_MS = 5_000;
const FENCE_MS = LEASE_MS - 500;

describe("the watch of a silent job", () => {
  test("warns at half of the budget, then has it stopped as silent when it is used up", async (b) => {
    const w = await watched(b);
    await b.pass(LEASE_MS);
    expect(w.said).toEqual([
      ["warn", LEASE_MS / 2],
      ["silent", LEASE_MS],
    ]);
  });

  test("asks in time for just what stopping takes, which is not a beat", async (b) => {
    const w = await watched(b);
    await b.pass(LEASE_MS - CLOSING_MS - 1);
    expect(b.extensions).toEqual([]);
    await b.pass(1);
    expect(b.extensions).toMatchObject([{ beat_age_ms: null, expires_in_ms: CLOSING_MS + GRACE_MS + SLACK_MS }]);
    expect(await b.expiryOf(w.lease.job.id)).toBe(b.clock.wall_ms() + CLOSING_MS + GRACE_MS + SLACK_MS);
    await b.pass(CLOSING_MS);
    expect(b.extensions).toHaveLength(1);
  });

  test("has it killed before the lease is over when that time can't be had", async (b) => {
    const w = await watched(b);
    b.extend = () => Promise.reject(new Error("disk is full"));
    await b.pass(LEASE_MS);
    expect(w.said).toEqual([
      ["warn", LEASE_MS / 2],
      [RENEWED_TOO_LATE, FENCE_MS],
    ]);
    expect(b.clock.timers).toBe(0);
  });

  for (const status of ["expired", "conflict"] as const) {
    test(`has it killed when that time is refused (${status})`, async (b) => {
      const w = await watched(b);
      b.extend = async () => [{ status }];
      await b.pass(LEASE_MS);
      expect(words(w)).toEqual(["warn", `lost: ${status}`]);
    });
  }

  test("has it killed when it has not ended in the time that stopping was given", async (b) => {
    const w = await watched(b);
    await b.pass(LEASE_MS * 2);
    expect(w.said[2]).toEqual([RENEWED_TOO_LATE, LEASE_MS + GRACE_MS + SLACK_MS - 500]);
  });

  test("says nothing any more once it is over", async (b) => {
    const w = await watched(b);
    await b.pass(10_000);
    w.watch.end();
    expect(b.clock.timers).toBe(0);
    w.heartbeat.beat();
    await b.pass(LEASE_MS * 3);
    expect([w.said, b.extensions]).toEqual([[], []]);
  });
});

describe("the watch of a job that beats", () => {
  test("starts over with every beat, warnings included", async (b) => {
    const w = await watched(b, { extended: true });
    await b.pass(40_000);
    w.heartbeat.beat();
    await b.pass(40_000);
    w.heartbeat.beat();
    await b.pass(29_999);
    expect(w.said).toEqual([
      ["warn", 30_000],
      ["warn", 70_000],
    ]);
  });

  test("never interferes with one that beats in time", async (b) => {
    const w = await watched(b, { extended: true });
    for (let beat = 0; beat < 100; beat++) {
      await b.pass(LEASE_MS / 2 - 1);
      w.heartbeat.beat();
    }
    expect(w.said).toEqual([]);
  });

  test("spares it when it beats in the last moment, though the closing time was asked for", async (b) => {
    const w = await watched(b, { extended: true });
    await b.pass(LEASE_MS - 1);
    w.heartbeat.beat();
    await b.pass(LEASE_MS / 2 - 1);
    expect(words(w)).toEqual(["warn"]);
    expect(await b.expiryOf(w.lease.job.id)).toBe(b.clock.wall_ms() + LEASE_MS / 2 + 1);
  });

  test("has it killed before the lease is over when no beat could be written", async (b) => {
    const w = await watched(b, { extended: true });
    b.extend = () => Promise.reject(new Error("disk is full"));
    for (let second = 0; second < 70; second++) {
      await b.pass(1_000);
      w.heartbeat.beat();
    }
    expect(w.said).toEqual([[RENEWED_TOO_LATE, FENCE_MS]]);
  });

  test("does not kill it when the store comes back in time", async (b) => {
    const w = await watched(b, { extended: true });
    b.extend = () => Promise.reject(new Error("disk is full"));
    for (let second = 0; second < 70; second++) {
      if (second === 55) b.extend = null;
      await b.pass(1_000);
      w.heartbeat.beat();
    }
    expect(w.said).toEqual([]);
  });

  test("has it stopped at its time limit, however much it beats", async (b) => {
    const w = await watched(b, { extended: true, timeout_ms: 3 * LEASE_MS });
    for (let beat = 0; beat < 25; beat++) {
      await b.pass(10_000);
      w.heartbeat.beat();
    }
    expect(w.said[0]).toEqual(["timeout", 3 * LEASE_MS]);
    expect(words(w)).not.toContain("silent");
  });
});

describe("a beat that only the store knows of (`lease beat` in the job)", () => {
  const beatInJob = (b: Bench, { job, token, lease_ms }: Lease): Promise<unknown> =>
    b.store.extend([{ id: job.id, token, expires_in_ms: lease_ms, beat_age_ms: 0, beats: 0, at_least: true }]);

  test("keeps the job from being called silent", async (b) => {
    const w = await watched(b, { extended: true });
    for (let beat = 0; beat < 10; beat++) {
      await b.pass(20_000);
      await beatInJob(b, w.lease);
    }
    expect(w.said).toEqual([]);
  });

  test("counts from when it was", async (b) => {
    const w = await watched(b, { extended: true });
    await b.pass(20_000);
    await beatInJob(b, w.lease);
    await b.pass(LEASE_MS);
    expect(w.said).toEqual([
      ["warn", 20_000 + LEASE_MS / 2],
      ["silent", 20_000 + LEASE_MS],
    ]);
  });

  test("can be told from the worker's own beats, which come back from there too", async (b) => {
    const w = await watched(b, { extended: true });
    await b.pass(10_000);
    w.heartbeat.beat();
    await b.pass(LEASE_MS);
    expect(w.said).toEqual([
      ["warn", 10_000 + LEASE_MS / 2],
      ["silent", 10_000 + LEASE_MS],
    ]);
  });

  test("of an earlier attempt means nothing", async (b) => {
    const w = await watched(b, {
      verbs: {
        jobs: async (ids) => {
          const found = await b.store.jobs(ids);
          return found.map((job) => job && { ...job, token: 9, last_beat_at_ms: b.clock.wall_ms() });
        },
      },
    });
    await b.pass(LEASE_MS / 2);
    expect(words(w)).toEqual(["warn"]);
  });

  test("while the job is being stopped does not take away the time that stopping was given", async (b) => {
    const w = await watched(b, { job: { settings: { lease_ms: 3_000 } } });
    await b.pass(3_000, 50);
    expect(words(w)).toEqual(["warn", "silent"]);
    await beatInJob(b, w.lease);
    // The holder must not believe in more time than the store gives, or somebody else starts the job meanwhile.
    const given_ms = (await b.expiryOf(w.lease.job.id)) - b.clock.wall_ms();
    expect(w.lease.remaining()).toBeLessThanOrEqual(given_ms);
  });
});

describe("the watch of a job that beats while nobody can write", () => {
  async function* nothing(): AsyncGenerator<[]> {}
  const HELD_MS = 5 * LEASE_MS;

  /** Beats all the time, and none of them can be written. */
  async function beating(b: Bench, hold_ms: number) {
    const w = await watched(b, { extended: true });
    const other = await b.reopen();
    await other.enqueueAll(nothing(), { hold_ms });
    b.extend ??= () => new Promise(() => {});
    return { w, pass: (ms: number) => passBeating(b, w, ms) };
  }

  async function passBeating(b: Bench, w: Awaited<ReturnType<typeof watched>>, ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 1_000) {
      w.heartbeat.beat();
      await b.pass(1_000);
    }
  }

  test("sees that its lease was prolonged by whoever keeps everybody from writing", async (b) => {
    const { w, pass } = await beating(b, HELD_MS);
    await pass(HELD_MS - 1_000);
    expect(w.said).toEqual([]);
    expect(w.lease.expires_at_ms).toBe(await b.expiryOf(w.lease.job.id));
    await pass(2_000);
    expect(words(w)).toEqual([RENEWED_TOO_LATE]);
  });

  test("keeps the later end when the extension that waited so long is answered at last", async (b) => {
    const late = Promise.withResolvers<void>();
    const real = await b.reopen();
    b.extend = (requests) => late.promise.then(() => real.extend(requests));
    const { w, pass } = await beating(b, HELD_MS);
    await pass(3 * LEASE_MS);
    const left_ms = w.lease.remaining();
    late.resolve();
    b.extend = null;
    await answered();
    expect(w.lease.remaining()).toBe(left_ms);
    expect(w.said).toEqual([]);
  });

  test("has it killed in time where nobody has", async (b) => {
    const { w, pass } = await beating(b, 0);
    await pass(LEASE_MS);
    expect(w.said).toEqual([[RENEWED_TOO_LATE, FENCE_MS]]);
  });
});
