import { describe, expect, test as plainTest } from "bun:test";
import { existsSync } from "node:fs";
import { calibrate } from "../../src/core/calibration.ts";
import { systemRandom } from "../../src/platform/clock.ts";
import { WorkerPool } from "../../src/worker/pool.ts";
import type { WorkerPoolOptions } from "../../src/worker/pool.ts";
import type { Store } from "../../src/store/store.ts";
import { Bench, intercept } from "../leasing/fixture.ts";
import { fastClock } from "../runner/fixture.ts";
import { newJob } from "../support/jobs.ts";
import { poolTest as test, type PoolBench } from "./pools.ts";
import { DEAD, register } from "../recovery/sweeps.ts";

/** The store, of which some verbs fail until `mended` is set. */
function troubled(
  b: PoolBench | Bench,
  verbs: readonly (keyof Store)[],
): { store: Store; mended: boolean; tries: number } {
  const trouble = { mended: false, tries: 0, store: b.store };
  const broken = Object.fromEntries(
    verbs.map((verb) => [
      verb,
      (...args: unknown[]) => {
        trouble.tries += 1;
        if (!trouble.mended) return Promise.reject(new Error("disk is full"));
        return (b.store[verb] as (...rest: unknown[]) => unknown)(...args);
      },
    ]),
  );
  trouble.store = intercept(b.store, broken as Partial<Store>);
  return trouble;
}

describe("a worker whose store is in trouble", () => {
  test("goes on asking for jobs, says so, and takes them when the store is back", async (b) => {
    const trouble = troubled(b, ["acquire"]);
    const ids = await b.scripts("true", 3);
    // Pauses that grow from 100 ms pass twenty times as fast.
    const pool = await b.started({ store: trouble.store, until_empty: true, clock: fastClock(20) });
    while (trouble.tries < 4) await Bun.sleep(2);
    expect(b.reports[0]).toBe("warn: the store is in trouble, trying again: disk is full");
    trouble.mended = true;
    await pool.finished;
    expect(await b.states(ids)).toEqual(["completed", "completed", "completed"]);
  });

  test("keeps the ends of its jobs until they can be written", async (b) => {
    const trouble = troubled(b, ["settle"]);
    const ids = await b.scripts(`echo x >> ${b.file("ran")}`, 2);
    const pool = await b.started({ store: trouble.store, until_empty: true, clock: fastClock(20) });
    while (trouble.tries < 5) await Bun.sleep(2);
    trouble.mended = true;
    await pool.finished;
    expect([await b.states(ids), b.lines("ran").length]).toEqual([["completed", "completed"], 2]);
  });

  for (const [how, options] of [
    ["after its last job", { max_jobs: 1 }],
    ["when it is drained", {}],
  ] as const) {
    test(`does not end ${how} as if all was well when the end of a job could not be written`, async (b) => {
      const trouble = troubled(b, ["settle"]);
      await b.scripts(`echo go >> ${b.file("go")}`, 1, { settings: { lease_ms: 1_000 } });
      const pool = await b.started({ store: trouble.store, ...options });
      await b.written("go");
      pool.stop(60_000);
      expect(await pool.finished.catch((error: Error) => error.message)).toBe(
        "the end of job 1 could not be written: disk is full",
      );
    });
  }

  test("ends at once when it is hurried, with a job whose end can't be written, and leaves it to be found", async (b) => {
    const trouble = troubled(b, ["settle"]);
    await b.scripts(`echo go >> ${b.file("go")}`);
    const pool = await b.started({ store: trouble.store });
    await b.written("go");
    while (trouble.tries < 2) await Bun.sleep(2);
    pool.stop(60_000);
    pool.stop(0);
    expect(await pool.finished.catch((error: Error) => error.message)).toContain("the end of job 1 could not be");
    expect(await b.other.workers()).toMatchObject([{ stopped_at_ms: null, ended: null }]);
  });

  test("has ended well when its own sweep has put right what it could not write", async (b) => {
    const trouble = troubled(b, ["settle"]);
    const [id = 0] = await b.scripts(`echo go >> ${b.file("go")}`, 1, { settings: { lease_ms: 1_000 } });
    const times = calibrate({ lease_ms: 1_000, sweep_every_ms: 1_000 });
    const pool = await b.started({ store: trouble.store, sweep: true, times });
    while (!b.reports.some((line) => line.includes("its end could not be written: "))) await Bun.sleep(10);
    trouble.mended = true;
    await b.settles(1);
    pool.stop(0);
    await pool.finished;
    expect(await b.states([id])).toEqual(["completed"]);
    expect(await b.other.workers()).toMatchObject([{ ended: "clean" }]);
  });

  test("does not say so again and again", async (b) => {
    const trouble = troubled(b, ["acquire"]);
    await b.scripts("true");
    const pool = await b.started({ store: trouble.store, until_empty: true, clock: fastClock(50) });
    while (trouble.tries < 8) await Bun.sleep(2);
    trouble.mended = true;
    await pool.finished;
    expect(b.reports.filter((line) => line.includes("in trouble")).length).toBeLessThanOrEqual(3);
  });

  test("does not end as if nothing was left when it could not look", async (b) => {
    const trouble = troubled(b, ["backlog", "nextDue"]);
    const pool = await b.started({ store: trouble.store, until_empty: true, clock: fastClock(20) });
    while (trouble.tries < 3) await Bun.sleep(2);
    expect(pool.statistics().state).toBe("working");
    trouble.mended = true;
    await pool.finished;
  });

  test("can be stopped all the same", async (b) => {
    const trouble = troubled(b, ["acquire"]);
    const pool = await b.started({ store: trouble.store, clock: fastClock(20) });
    while (trouble.tries < 2) await Bun.sleep(2);
    pool.stop(0);
    await pool.finished;
  });

  test("ends though its own record can't be written", async (b) => {
    const ids = await b.scripts("true");
    const trouble = troubled(b, ["saveWorker"]);
    trouble.mended = true;
    const pool = await b.started({ store: trouble.store, until_empty: true });
    trouble.mended = false;
    await pool.finished;
    expect(await b.states(ids)).toEqual(["completed"]);
  });

  test("does not start at all when it can't even be registered, and leaves nothing behind", async (b) => {
    const trouble = troubled(b, ["saveWorker"]);
    const pool = b.pool({ store: trouble.store });
    const refused = await pool.start().catch((error: Error) => error.message);
    expect(refused).toBe("disk is full");
  });
});

