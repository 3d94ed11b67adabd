/**
 * How programs use the parts, told as the documents that the idea comes from tell it: a worker by hand, a watchdog, a
 * runner of tasks, a pool, proof of work in tools, cancelling at breakpoints, and what one looks at when it is slow.
 */

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
  type HandlerContext,
  type Queue,
} from "../../src/index.ts";
import { drain } from "../../src/testing.ts";
import { answered, temporaryFolder } from "../leasing/fixture.ts";
import { until } from "../support/process.ts";
import { code, on } from "./ground.ts";

describe("leases by hand", () => {
  on("work is acquired, done and released, or released with what went wrong", async ({ queue, manager }) => {
    await queue.enqueue([{ input: { n: 2 } }, { input: { n: 0 }, retries: 0 }]);
    const doWork = ({ n }: { n: number }) => {
      if (n === 0) throw new Error("nothing to divide by");
      return { result: 10 / n };
    };
    for (let lease = await manager.acquire({ lease: "300s" }); lease !== null; lease = await manager.acquire()) {
      try {
        await manager.release(lease, { success: true, output: doWork(lease.job.input) });
      } catch (error) {
        await manager.release(lease, { success: false, error: (error as Error).message });
      }
    }
    expect(await queue.inspect(1)).toMatchObject({ state: "completed", output: { result: 5 } });
    expect(await queue.inspect(2)).toMatchObject({ state: "failed", error: "nothing to divide by" });
  });

  on("one run is acquired by its id, and only by the first who asks", async ({ queue, manager }) => {
    await queue.enqueue([{ input: 1 }, { input: 2 }]);
    const lease = await manager.acquire({ job: 2, lease: "60s" });
    expect(lease?.job.id).toBe(2);
    expect(await new LeaseManager(queue, "worker-2").acquire({ job: 2, lease: "60s" })).toBeNull();
    expect(await manager.renew(lease!, { lease: "60s" })).toBe("extended");
    expect(await manager.release(lease!, { success: true })).toBe("completed");
    expect(await code(() => manager.acquire({ job: 0.5 }))).toBe("usage");
  });

  on("a run of a worker that died goes on with another after the lease", async ({ queue, manager, clock }) => {
    await queue.enqueue({ input: "run 1" });
    const first = await manager.acquire({ lease: "60s" });
    for (let beat = 0; beat < 4; beat++) {
      await clock.advance("15s");
      expect(await manager.renew(first!)).toBe("extended");
    }
    await clock.advance("61s");
    await new RecoverySweep(queue, { grace: "0" }).scan();
    const second = await new LeaseManager(queue, "worker-2").acquire();
    expect([second?.job.id, second?.token, second?.job.holder]).toEqual([1, 2, "worker-2"]);
  });
});

describe("a heartbeat in the background", () => {
  on("keeps a lease while the work goes on, with one line to start it", async ({ manager, clock, held }) => {
    const lease = await held();
    const heartbeat = new HeartbeatTimer(manager, lease, { interval: "30s" }).start();
    await clock.advance("20m");
    await answered();
    expect(lease.remaining()).toBeGreaterThan(0);
    await heartbeat.stop();
  });

  on("tells that the lease was lost", async ({ queue, manager, clock, held }) => {
    const lease = await held("60s");
    const lost: string[] = [];
    const onLost = (reason: string) => void lost.push(reason);
    const heartbeat = new HeartbeatTimer(manager, lease, { interval: "20s", lease: "60s", max_failures: 3, onLost });
    heartbeat.start();
    await queue.cancel(lease.job.id);
    await manager.release(lease, { error: "stopped" });
    await clock.advance("20s");
    await answered();
    expect([lost, heartbeat.running]).toEqual([["expired"], false]);
    await heartbeat.stop({ wait: true, timeout: "5s" });
  });

  test("needs no connection of its own, and may have one", async () => {
    const folder = temporaryFolder();
    {
      const path = join(folder, "jobs.db");
      await using queue = await open(path);
      await using own = await open(path);
      await queue.enqueue({ input: 1 });
      const lease = await new LeaseManager(queue, "worker-1").acquire({ lease: "10s" });
      const renewed = await new LeaseManager(own, "worker-1").renew(lease!);
      expect(renewed).toBe("extended");
      await using timer = new HeartbeatTimer(new LeaseManager(own, "worker-1"), lease!, { interval: "1s" }).start();
      expect(timer.running).toBe(true);
    }
    rmSync(folder, { recursive: true });
  });

  on("has an interval of a tenth of the lease, whatever the lease", async ({ queue, manager, clock }) => {
    for (const [lease, interval] of [
      ["5m", "30s"],
      ["10m", "60s"],
      ["30m", "180s"],
      ["60s", "10s"],
      ["180s", "15s"],
    ] as const) {
      await queue.enqueue({ input: lease });
      const held = await manager.acquire({ lease });
      const timer = new HeartbeatTimer(manager, held!, { interval }).start();
      await clock.advance("1h");
      await answered();
      expect(held!.remaining()).toBeGreaterThan(0);
      await timer.stop();
      await manager.release(held!, { success: true });
    }
  });
});

