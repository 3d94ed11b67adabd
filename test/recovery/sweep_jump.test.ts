/** Sweeps on a machine whose clock is set, or that sleeps. */

import { describe, expect } from "bun:test";
import { STOP_ROOM_MS } from "../../src/store/sqlite/recover.ts";
import { Registration } from "../../src/worker/registration.ts";
import { benchTest as test, LEASE_MS } from "../leasing/fixture.ts";
import { breaches } from "../contract/subject.ts";
import { counted, DEAD, EVERY_MS, register, SWEEP_GRACE_MS, sweepOf } from "./sweeps.ts";
import { end as endOf } from "../support/jobs.ts";
import { textsFor } from "../support/reports.ts";

const HOUR_MS = 3_600_000;

describe("a sweep after the clock was set ahead", () => {
  test("leaves leases alone that seem over, and takes them an interval later", async (b) => {
    const { job } = await b.granted();
    const said: string[] = [];
    const sweep = sweepOf(b, { report: textsFor(said) });
    await sweep.scan();
    b.clock.jumpWall(HOUR_MS);
    expect(await sweep.scan()).toEqual(counted({}));
    expect(said).toEqual([expect.stringContaining("the clock was set ahead or the machine slept")]);
    await b.pass(EVERY_MS - 1_000);
    expect(await sweep.scan()).toEqual(counted({}));
    await b.pass(1_000);
    expect(await sweep.scan()).toMatchObject({ expired_found: 1, recovered: 1 });
    expect(await b.stateOf(job.id)).toBe("pending");
  });

  test("knows of a jump that happened before it began, from what another had seen", async (b) => {
    await b.granted();
    await sweepOf(b).scan();
    b.clock.jumpWall(HOUR_MS);
    const fresh = sweepOf(b, { store: await b.reopen() });
    expect(await fresh.scan()).toEqual(counted({}));
  });

  test("knows of a jump as the first sweep ever, from the worker that holds the lease", async (b) => {
    const { store, clock } = b;
    const machine_time = () => ({ boot_id: "boot", uptime_ms: clock.mono_ms(), suspends: 0 });
    const activity = () => ({ slots: 1, draining: false, completed: 0, failed: 0 });
    const about = { name: null, version: "0", queues: null, task: null, commands_only: true, random: () => 0.5 };
    const worker = new Registration({ store, clock, activity, machine_time, ...about });
    await worker.register();
    await b.granted();
    clock.jumpWall(HOUR_MS);
    expect(await sweepOf(b, { machine_time }).scan()).toEqual(counted({}));
    worker.leave();
  });

  test("knows of a jump between its look at the clock and its look at the leases", async (b) => {
    const { job } = await b.granted();
    await sweepOf(b).scan();
    const { noticeClockJump } = b.store;
    b.store.noticeClockJump = async (...reading) => {
      b.store.noticeClockJump = noticeClockJump;
      const held = await noticeClockJump.call(b.store, ...reading);
      b.clock.jumpWall(HOUR_MS);
      return held;
    };
    expect(await sweepOf(b).scan()).toEqual(counted({}));
    expect(await b.stateOf(job.id)).toBe("running");
  });

  test("gives back at once what a dead worker held", async (b) => {
    const of_living = await b.granted();
    const of_dead = await b.granted({}, b.managerOf("w2"));
    const sweep = sweepOf(b);
    await sweep.scan();
    b.clock.jumpWall(HOUR_MS);
    await register(b, "w2", DEAD);
    expect(await sweep.scan()).toMatchObject({ recovered: 1 });
    expect(await b.stateOf(of_dead.job.id)).toBe("pending");
    expect(await b.stateOf(of_living.job.id)).toBe("running");
  });

  test("counts a sleep of the machine as a jump, though its clocks agree", async (b) => {
    await b.granted();
    const sweep = (suspends: number) =>
      sweepOf(b, { machine_time: () => ({ boot_id: "boot", uptime_ms: b.clock.mono_ms(), suspends }) });
    await sweep(4).scan();
    await b.pass(HOUR_MS, HOUR_MS);
    expect(await sweep(5).scan()).toEqual(counted({}));
    await b.pass(EVERY_MS);
    expect(await sweep(5).scan()).toMatchObject({ recovered: 1 });
  });

  test("does not take a lease whose holder put it right in the meantime", async (b) => {
    const lease = await b.granted();
    const sweep = sweepOf(b);
    await sweep.scan();
    b.clock.jumpWall(HOUR_MS);
    await sweep.scan();
    expect(await b.manager.renew(lease, { expires_in_ms: LEASE_MS, beat_age_ms: 0, beats: 1 })).toMatchObject({
      status: "extended",
    });
    await b.pass(EVERY_MS);
    expect(await sweep.scan()).toEqual(counted({}));
  });
});