describe("a worker with nothing to do on a store that stays away", () => {
  /** No children here, so the test owns the clock. */
  function idle(b: Bench, options: Partial<WorkerPoolOptions>): WorkerPool {
    return new WorkerPool({
      store: b.store,
      clock: b.clock,
      random: systemRandom,
      report: () => {},
      store_url: b.path,
      version: "0",
      name: null,
      queues: null,
      task: null,
      slots: 1,
      times: calibrate({}),
      beat: "output",
      handler: [],
      kill_grace_ms: 10_000,
      poll_ms: 1_000,
      sweep: true,
      log_dir: null,
      until_empty: false,
      max_jobs: null,
      ...options,
    });
  }

  async function gaveUp(b: Bench): Promise<{ after_ms: number; error: string }> {
    const trouble = troubled(b, ["acquire", "nextDue", "backlog"]);
    const pool = idle(b, { store: trouble.store });
    await pool.start();
    await b.enqueue();
    const start_ms = b.clock.mono_ms();
    const result = { after_ms: 0, error: "" };
    pool.finished.catch((reason: Error) => (result.error = reason.message));
    for (let second = 0; second < 60 && result.error === ""; second++) await b.pass(1_000, 100);
    return { ...result, after_ms: b.clock.mono_ms() - start_ms };
  }

  async function onBench(body: (b: Bench) => Promise<void>): Promise<void> {
    const bench = await new Bench().open();
    try {
      await body(bench);
    } finally {
      await bench.dispose();
    }
  }

  plainTest("gives up after a while and names the reason", () =>
    onBench(async (b) => {
      const { after_ms, error } = await gaveUp(b);
      expect(error).toBe("disk is full");
      expect(after_ms).toBeGreaterThan(29_000);
      expect(after_ms).toBeLessThan(45_000);
    }),
  );

  plainTest("leaves no timer behind that would keep its process alive, and no sign of life", () =>
    onBench(async (b) => {
      await gaveUp(b);
      // What was still to be waited for is over by now.
      await b.pass(15_000);
      const seen = (await b.store.workers()).map(({ seen_at_ms }) => seen_at_ms);
      await b.pass(30_000);
      expect(b.clock.timers).toBe(0);
      expect((await b.store.workers()).map(({ seen_at_ms }) => seen_at_ms)).toEqual(seen);
    }),
  );

  plainTest("refreshes its record in time while all is well", () =>
    onBench(async (b) => {
      const pool = idle(b, {});
      await pool.start();
      const [first] = await b.store.workers();
      await b.pass(55_000);
      const [later] = await b.store.workers();
      expect(later!.seen_at_ms - first!.seen_at_ms).toBeGreaterThanOrEqual(15_000);
      pool.stop(0);
      await b.pass(15_000);
      await pool.finished;
      expect(b.clock.timers).toBe(0);
    }),
  );

  plainTest("runs the sweep, and recovers at its next poll what a worker here that died had held", () =>
    onBench(async (b) => {
      const { job } = await b.granted({ queue: "elsewhere" });
      const pool = idle(b, { queues: ["mine"] });
      await pool.start();
      await b.pass(2_000, 100);
      await register(b, "w1", DEAD);
      await b.pass(2_000, 100);
      expect(await b.stateOf(job.id)).toBe("pending");
      expect((await b.store.recovery())?.recovered).toBe(1);
      pool.stop(0);
      await b.pass(15_000);
      await pool.finished;
    }),
  );
});

describe("a worker that can't write plain logs", () => {
  test("leaves no job running because of it", async (b) => {
    const ids = await b.enqueue(newJob({ argv: ["true"] }));
    const pool = await b.started({ log_dir: b.path, max_jobs: 1 });
    await pool.finished.catch(() => {});
    expect(existsSync(b.path)).toBe(true);
    expect(await b.states(ids)).not.toContain("running");
  });
});