describe("a worker by hand", () => {
  on("takes what there is, beats while it works, and ends its heartbeat whatever happens", async ({ queue, clock }) => {
    await queue.enqueue([{ input: 1 }, { input: 2, retries: 0 }]);
    const manager = new LeaseManager(queue, "worker-1");
    const beats: boolean[] = [];
    for (let lease = await manager.acquire({ lease: "300s" }); lease !== null; lease = await manager.acquire()) {
      const heartbeat = new HeartbeatTimer(manager, lease, { interval: "30s" }).start();
      try {
        await clock.advance("10m");
        await answered();
        if (lease.job.input === 2) throw new Error("no");
        await manager.release(lease, { success: true, output: lease.job.input });
      } catch (error) {
        await manager.release(lease, { error: (error as Error).message });
      } finally {
        beats.push(heartbeat.running && heartbeat.renewals === 20);
        await heartbeat.stop();
      }
    }
    expect(beats).toEqual([true, true]);
    expect((await queue.list({ reverse: true })).map(({ state }) => state)).toEqual(["completed", "failed"]);
  });

  on("and a sweep beside it are a runner of tasks", async ({ queue, manager, clock }) => {
    class TaskRunner {
      readonly done: unknown[] = [];
      readonly sweep = new RecoverySweep(queue, { every: "60s", grace: "0" });

      async work() {
        for (let lease = await manager.acquire(); lease !== null; lease = await manager.acquire()) {
          this.done.push(lease.job.input);
          await manager.release(lease, { success: true });
        }
      }
    }
    await queue.enqueue({ input: "left by a dead worker" });
    await new LeaseManager(queue, "dead").acquire({ lease: "10s" });
    const runner = new TaskRunner();
    runner.sweep.start();
    await runner.work();
    expect(runner.done).toEqual([]);
    await clock.advance("70s");
    await answered();
    await runner.work();
    expect(runner.done).toEqual(["left by a dead worker"]);
    await runner.sweep.stop();
  });
});

describe("a watchdog", () => {
  on("says after each sweep what it did, and in all", async ({ queue, clock }) => {
    const dead = new LeaseManager(queue, "dead");
    await queue.enqueue([{ input: 1 }, { input: 2, retries: 0 }]);
    await dead.acquire({ lease: "10s" });
    await dead.acquire({ lease: "10s" });
    const sweep = new RecoverySweep(queue, { every: "60s", grace: "0", checkpoints: true, keep_checkpoints: 100 });
    const told: string[] = [];
    sweep.start(({ recovered, failed }) => void told.push(`recovered=${recovered}, failed=${failed}`));
    for (let minute = 0; minute < 2; minute++) {
      await clock.advance("70s");
      await answered();
    }
    await sweep.stop({ wait: true, timeout: "10s" });
    const { total_scans, total_recovered, total_failed, last_scan, running } = sweep.statistics();
    expect(told).toContain("recovered=1, failed=1");
    expect([total_recovered, total_failed, running]).toEqual([1, 1, false]);
    expect([total_scans, last_scan?.recovered]).toEqual([told.length, 0]);
    expect(total_recovered / (total_recovered + total_failed)).toBe(0.5);
    const [checkpoint] = (await queue.inspect(1)).checkpoints;
    expect(checkpoint).toMatchObject({ kind: "error", token: 1, error: { cause: "expired", holder: "dead" } });
  });
});