describe("a sweep after the clock was set back", () => {
  test("cuts leases to their length from now, with room for a stop", async (b) => {
    const { job } = await b.granted();
    const sweep = sweepOf(b);
    await sweep.scan();
    b.clock.jumpWall(-HOUR_MS);
    await sweep.scan();
    expect(await b.expiryOf(job.id)).toBe(b.clock.wall_ms() + LEASE_MS + STOP_ROOM_MS);
    await b.pass(LEASE_MS + STOP_ROOM_MS + SWEEP_GRACE_MS + 1);
    expect(await sweep.scan()).toMatchObject({ recovered: 1 });
  });

  test("leaves a note for an audit, which takes what only times show for no breach then", async (b) => {
    const first = await b.granted({ settings: { retries: 9 } });
    const sweep = sweepOf(b);
    await sweep.scan();
    await b.pass(10_000);
    await b.manager.release(first, { end: endOf("returned"), process: null, last_lines: [] });
    b.clock.jumpWall(-HOUR_MS);
    await b.manager.acquire({ count: 1, queues: null, task: null });
    expect(await breaches(b.store)).not.toEqual([]);
    await sweep.scan();
    b.clock.jumpWall(-HOUR_MS / 2);
    await sweep.scan();
    expect(await breaches(b.store)).toEqual([]);
    const overlap = (await b.store.audit()).find(({ name }) => name === "overlap");
    expect(overlap?.explained_by).toContain(`set back (by ${HOUR_MS} ms, noticed`);
  });

  test("ends a job that was to be cancelled before, and does not take its end for one from before the request", async (b) => {
    const [gone, late] = [await b.granted(), await b.granted()];
    const sweep = sweepOf(b);
    await sweep.scan();
    await b.store.cancel([gone.job.id, late.job.id], null);
    b.clock.jumpWall(-HOUR_MS);
    await sweep.scan();
    await b.pass(1_000);
    const release = { end: endOf("success"), ended_at_ms: b.clock.wall_ms() };
    expect(await b.manager.release(late, release)).toMatchObject({ change: { state: { name: "cancelled" } } });
    await b.pass(LEASE_MS + STOP_ROOM_MS + SWEEP_GRACE_MS + 1);
    expect(await sweep.scan()).toMatchObject({ cancelled: 1 });
    expect(await b.stateOf(gone.job.id)).toBe("cancelled");
  });

  test("keeps the pause before a retry as long as it was, and the moments that people chose", async (b) => {
    const lease = await b.granted();
    const sweep = sweepOf(b);
    await sweep.scan();
    const end = {
      cause: "exit",
      exit_code: 1,
      signal: null,
      error: "exit code 1",
      output: null,
      last_line: null,
    } as const;
    await b.manager.release(lease, { end: { ...end, beats: 0 } });
    const chosen = b.clock.wall_ms() + 60_000;
    const put_off = await b.enqueue({ run_at_ms: chosen });
    b.clock.jumpWall(-HOUR_MS);
    await sweep.scan();
    expect((await b.job(lease.job.id)).state).toEqual({ name: "scheduled", run_at_ms: b.clock.wall_ms() + 1_000 });
    expect((await b.job(put_off)).state).toEqual({ name: "scheduled", run_at_ms: chosen });
  });

  test("takes nothing from a lease that was granted while the notice waited for its turn to be written", async (b) => {
    const id = await b.enqueue();
    await sweepOf(b).scan();
    b.clock.jumpWall(-HOUR_MS);
    const uptime_ms = b.clock.mono_ms();
    const noticing = b.store.noticeClockJump({ boot_id: "boot", uptime_ms, suspends: 0 }, EVERY_MS);
    b.clock.jumpWall(500);
    await b.manager.acquire();
    await noticing;
    expect(await b.expiryOf(id)).toBe(b.clock.wall_ms() + LEASE_MS);
  });

  for (const order of ["before", "after"] as const) {
    test(`leaves a job the time to stop that it was given ${order} the clock was set`, async (b) => {
      const lease = await b.granted();
      const sweep = sweepOf(b);
      await sweep.scan();
      const stopFor = { expires_in_ms: LEASE_MS + 5_000, beat_age_ms: null, beats: 0 };
      if (order === "before") await b.manager.renew(lease, stopFor);
      b.clock.jumpWall(-HOUR_MS);
      if (order === "after") await b.manager.renew(lease, stopFor);
      await sweep.scan();
      const given_ms = (await b.expiryOf(lease.job.id)) - b.clock.wall_ms();
      expect(given_ms).toBeGreaterThanOrEqual(lease.remaining());
    });
  }
});
