import { describe, expect } from "bun:test";
import { LeaseError } from "../../src/core/errors.ts";
import type { Lease } from "../../src/leasing/lease.ts";
import type { SweepCounts } from "../../src/core/records.ts";
import { answered, benchTest as test, intercept, LEASE_MS, type Bench } from "../leasing/fixture.ts";
import { SWEEP_PAGE } from "../../src/recovery/sweep.ts";
import { newJob } from "../support/jobs.ts";
import { counted, DEAD, EVERY_MS, register, SWEEP_GRACE_MS, sweepOf } from "./sweeps.ts";
import { linesFor, textsFor } from "../support/reports.ts";

/** So many running jobs, whose leases are then over. */
async function expiredJobs(b: Bench, count: number): Promise<Lease[]> {
  await b.store.enqueue(Array.from({ length: count }, () => newJob()));
  const leases = await b.manager.acquire({ count, queues: ["default"] });
  expect(leases).toHaveLength(count);
  b.clock.jumpWall(LEASE_MS + SWEEP_GRACE_MS + 1);
  return leases;
}

describe("many sweeps, many jobs", () => {
  test("a sweep goes on from page to page until it has been through all", async (b) => {
    const pages: number[] = [];
    await expiredJobs(b, 2 * SWEEP_PAGE + 50);
    const store = intercept(b.store, {
      expired: async (query) => {
        const found = await b.store.expired(query);
        pages.push(found.length);
        return found;
      },
    });
    expect(await sweepOf(b, { store }).scan()).toMatchObject({ recovered: 2 * SWEEP_PAGE + 50, errors: 0 });
    expect(pages).toEqual([SWEEP_PAGE, SWEEP_PAGE, 50]);
    expect(await b.store.counts()).toEqual([{ queue: "default", state: "pending", count: 2 * SWEEP_PAGE + 50 }]);
  });

  test("a sweep ends behind a last page that is exactly full", async (b) => {
    await expiredJobs(b, SWEEP_PAGE);
    expect(await sweepOf(b).scan()).toMatchObject({ expired_found: SWEEP_PAGE, recovered: SWEEP_PAGE });
  });

  test("a sweep goes on behind a page on which others were faster", async (b) => {
    await expiredJobs(b, SWEEP_PAGE + 50);
    const other = sweepOf(b, { store: await b.reopen() });
    let first = true;
    const store = intercept(b.store, {
      expired: async (query) => {
        const found = await b.store.expired(query);
        if (first) {
          first = false;
          await other.scan();
        }
        return found;
      },
    });
    expect(await sweepOf(b, { store }).scan()).toMatchObject({ expired_found: SWEEP_PAGE, recovered: 0 });
    expect(await b.store.counts()).toEqual([{ queue: "default", state: "pending", count: SWEEP_PAGE + 50 }]);
  });

  test("a sweep finds the jobs of dead workers among many that are fine", async (b) => {
    await b.store.enqueue(Array.from({ length: 500 }, () => newJob()));
    await b.manager.acquire({ count: 240, queues: ["default"] });
    await b.managerOf("dead").acquire({ count: 250, queues: ["default"] });
    await register(b, "dead", DEAD);
    expect(await sweepOf(b).scan()).toMatchObject({ expired_found: 250, recovered: 250 });
    expect(await b.store.counts()).toEqual([
      { queue: "default", state: "pending", count: 260 },
      { queue: "default", state: "running", count: 240 },
    ]);
  });

  test("ten sweeps at once recover each of 300 jobs exactly once", async (b) => {
    const leases = await expiredJobs(b, 300);
    const stores = await Promise.all(Array.from({ length: 10 }, () => b.reopen()));
    const all = await Promise.all(stores.map((store) => sweepOf(b, { store }).scan()));
    const sum = (name: keyof SweepCounts): number => all.reduce((total, counts) => total + counts[name], 0);
    expect([sum("recovered"), sum("checkpoints_created"), sum("failed"), sum("errors")]).toEqual([300, 300, 0, 0]);
    const jobs = await b.store.jobs(leases.map(({ job }) => job.id));
    expect(jobs.every((job) => job?.state.name === "pending" && job.failures === 1)).toBe(true);
    expect(await b.store.checkpoints({ limit: 1_000 })).toHaveLength(300);
    const again = await b.managerOf("w2").acquire({ count: 400, queues: ["default"] });
    expect(again.map(({ token }) => token)).toEqual(Array.from({ length: 300 }, () => 2));
  });
});