describe("what one looks at", () => {
  on("is in the overview: leases with the stale ones, recovery, retries", async ({ queue, manager, clock }) => {
    await queue.enqueue([{ input: 1 }, { input: 2 }, { input: 3 }]);
    await manager.acquire({ lease: "10s" });
    const second = await manager.acquire();
    await manager.release(second!, { error: "once more" });
    await clock.advance("11s");
    expect((await queue.inspect()).leases).toMatchObject({ held: 1, stale: 1 });
    await manager.release((await manager.acquire({ job: 2 }))!, { success: true });
    await new RecoverySweep(queue, { grace: "0" }).scan();
    const { leases, recovery, retries, queues } = await queue.inspect();
    expect(leases).toMatchObject({ held: 0, stale: 0 });
    expect(recovery).toMatchObject({ recovered: 1, failed: 0, rate: 1 });
    expect(retries).toEqual([{ retries: 1, jobs: 1 }]);
    expect(queues).toMatchObject([{ queue: "default", pending: 2, completed: 1, failed: 0, cancelled: 0 }]);
  });

  on("is in the lists: what runs, what waits, and what of one job is known", async ({ queue, manager }) => {
    await queue.enqueue([{ input: 1 }, { input: 2 }]);
    const lease = await manager.acquire();
    expect((await queue.list({ status: "running" })).map(({ id }) => id)).toEqual([1]);
    expect((await queue.list({ status: "pending" })).map(({ id }) => id)).toEqual([2]);
    expect(await queue.inspect(1)).toMatchObject({
      state: "running",
      holder: "worker-1",
      expires_at: lease?.expires_at,
      last_beat_at: expect.any(String),
    });
  });
});

describe("a pool", () => {
  test("grows with the queue, shrinks when idle, and tells what each of its slots does", async () => {
    const folder = temporaryFolder();
    {
      await using queue = await open(join(folder, "jobs.db"));
      const go = Promise.withResolvers<void>();
      const options = { min: 1, max: 4, scale_up_at: 5, scale_down_after: "50ms", lease: "60s", poll: "10ms" };
      const pool = new WorkerPool(queue, { ...options, interval: "15s" }, async (job) => {
        await go.promise;
        return job.input;
      });
      await queue.enqueue(Array.from({ length: 30 }, (_, n) => ({ input: `job_${n}` })));
      pool.start();
      await until("all slots work", () => pool.statistics()?.slots.processing === 4);
      expect(pool.statistics()?.by_slot.map(({ state }) => state)).toEqual(Array(4).fill("processing"));
      go.resolve();
      await queue.wait({ queue: "default" });
      const { completed, failed } = pool.statistics()!;
      expect({ completed, failed }).toEqual({ completed: 30, failed: 0 });
      await until("one slot is left", () => pool.statistics()?.slots.total === 1);
      await pool.stop({ drain: "30s" });
    }
    rmSync(folder, { recursive: true });
  });

  on("runs what it is given around the work: before, after, and what became of it", async ({ queue }) => {
    const saved: unknown[] = [];
    const gateway = { run: async (prompt: string) => ({ success: prompt !== "", text: prompt.toUpperCase() }) };
    const run = async (job: { id: number; input: { prompt: string; max_iterations: number } }) => {
      const result = await gateway.run(job.input.prompt.trim());
      if (!result.success) throw new Error("the gateway refused");
      saved.push([job.id, result.text]);
      return result;
    };
    const analyse = { prompt: " analyze the code ", max_iterations: 50 };
    await queue.enqueue({ key: "job_abc123", input: analyse });
    await queue.enqueue({ input: { prompt: "", max_iterations: 1 }, retries: 0 });
    const counts = await drain(queue, run);
    expect(counts).toMatchObject({ completed: 1, failed: 1 });
    expect(saved).toEqual([[1, "ANALYZE THE CODE"]]);
    expect(await queue.inspect(2)).toMatchObject({ error: "the gateway refused" });
  });
});

