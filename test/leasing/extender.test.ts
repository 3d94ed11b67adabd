import { describe, expect } from "bun:test";
import { LeaseError } from "../../src/core/errors.ts";
import { LeaseExtender, type LeaseExtenderOptions } from "../../src/leasing/extender.ts";
import { Heartbeat } from "../../src/leasing/heartbeat.ts";
import type { Lease } from "../../src/leasing/lease.ts";
import type { ExtendAnswer } from "../../src/store/store.ts";
import { answered, benchTest as test, LEASE_MS, type Bench } from "./fixture.ts";

const INTERVAL_MS = 6_000;

function extenderOf(b: Bench, options: Partial<LeaseExtenderOptions> = {}): LeaseExtender {
  return new LeaseExtender(b.manager, { clock: b.clock, interval_ms: INTERVAL_MS, ...options });
}

interface Attached {
  lease: Lease;
  heartbeat: Heartbeat;
  extender: LeaseExtender;
  detach: () => void;
}

/** A job that was granted just now, with its heartbeat. */
async function attached(b: Bench, options: Partial<LeaseExtenderOptions> = {}): Promise<Attached> {
  const lease = await b.granted();
  const heartbeat = new Heartbeat(b.clock);
  const extender = extenderOf(b, options);
  return { lease, heartbeat, extender, detach: extender.attach(lease, heartbeat) };
}

const ages = (b: Bench): (number | null)[] => b.extensions.map(({ beat_age_ms }) => beat_age_ms);

describe("an extender", () => {
  test("extends nothing without a beat, however long the lease has run", async (b) => {
    await attached(b);
    await b.pass(LEASE_MS * 10);
    expect(b.extensions).toEqual([]);
    expect(b.clock.timers).toBe(0);
  });

  test("extends at once, by the whole lease, on a beat after the interval", async (b) => {
    const { lease, heartbeat, extender } = await attached(b);
    await b.pass(INTERVAL_MS);
    heartbeat.beat(3);
    await answered();
    expect(b.extensions).toMatchObject([{ id: lease.job.id, token: 1, beat_age_ms: 0, beats: 3 }]);
    expect(await b.expiryOf(lease.job.id)).toBe(b.clock.wall_ms() + LEASE_MS);
    expect([lease.expires_at_ms, lease.remaining()]).toEqual([b.clock.wall_ms() + LEASE_MS, LEASE_MS]);
    expect(extender.extensions).toBe(1);
  });

  test("remembers a beat inside the interval and writes it when it ends, giving the whole lease from the beat", async (b) => {
    const { lease, heartbeat } = await attached(b);
    await b.pass(2_000);
    heartbeat.beat();
    const beat_at_ms = b.clock.wall_ms();
    await b.pass(INTERVAL_MS - 2_000 - 1);
    expect(b.extensions).toEqual([]);
    await b.pass(1);
    expect(ages(b)).toEqual([INTERVAL_MS - 2_000]);
    expect(await b.expiryOf(lease.job.id)).toBe(beat_at_ms + LEASE_MS);
    expect(lease.remaining()).toBe(LEASE_MS - (INTERVAL_MS - 2_000));
    expect((await b.job(lease.job.id)).last_beat_at_ms).toBe(beat_at_ms);
  });

  test("writes the last of several beats inside the interval, once", async (b) => {
    const { heartbeat } = await attached(b);
    for (let second = 0; second < 5; second++) {
      await b.pass(1_000);
      heartbeat.beat();
    }
    await b.pass(INTERVAL_MS * 3);
    expect(b.extensions).toMatchObject([{ beat_age_ms: 1_000, beats: 5 }]);
  });

  test("does not take back what a later beat by the job itself has got (`lease beat`)", async (b) => {
    const { lease, heartbeat } = await attached(b);
    await b.pass(2_000);
    heartbeat.beat();
    await b.pass(2_000);
    const beat_at_ms = b.clock.wall_ms();
    await b.store.extend([{ id: lease.job.id, token: 1, expires_in_ms: LEASE_MS, beat_age_ms: 0, beats: 0 }]);
    await b.pass(INTERVAL_MS);
    expect(b.extensions).toHaveLength(2);
    expect(await b.expiryOf(lease.job.id)).toBe(beat_at_ms + LEASE_MS);
    expect((await b.job(lease.job.id)).last_beat_at_ms).toBe(beat_at_ms);
  });

  test("extends at most once per interval, however often the job beats", async (b) => {
    const { heartbeat, extender } = await attached(b);
    for (let beat = 0; beat < 600; beat++) {
      await b.clock.advance(100);
      heartbeat.beat();
    }
    await answered();
    const sent = b.extensions.map(({ sent_mono_ms }) => sent_mono_ms);
    expect(sent).toHaveLength(60_000 / INTERVAL_MS);
    expect(sent.every((at_ms, index) => index === 0 || at_ms - sent[index - 1]! >= INTERVAL_MS)).toBe(true);
    expect(extender.extensions).toBe(sent.length);
  });

  test("does nothing when it is not enabled, and can be attached any number of times then", async (b) => {
    const { extender, lease, heartbeat } = await attached(b, { enabled: false });
    extender.attach(lease, heartbeat)();
    await b.pass(INTERVAL_MS);
    heartbeat.beat();
    await b.pass(INTERVAL_MS);
    expect(b.extensions).toEqual([]);
  });

  test("refuses to be attached twice, and is still attached to the first", async (b) => {
    const { extender, lease, heartbeat } = await attached(b);
    const other = await b.granted();
    const refused = (): unknown => extender.attach(other, new Heartbeat(b.clock));
    expect(refused).toThrow(LeaseError);
    expect(refused).toThrow(`attached to job ${lease.job.id}`);
    await b.pass(INTERVAL_MS);
    heartbeat.beat();
    await answered();
    expect(b.extensions.map(({ id }) => id)).toEqual([lease.job.id]);
  });

  test("can be attached to the next lease once it is detached", async (b) => {
    const { extender, lease, heartbeat, detach } = await attached(b);
    detach();
    const next = await b.granted();
    const nextHeart = new Heartbeat(b.clock);
    extender.attach(next, nextHeart);
    await b.pass(INTERVAL_MS);
    heartbeat.beat();
    nextHeart.beat();
    await answered();
    expect(b.extensions.map(({ id }) => id)).toEqual([next.job.id]);
    expect(next.job.id).not.toBe(lease.job.id);
  });

  test("forgets a remembered beat when it is detached", async (b) => {
    const { heartbeat, detach } = await attached(b);
    heartbeat.beat();
    detach();
    heartbeat.beat();
    expect(b.clock.timers).toBe(0);
    await b.pass(INTERVAL_MS * 2);
    expect(b.extensions).toEqual([]);
  });

  test("tells of a request to cancel that came with the answer, every time", async (b) => {
    const cancelled: Lease[] = [];
    const { lease, heartbeat } = await attached(b, { onCancel: (asked) => cancelled.push(asked) });
    await b.pass(INTERVAL_MS);
    heartbeat.beat();
    await answered();
    expect([cancelled, lease.cancel_requested]).toEqual([[], false]);
    await b.store.cancel([lease.job.id], null);
    await b.pass(INTERVAL_MS);
    heartbeat.beat();
    await answered();
    expect([cancelled, lease.cancel_requested]).toEqual([[lease], true]);
  });
});

