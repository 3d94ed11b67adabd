/** The parts that workers are made of, each alone and with its defaults: how a program without a worker uses them. */

import { describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import {
  Heartbeat,
  HeartbeatTimer,
  LeaseExtender,
  LeaseManager,
  open,
  RecoverySweep,
  WorkerPool,
  type HeldLease,
  type Queue,
} from "../../src/index.ts";
import { answered, temporaryFolder } from "../leasing/fixture.ts";
import { code, on } from "./ground.ts";

describe("a LeaseManager", () => {
  on("acquires work, has it done and releases it with the result", async ({ queue, manager }) => {
    await queue.enqueue({ input: { n: 20 } });
    const lease = await manager.acquire<{ n: number }>({ lease: "5m" });
    expect(lease).toMatchObject({ token: 1, job: { input: { n: 20 }, state: "running", holder: "worker-1" } });
    expect(lease?.remaining()).toBe(300_000);
    expect(await manager.release(lease!, { success: true, output: lease!.job.input.n * 2 })).toBe("completed");
    expect(await queue.inspect(1)).toMatchObject({ state: "completed", output: 40 });
    expect(await manager.acquire()).toBeNull();
  });

  on(
    "releases what failed with the error, to be tried again by the job's policy",
    async ({ queue, manager, clock }) => {
      await queue.enqueue({ input: 1, retries: 1 });
      expect(await manager.release((await manager.acquire())!, { error: "the page is gone" })).toBe("scheduled");
      await clock.advance("2s");
      expect(await manager.release((await manager.acquire())!, { error: "still gone" })).toBe("failed");
      expect(await queue.inspect(1)).toMatchObject({ error: "still gone", cause: "error", attempts: 2 });
    },
  );

  on("takes the most urgent first, of a queue and of a task where they are named", async ({ queue, manager }) => {
    await queue.enqueue([
      { input: 1, queue: "a" },
      { input: 2, queue: "a", priority: 9 },
      { input: 3, queue: "b", task: "t" },
    ]);
    expect((await manager.acquire({ task: "t" }))?.job.input).toBe(3);
    expect((await manager.acquire({ queue: "a" }))?.job.input).toBe(2);
    expect(await manager.acquire({ queue: "c" })).toBeNull();
  });

  on("gives two workers two jobs, and one job to one of them", async ({ queue, manager }) => {
    await queue.enqueue({ input: 1 });
    const other = new LeaseManager(queue);
    const [a, b] = await Promise.all([manager.acquire(), other.acquire()]);
    expect([a, b].filter((lease) => lease !== null)).toHaveLength(1);
  });

  on("says why a renewal is refused: over, or somebody else's", async ({ queue, manager, clock, held }) => {
    const lease = await held("10s");
    await clock.advance("8s");
    expect(await manager.renew(lease)).toBe("extended");
    expect(lease.remaining()).toBe(10_000);
    await clock.advance("11s");
    expect(await manager.renew(lease)).toBe("expired");
    await new RecoverySweep(queue, { grace: "0" }).scan();
    const next = await new LeaseManager(queue, "worker-2").acquire();
    expect(next?.token).toBe(2);
    expect(await manager.renew(lease)).toBe("conflict");
    expect(await manager.release(lease, { success: true, output: "late" })).toBe("stale");
    expect(await queue.inspect(lease.job.id)).toMatchObject({ state: "running", holder: "worker-2", output: null });
  });

  on("gives back what was not begun, and that counts as nothing", async ({ queue, manager, held }) => {
    expect(await manager.giveBack(await held())).toBe("pending");
    expect(await queue.inspect(1)).toMatchObject({ retries_left: 3, state: "pending" });
  });

  on("refuses what is no lease and no queue", async ({ manager }) => {
    expect(await code(() => manager.renew({} as HeldLease))).toBe("usage");
    expect(await code(() => new LeaseManager({} as Queue))).toBe("usage");
    expect(await code(() => manager.acquire({ lease: "10ms" }))).toBe("calibration");
    expect(await code(() => manager.acquire({ queu: "a" } as object))).toBe("usage");
  });
});

describe("a HeartbeatTimer", () => {
  on("renews every 30 seconds until it is stopped", async ({ manager, clock, held }) => {
    const lease = await held();
    const timer = new HeartbeatTimer(manager, lease).start();
    expect(timer.running).toBe(true);
    await clock.advance("10m");
    await answered();
    expect(timer.renewals).toBe(20);
    expect(lease.remaining()).toBeGreaterThan(260_000);
    await timer.stop();
    expect(timer.running).toBe(false);
    await clock.advance("1m");
    expect(timer.renewals).toBe(20);
  });

  on("tells when the lease was given to somebody else", async ({ queue, manager, clock, held }) => {
    const lease = await held("60s");
    const lost: string[] = [];
    const timer = new HeartbeatTimer(manager, lease, { interval: "20s", onLost: (reason) => lost.push(reason) });
    await clock.advance("59s");
    clock.jumpWall(120_000);
    await new RecoverySweep(queue, { grace: "0" }).scan();
    await clock.advance("20m");
    expect(lost).toEqual([]);
    timer.start();
    await clock.advance("20s");
    expect(lost).toEqual(["expired"]);
    expect(timer.running).toBe(false);
  });

  on("gives up after three failures in a row, and tells", async ({ manager, clock, held, cutOff }) => {
    const lease = await held();
    const lost: [string, number][] = [];
    const timer = new HeartbeatTimer(manager, lease, { onLost: (reason) => lost.push([reason, timer.failures]) });
    timer.start();
    await cutOff();
    await clock.advance("59s");
    await answered();
    expect([timer.failures, timer.running]).toEqual([1, true]);
    await clock.advance("31s");
    await answered();
    expect(lost).toEqual([["unreachable", 3]]);
    expect(timer.running).toBe(false);
  });

  on(
    "tells that the lease is over by its own clock, when no answer comes",
    async ({ manager, clock, held, cutOff }) => {
      const lease = await held("60s");
      const lost: string[] = [];
      const options = { interval: "20s", max_failures: 100, onLost: (reason: string) => void lost.push(reason) };
      new HeartbeatTimer(manager, lease, options).start();
      await cutOff();
      await clock.advance("59s");
      expect(lost).toEqual([]);
      await clock.advance("1s");
      expect(lost).toEqual(["expired"]);
    },
  );

  on("refuses an interval that would lose the lease of a healthy job", async ({ manager, held }) => {
    const lease = await held("60s");
    expect(await code(() => new HeartbeatTimer(manager, lease, { interval: "30s" }))).toBe("calibration");
  });
});

describe("a Heartbeat", () => {
  test("knows when it beat last, and calls back whoever was added, also after one that throws", () => {
    const heartbeat = new Heartbeat();
    const calls: string[] = [];
    const second = () => void calls.push("second");
    heartbeat.addCallback(() => {
      calls.push("first");
      throw new Error("no");
    });
    heartbeat.addCallback(second);
    heartbeat.beat();
    heartbeat.removeCallback(second);
    heartbeat.beat();
    expect(calls).toEqual(["first", "second", "first"]);
    expect([heartbeat.beats, heartbeat.elapsed() < 1_000]).toEqual([2, true]);
  });
});

describe("a LeaseExtender", () => {
  on(
    "extends on beats alone, at most once per interval, while it is attached",
    async ({ queue, manager, clock, held }) => {
      const lease = await held();
      const heartbeat = new Heartbeat(queue);
      const extender = new LeaseExtender(manager, { interval: "60s", extension: "300s" });
      {
        using _ = extender.attach(lease, heartbeat);
        await clock.advance("60s");
        for (let n = 0; n < 3; n++) heartbeat.beat();
        await answered();
        expect(extender.statistics()).toEqual({ attempts: 1, extended: 1, failures: 0, refusals: 0 });
        expect(lease.remaining()).toBe(300_000);
        await clock.advance("60s");
        await answered();
        // The two that came too soon were remembered.
        expect(extender.statistics().extended).toBe(2);
      }
      await clock.advance("60s");
      heartbeat.beat();
      await answered();
      expect(extender.statistics().extended).toBe(2);
    },
  );

  on("lets the lease of work that hangs run out, and tells", async ({ queue, manager, clock, held }) => {
    const lease = await held("10s");
    const lost: string[] = [];
    const extender = new LeaseExtender(manager, { onLost: (reason) => lost.push(reason) });
    using _ = extender.attach(lease, new Heartbeat(queue));
    await clock.advance("9s");
    expect(lost).toEqual([]);
    await clock.advance("1s");
    expect([lost, extender.statistics().attempts]).toEqual([["expired"], 0]);
  });

  on("tells that it is over, also when the store can't be reached", async ({ queue, manager, clock, held, cutOff }) => {
    const lease = await held("10s");
    const heartbeat = new Heartbeat(queue);
    const lost: string[] = [];
    const failed: number[] = [];
    const extender = new LeaseExtender(manager, {
      onLost: (reason) => lost.push(reason),
      onFailure: (_error, in_a_row) => failed.push(in_a_row),
    });
    using _ = extender.attach(lease, heartbeat);
    await cutOff();
    for (let second = 0; second < 11; second++) {
      heartbeat.beat();
      await clock.advance("1s");
      await answered();
    }
    expect(lost).toEqual(["expired"]);
    expect(failed.length).toBeGreaterThan(3);
    expect(extender.statistics().failures).toBe(failed.length);
  });

  on("extends nothing when it is not enabled, and nothing for two at once", async ({ queue, manager, held }) => {
    const lease = await held();
    const heartbeat = new Heartbeat(queue);
    const off = new LeaseExtender(manager, { enabled: false });
    using _ = off.attach(lease, heartbeat);
    heartbeat.beat();
    await answered();
    expect(off.statistics().attempts).toBe(0);
    expect(await code(() => off.attach(lease, heartbeat))).toBe("misuse");
  });

  on("counts refusals", async ({ queue, manager, clock, held }) => {
    const lease = await held("10s");
    const heartbeat = new Heartbeat(queue);
    const lost: string[] = [];
    const extender = new LeaseExtender(manager, { onLost: (reason) => lost.push(reason) });
    using _ = extender.attach(lease, heartbeat);
    await clock.advance("5s");
    await queue.cancel(lease.job.id);
    await manager.release(lease, { success: true });
    heartbeat.beat();
    await answered();
    expect([extender.statistics().refusals, lost]).toEqual([1, ["expired"]]);
  });

  on("refuses wrong calibration at once, or when it meets the lease", async ({ queue, manager, held }) => {
    expect(await code(() => new LeaseExtender(manager, { interval: "150s", extension: "300s" }))).toBe("calibration");
    const long = new LeaseExtender(manager, { interval: "60s", extension: "10m" });
    const lease = await held("5m");
    expect(await code(() => long.attach(lease, new Heartbeat(queue)))).toBe("calibration");
  });

  on(
    "with interval auto follows the gaps between beats, within its bounds",
    async ({ queue, manager, clock, held }) => {
      const lease = await held("100s");
      const heartbeat = new Heartbeat(queue);
      const extender = new LeaseExtender(manager, { interval: "auto" });
      using _ = extender.attach(lease, heartbeat);
      expect(extender.interval_ms).toBe(10_000);
      for (let n = 0; n < 200; n++) {
        heartbeat.beat();
        await clock.advance(1_000);
      }
      await answered();
      // Many beats: few writes, and half of the lease is left at the worst moment.
      expect(extender.interval_ms).toBe(45_000);
      expect(extender.statistics().extended).toBeLessThanOrEqual(8);
      for (let n = 0; n < 40; n++) {
        heartbeat.beat();
        await clock.advance(45_000);
      }
      // Seldom beats: each is written.
      expect(extender.interval_ms).toBe(10_000);
    },
  );
});

describe("a RecoverySweep", () => {
  on("frees what is expired, once, and counts all of it", async ({ queue, manager, clock, held }) => {
    await held("10s");
    await queue.enqueue({ input: 2, retries: 0 });
    await manager.acquire({ lease: "10s" });
    const sweep = new RecoverySweep(queue, { grace: "0" });
    expect(await sweep.scan()).toMatchObject({ expired_found: 0, recovered: 0 });
    await clock.advance("11s");
    expect(await sweep.scan()).toEqual({
      expired_found: 2,
      recovered: 1,
      failed: 1,
      cancelled: 0,
      checkpoints_created: 2,
      orphans_killed: 0,
      errors: 0,
      scan_duration_ms: expect.any(Number),
    });
    expect(sweep.statistics()).toMatchObject({
      running: false,
      total_scans: 2,
      total_recovered: 1,
      total_failed: 1,
      last_scan: { expired_found: 2 },
    });
    expect(await queue.inspect(2)).toMatchObject({ state: "failed", error: "max retries exceeded" });
    expect((await queue.inspect(1)).checkpoints).toMatchObject([{ kind: "error" }]);
  });

  on("sweeps again and again once it is started, until it is stopped", async ({ queue, clock }) => {
    const sweep = new RecoverySweep(queue, { every: "60s" });
    const scans: number[] = [];
    sweep.start(({ expired_found }) => void scans.push(expired_found));
    expect(sweep.running).toBe(true);
    for (let minute = 0; minute < 5; minute++) {
      await clock.advance("70s");
      await answered();
    }
    await sweep.stop();
    expect(scans.length).toBeGreaterThanOrEqual(4);
    expect([sweep.running, sweep.statistics().total_scans]).toEqual([false, scans.length]);
  });

  on("keeps no note where none is wanted", async ({ queue, clock, held }) => {
    await held("10s");
    await clock.advance("11s");
    const sweep = new RecoverySweep(queue, { grace: "0", checkpoints: false });
    expect(await sweep.scan()).toMatchObject({ recovered: 1, checkpoints_created: 0 });
    expect((await queue.inspect(1)).checkpoints).toEqual([]);
  });
});

describe("a WorkerPool", () => {
  test("grows with the work and tells what each slot has done", async () => {
    const folder = temporaryFolder();
    {
      await using queue = await open(join(folder, "jobs.db"));
      const pool = new WorkerPool(queue, { min: 1, max: 3, scale_up_at: 2, poll: "10ms" }, async (job) => {
        await Bun.sleep(15);
        if (job.input === 0) throw new Error("no");
      });
      await queue.enqueue(Array.from({ length: 40 }, (_, n) => ({ input: n, retries: 0 })));
      expect(pool.statistics()).toBeNull();
      pool.start();
      await queue.wait({ queue: "default" });
      const { slots, by_slot, completed, failed } = pool.statistics()!;
      expect({ total: slots.total, completed, failed }).toEqual({ total: 3, completed: 39, failed: 1 });
      expect(by_slot.reduce((sum, slot) => sum + slot.completed, 0)).toBe(39);
      expect(by_slot.every(({ state, job }) => state === "idle" && job === null)).toBe(true);
      await pool.stop({ drain: "30s" });
      expect(pool.statistics()?.by_slot.every(({ state }) => state === "stopped")).toBe(true);
      expect(pool.running).toBe(false);
    }
    rmSync(folder, { recursive: true });
  });

  on("drains: what runs ends, what waits stays", async ({ queue }) => {
    await queue.enqueue([{ input: 1 }, { input: 2 }]);
    const go = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const pool = new WorkerPool(queue, { slots: 1 }, async () => {
      begun.resolve();
      await go.promise;
    });
    pool.start();
    await begun.promise;
    expect(pool.statistics()?.by_slot).toMatchObject([{ state: "processing", job: 1 }]);
    const stopped = pool.stop();
    go.resolve();
    await stopped;
    expect((await queue.list({ reverse: true })).map(({ state }) => state)).toEqual(["completed", "pending"]);
  });
});

describe("by hand", () => {
  on(
    "a worker with resume: another one goes on from the last checkpoint after the first has died",
    async ({ queue, clock }) => {
      const { id } = await queue.enqueue({ input: { pages: [1, 2, 3, 4] } });
      const done: number[] = [];
      const handler = async (fails_at: number, context: { input: { pages: number[] }; checkpoint: number | null }) => {
        for (const page of context.input.pages.slice(context.checkpoint ?? 0)) {
          if (page === fails_at) throw new Error("died");
          done.push(page);
        }
      };
      const { drain } = await import("../../src/testing.ts");
      const run = (fails_at: number) =>
        drain(queue, async (job, { checkpoint }) => {
          const before = done.length;
          try {
            await handler(fails_at, job);
          } finally {
            await checkpoint((job.checkpoint ?? 0) + done.length - before);
          }
        });
      await run(3);
      await clock.advance("1m");
      await run(0);
      expect(done).toEqual([1, 2, 3, 4]);
      expect(await queue.inspect(id)).toMatchObject({ state: "completed", attempts: 2 });
    },
  );
});