describe("proof of work", () => {
  on("each beat may extend, at most once per interval", async ({ queue, manager, clock, held }) => {
    const lease = await held("30m");
    const heartbeat = new Heartbeat(queue);
    const extender = new LeaseExtender(manager, { interval: "60s", extension: "300s", enabled: true });
    {
      using _ = extender.attach(lease, heartbeat);
      for (let item = 0; item < 1_000; item++) {
        await clock.advance(600);
        if (item % 100 === 0) heartbeat.beat();
      }
      await answered();
    }
    // Ten beats, a minute apart; the first came too soon, and was written when its minute was over.
    expect(extender.statistics()).toEqual({ attempts: 10, extended: 10, failures: 0, refusals: 0 });
    expect(heartbeat.beats).toBe(10);
  });

  on("a callback that was there before is called too, and stays", async ({ queue, manager, clock, held }) => {
    const lease = await held("100s");
    const heartbeat = new Heartbeat(queue);
    const calls: string[] = [];
    heartbeat.addCallback(() => void calls.push("mine"));
    const extender = new LeaseExtender(manager);
    {
      using _ = extender.attach(lease, heartbeat);
      await clock.advance("10s");
      heartbeat.beat();
      await answered();
    }
    heartbeat.beat();
    expect([calls, extender.statistics().extended]).toEqual([["mine", "mine"], 1]);
  });

  on("without a beat the lease of a stuck worker runs out", async ({ queue, manager, clock, held }) => {
    const lease = await held("1s");
    const lost: string[] = [];
    const extender = new LeaseExtender(manager, { interval: "100ms", onLost: (reason) => lost.push(reason) });
    {
      using _ = extender.attach(lease, new Heartbeat(queue));
      await clock.advance("1500ms");
    }
    expect([extender.statistics().attempts, lost]).toEqual([0, ["expired"]]);
    expect(await new RecoverySweep(queue, { grace: "0" }).scan()).toMatchObject({ recovered: 1 });
  });

  on("a beat is known at once", async ({ queue, clock }) => {
    const heartbeat = new Heartbeat(queue);
    await clock.advance("100ms");
    expect(heartbeat.elapsed()).toBe(100);
    heartbeat.beat();
    expect(heartbeat.elapsed()).toBe(0);
  });

  on("reaches down through the tools of a handler, and keeps a long job", async ({ queue, clock }) => {
    type Tool = (context: Pick<HandlerContext, "beat">) => Promise<string>;
    const slow: Tool = async ({ beat }) => {
      for (let chunk = 0; chunk < 30; chunk++) {
        await clock.advance("1m");
        beat();
      }
      return "read";
    };
    /** Beats before and after, so that a tool that knows nothing of it counts as well. */
    const execute = async (tool: Tool, context: Pick<HandlerContext, "beat">) => {
      context.beat();
      const result = await tool(context);
      context.beat();
      return result;
    };
    const { id } = await queue.enqueue({ input: 1, lease: "5m" });
    await drain(queue, async (_job, context) => execute(slow, context));
    expect(await queue.inspect(id)).toMatchObject({ state: "completed", output: "read", history: [{ beats: 32 }] });
  });

  on("times that would lose a healthy lease are refused", async ({ queue, manager, held }) => {
    const lease = await held("1800s");
    const refused = (options: object) =>
      code(() => new LeaseExtender(manager, options).attach(lease, new Heartbeat(queue)));
    expect(await refused({ interval: "60s", extension: "300s" })).toBe("accepted");
    expect(await refused({ interval: "150s", extension: "300s" })).toBe("calibration");
    expect(await refused({ interval: "60s", extension: "2000s" })).toBe("calibration");
  });
});

describe("cancelling", () => {
  on("is heard at the breakpoints of the job, which cleans up and ends", async ({ queue, clock }) => {
    const { id } = await queue.enqueue({ input: ["crawl", "chunk", "embed", "upsert"] });
    const done: string[] = [];
    await drain(queue, async (job, { signal }) => {
      try {
        for (const step of job.input) {
          signal.throwIfAborted();
          done.push(step);
          if (step === "chunk") {
            await queue.cancel(job.id);
            // A worker hears of it within a second.
            await clock.advance("1s");
          }
        }
      } finally {
        done.push("closed");
      }
    });
    expect(done).toEqual(["crawl", "chunk", "closed"]);
    expect(await queue.inspect(id)).toMatchObject({ state: "cancelled", cause: "cancelled" });
  });

  on("by hand is asked for with a renewal", async ({ queue, manager, held }) => {
    const lease = await held();
    await queue.cancel(lease.job.id);
    expect(lease.cancel_requested).toBe(false);
    await manager.renew(lease);
    expect(lease.cancel_requested).toBe(true);
    expect(await manager.release(lease, { error: "cancelled" })).toBe("cancelled");
  });

  on("is waited for, and so is what a worker by hand does", async ({ queue, manager }) => {
    const [first, second] = await queue.enqueue([{ input: 1 }, { input: 2 }]);
    const ended = Promise.all([queue.wait(first!.id), queue.wait(second!.id)]);
    await manager.release((await manager.acquire())!, { success: true, output: "by hand" });
    await drain(queue, async () => "by drain");
    expect((await ended).map(({ output }) => output)).toEqual(["by hand", "by drain"]);
  });

  on("takes what waits at once, and nothing that has ended", async ({ queue }) => {
    await queue.enqueue([{ input: 1 }, { input: 2 }]);
    const states = async (from: Queue) => (await from.list({ reverse: true })).map(({ state }) => state);
    await queue.cancel(1);
    await drain(queue, async () => {});
    expect(await states(queue)).toEqual(["cancelled", "completed"]);
    expect(await code(async () => (await queue.cancel(2))[0]?.status)).toBe("accepted");
    expect(await states(queue)).toEqual(["cancelled", "completed"]);
  });
});