/** The store takes its time: the answer comes when the test says so. */
function slowStore(b: Bench): { answer: () => Promise<void> } {
  const held: (() => void)[] = [];
  b.extend = (requests) =>
    new Promise<ExtendAnswer[]>((resolve) => {
      const expires_at_ms = b.clock.wall_ms() + LEASE_MS;
      held.push(() => resolve(requests.map(() => ({ status: "extended", expires_at_ms, cancel_requested: false }))));
    });
  return {
    async answer() {
      held.splice(0).forEach((resolve) => resolve());
      await answered();
    },
  };
}

describe("an extension that takes time", () => {
  test("is waited for before the next one is sent", async (b) => {
    const { heartbeat } = await attached(b);
    slowStore(b);
    await b.pass(INTERVAL_MS);
    for (let beat = 0; beat < 5; beat++) {
      heartbeat.beat();
      await b.pass(INTERVAL_MS);
    }
    expect(b.extensions).toHaveLength(1);
  });

  test("counts for the holder from when it was sent, not from when it was answered", async (b) => {
    const { lease, heartbeat } = await attached(b);
    const store = slowStore(b);
    await b.pass(INTERVAL_MS);
    heartbeat.beat();
    await b.pass(4_000);
    await store.answer();
    expect(lease.remaining()).toBe(LEASE_MS - 4_000);
  });

  test("is followed by the beats that came meanwhile, when the interval since it was sent ends", async (b) => {
    const { heartbeat } = await attached(b);
    const store = slowStore(b);
    await b.pass(INTERVAL_MS);
    heartbeat.beat();
    const sent_ms = b.clock.mono_ms();
    await b.pass(1_000);
    heartbeat.beat();
    await b.pass(3_000);
    await store.answer();
    await b.pass(INTERVAL_MS * 2);
    expect(b.extensions.map(({ sent_mono_ms }) => sent_mono_ms - sent_ms)).toEqual([0, INTERVAL_MS]);
  });

  test("means nothing any more when the extender was detached before the answer", async (b) => {
    const told: string[] = [];
    const { heartbeat, detach, extender } = await attached(b, {
      onLost: () => told.push("lost"),
      onCancel: () => told.push("cancel"),
      onFailure: () => told.push("failure"),
    });
    const answer = Promise.withResolvers<ExtendAnswer[]>();
    b.extend = () => answer.promise;
    await b.pass(INTERVAL_MS);
    heartbeat.beat();
    detach();
    answer.resolve([{ status: "conflict" }]);
    await b.pass(INTERVAL_MS);
    expect([told, extender.extensions, b.clock.timers]).toEqual([[], 0, 0]);
  });

  test("of an earlier lease does not swallow the beats of the next one", async (b) => {
    const { heartbeat, detach, extender } = await attached(b);
    const store = slowStore(b);
    await b.pass(INTERVAL_MS);
    heartbeat.beat();
    detach();
    const next = await b.granted();
    const nextHeart = new Heartbeat(b.clock);
    extender.attach(next, nextHeart);
    nextHeart.beat();
    await b.pass(1_000);
    await store.answer();
    await b.pass(INTERVAL_MS * 2);
    expect(b.extensions.map(({ id }) => id).slice(1)).toEqual([next.job.id]);
  });
});