describe("a job that can't be recovered", () => {
  test("because nothing can be decided about it is counted, told, and does not stop the rest", async (b) => {
    const leases = await expiredJobs(b, 5);
    const broken_id = leases[2]!.job.id;
    const reports: string[] = [];
    const store = intercept(b.store, {
      expired: async (query) => {
        const found = await b.store.expired(query);
        return found.map((lease) =>
          lease.job.id === broken_id ? { ...lease, job: { ...lease.job, settings: null as never } } : lease,
        );
      },
    });
    const counts = await sweepOf(b, { store, report: textsFor(reports) }).scan();
    expect(counts).toEqual(counted({ expired_found: 5, recovered: 4, checkpoints_created: 4, errors: 1 }));
    const refused = reports.filter((text) => !text.includes("is over"));
    expect(refused).toEqual([expect.stringContaining(`job ${broken_id}: could not be recovered`)]);
  });

  test("because it can't be written is counted and does not stop the rest", async (b) => {
    const leases = await expiredJobs(b, 5);
    const broken_id = leases[2]!.job.id;
    const store = intercept(b.store, {
      recover: async (requests) => {
        if (requests.some(({ id }) => id === broken_id)) throw new Error("CHECK constraint failed");
        return b.store.recover(requests);
      },
    });
    const counts = await sweepOf(b, { store })
      .scan()
      .catch(() => null);
    expect(counts).toMatchObject({ expired_found: 5, recovered: 4, errors: 1 });
  });

  test("because the store is locked ends the sweep, and is not waited for again with each of them", async (b) => {
    await expiredJobs(b, 5);
    let tries = 0;
    const store = intercept(b.store, {
      recover: () => {
        tries += 1;
        return Promise.reject(new LeaseError("store_busy", "store is locked"));
      },
    });
    const refused = await sweepOf(b, { store })
      .scan()
      .catch((error: Error) => error.message);
    expect([refused, tries]).toEqual(["store is locked", 1]);
  });
});

describe("a sweep that repeats", () => {
  test("runs at once and then again and again, a little apart from others", async (b) => {
    for (const [chance, apart_ms] of [
      [0, EVERY_MS * 0.9],
      [0.999, EVERY_MS * 1.1],
    ] as const) {
      const begun: number[] = [];
      const store = intercept(b.store, {
        workers: (query) => {
          begun.push(b.clock.mono_ms());
          return b.store.workers(query);
        },
      });
      const sweep = sweepOf(b, { store, random: () => chance });
      const start_ms = b.clock.mono_ms();
      sweep.start();
      await b.pass(EVERY_MS * 2.5, 100);
      expect(begun[0]).toBe(start_ms);
      // A scan takes a step or two of the test's time.
      for (const nth of [1, 2]) expect(Math.abs(begun[nth]! - begun[nth - 1]! - apart_ms)).toBeLessThan(1_000);
      await sweep.stop();
    }
  });

  test("tells what it has done", async (b) => {
    const sweep = sweepOf(b);
    expect(sweep.statistics()).toEqual({
      running: false,
      total_scans: 0,
      total_recovered: 0,
      total_failed: 0,
      last_scan: null,
    });
    await b.granted();
    await b.granted({ settings: { retries: 0 } });
    b.clock.jumpWall(LEASE_MS * 2);
    sweep.start();
    await b.pass(EVERY_MS + 5_000);
    expect(sweep.statistics()).toMatchObject({
      running: true,
      total_scans: 2,
      total_recovered: 1,
      total_failed: 1,
      last_scan: { expired_found: 0 },
    });
    await sweep.stop();
    expect(sweep.statistics().running).toBe(false);
  });

  test("is started once, however often it is told to", async (b) => {
    let scans = 0;
    const sweep = sweepOf(b);
    sweep.start(() => scans++);
    sweep.start(() => scans++);
    await b.pass(100);
    expect(scans).toBe(1);
    await sweep.stop();
  });

  test("goes on after one that failed, and says so", async (b) => {
    const reports: string[] = [];
    let broken = true;
    const store = intercept(b.store, {
      workers: () => (broken ? Promise.reject(new Error("disk I/O error")) : b.store.workers({ live_on: "x" })),
    });
    const sweep = sweepOf(b, { store, report: linesFor(reports) });
    let scans = 0;
    sweep.start(() => scans++);
    await b.pass(100);
    broken = false;
    await b.pass(EVERY_MS * 1.2);
    expect([reports, scans]).toEqual([["error: sweep failed: disk I/O error"], 1]);
    await sweep.stop();
  });

  test("is over when it is stopped: nothing runs on, no timer is left", async (b) => {
    let scans = 0;
    const sweep = sweepOf(b);
    sweep.start(() => scans++);
    await b.pass(100);
    await sweep.stop();
    expect(b.clock.timers).toBe(0);
    await b.pass(EVERY_MS * 5);
    expect(scans).toBe(1);
  });

  test("is waited for when it is stopped in the middle, but not for ever", async (b) => {
    const gate = Promise.withResolvers<void>();
    const store = intercept(b.store, {
      workers: async (query) => {
        await gate.promise;
        return b.store.workers(query);
      },
    });
    const sweep = sweepOf(b, { store });
    const told: string[] = [];
    sweep.start(() => told.push("scanned"));
    await b.pass(1);
    void sweep.stop({ timeout_ms: 5_000 }).then(() => told.push("gave up"));
    await sweep.stop({ wait: false });
    await b.pass(4_000);
    expect(told).toEqual([]);
    await b.pass(1_000);
    expect(told).toEqual(["gave up"]);
    gate.resolve();
    await answered();
  });

  test("runs once per turn though it was stopped and started again in the middle of one", async (b) => {
    const gate = Promise.withResolvers<void>();
    const store = intercept(b.store, {
      workers: async (query) => {
        await gate.promise;
        return b.store.workers(query);
      },
    });
    const sweep = sweepOf(b, { store });
    sweep.start();
    await b.pass(1);
    await sweep.stop({ wait: false });
    sweep.start();
    gate.resolve();
    await b.pass(100);
    const before = sweep.statistics().total_scans;
    await b.pass(EVERY_MS);
    expect(sweep.statistics().total_scans - before).toBe(1);
    await sweep.stop();
  });
});
