/** What holds for any rhythm of beats, any interval, and a store that answers slowly or fails. */

import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { LeaseExtender } from "../../src/leasing/extender.ts";
import { Heartbeat } from "../../src/leasing/heartbeat.ts";
import { instant, Lease } from "../../src/leasing/lease.ts";
import { LeaseManager } from "../../src/leasing/manager.ts";
import type { ExtendAnswer, ExtendRequest, Store } from "../../src/store/store.ts";
import { ManualClock } from "../support/clock.ts";
import { jobIn } from "../support/jobs.ts";

const LEASE_MS = 60_000;

interface Course {
  interval_ms: number;
  /** Between one beat and the next. */
  gaps_ms: readonly number[];
  /** How long the store takes for each answer, and which of them are failures. */
  answers: readonly { latency_ms: number; fails: boolean }[];
}

const quick = { latency_ms: 0, fails: false };
const gaps = fc.array(fc.oneof(fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: 20_000 })), {
  minLength: 1,
  maxLength: 60,
});
const interval = fc.integer({ min: 0, max: LEASE_MS / 2 - 1 });

interface Result {
  sent: { at_ms: number; request: ExtendRequest; accepted: boolean }[];
  beats: number[];
  lease: Lease;
  clock: ManualClock;
  extender: LeaseExtender;
  start_ms: number;
}

async function run({ interval_ms, gaps_ms, answers }: Course): Promise<Result> {
  const clock = new ManualClock();
  const start_ms = clock.mono_ms();
  const sent: Result["sent"] = [];
  const extend = (requests: readonly ExtendRequest[]): Promise<ExtendAnswer[]> => {
    const { latency_ms, fails } = answers[sent.length % answers.length]!;
    const request = requests[0]!;
    sent.push({ at_ms: clock.mono_ms(), request, accepted: !fails });
    const expires_at_ms = clock.wall_ms() - request.beat_age_ms! + request.expires_in_ms;
    return new Promise((resolve, reject) => {
      const answer = (): void =>
        fails ? reject(new Error("busy")) : resolve([{ status: "extended", expires_at_ms, cancel_requested: false }]);
      if (latency_ms === 0) answer();
      else clock.after(latency_ms, answer);
    });
  };
  const store = { extend } as unknown as Store;
  const manager = new LeaseManager({ store, worker_id: "w", host: "h", clock, random: () => 0, lease_ms: LEASE_MS });
  const expires_at_ms = clock.wall_ms() + LEASE_MS;
  const job = jobIn({ name: "running", holder: "w", expires_at_ms, cancel_requested_at_ms: null }, { token: 1 });
  const grant = { job, lease_ms: LEASE_MS, expires_at_ms, checkpoint: null, previous: null, held: {} };
  const lease = new Lease(grant, instant(clock), clock);
  const heartbeat = new Heartbeat(clock);
  const extender = new LeaseExtender(manager, { clock, interval_ms });
  const detach = extender.attach(lease, heartbeat);
  const beats: number[] = [];
  for (const gap_ms of gaps_ms) {
    await clock.advance(gap_ms);
    beats.push(clock.mono_ms());
    heartbeat.beat();
  }
  await clock.advance(interval_ms);
  const result = { sent, beats, lease, clock, extender, start_ms };
  await clock.advance(0);
  detach();
  return result;
}

function forAll(courses: fc.Arbitrary<Course>, check: (course: Course, result: Result) => void): Promise<void> {
  const property = fc.asyncProperty(courses, async (course) => check(course, await run(course)));
  return fc.assert(property, { numRuns: 60 });
}

const prompt = fc.record({ interval_ms: interval, gaps_ms: gaps, answers: fc.constant([quick]) });
const slow = fc.record({
  interval_ms: interval,
  gaps_ms: gaps,
  answers: fc.array(fc.record({ latency_ms: fc.constantFrom(0, 1, 300, 5_000), fails: fc.constant(false) }), {
    minLength: 1,
    maxLength: 5,
  }),
});
const troubled = fc.record({
  interval_ms: fc.integer({ min: 250, max: LEASE_MS / 2 - 1 }),
  gaps_ms: gaps,
  answers: fc.array(fc.record({ latency_ms: fc.constantFrom(0, 300), fails: fc.boolean() }), {
    minLength: 1,
    maxLength: 5,
  }),
});

describe("whatever the rhythm of a job's beats", () => {
  test("at most one extension is sent per interval, and none in the first", () =>
    forAll(fc.oneof(prompt, slow), ({ interval_ms }, { sent, start_ms }) => {
      const times = [start_ms, ...sent.map(({ at_ms }) => at_ms)];
      for (let i = 1; i < times.length; i++) expect(times[i]! - times[i - 1]!).toBeGreaterThanOrEqual(interval_ms);
    }));

  test("at most one extension is accepted per interval, though others fail", () =>
    forAll(troubled, ({ interval_ms }, { sent, start_ms, extender }) => {
      const times = [start_ms, ...sent.filter(({ accepted }) => accepted).map(({ at_ms }) => at_ms)];
      for (let i = 1; i < times.length; i++) expect(times[i]! - times[i - 1]!).toBeGreaterThanOrEqual(interval_ms);
      expect(extender.extensions).toBeLessThan(times.length);
    }));

  test("one interval after the last beat the job has the whole lease from that beat on", () =>
    forAll(prompt, (_course, { beats, lease, clock }) => {
      const since_beat_ms = clock.mono_ms() - beats.at(-1)!;
      expect(lease.remaining()).toBe(LEASE_MS - since_beat_ms);
      expect(lease.expires_at_ms).toBe(clock.wall_ms() + LEASE_MS - since_beat_ms);
    }));

  test("every extension is for the newest beat, and there are never more of them than beats", () =>
    forAll(prompt, (_course, { sent, beats }) => {
      expect(sent.length).toBeLessThanOrEqual(beats.length);
      for (const { at_ms, request } of sent) {
        // A beat in the very millisecond may have come just before the extension, or just behind it.
        const newest_ms = [beats.findLast((beat_ms) => beat_ms <= at_ms), beats.findLast((beat_ms) => beat_ms < at_ms)];
        expect(newest_ms).toContain(at_ms - request.beat_age_ms!);
        expect(request.expires_in_ms).toBe(LEASE_MS);
      }
    }));

  test("the holder never believes in more time than the store gave", () =>
    forAll(slow, (_course, { lease, clock }) => {
      expect(lease.remaining()).toBeLessThanOrEqual(lease.expires_at_ms - clock.wall_ms());
    }));
});
