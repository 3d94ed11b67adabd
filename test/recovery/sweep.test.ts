import { describe, expect } from "bun:test";
import { spawn } from "node:child_process";
import { host, identify } from "../../src/platform/machine.ts";
import { groupLives } from "../../src/runner/group.ts";
import { benchTest as test, intercept, LEASE_MS, type Bench } from "../leasing/fixture.ts";
import { end } from "../support/jobs.ts";
import { ALIVE, counted, DEAD, register, SWEEP_GRACE_MS, sweepOf } from "./sweeps.ts";
import { linesFor } from "../support/reports.ts";

const EXPIRED_MS = LEASE_MS + SWEEP_GRACE_MS + 1;

describe("a sweep", () => {
  test("finds nothing to do where nothing is wrong", async (b) => {
    await b.granted();
    await b.enqueue();
    expect(await sweepOf(b).scan()).toEqual(counted({}));
  });

  test("gives a job back whose lease ended more than the grace ago, and not a moment before", async (b) => {
    const { job } = await b.granted();
    await b.pass(LEASE_MS + SWEEP_GRACE_MS);
    expect(await sweepOf(b).scan()).toEqual(counted({}));
    await b.pass(1);
    expect(await sweepOf(b).scan()).toEqual(counted({ expired_found: 1, recovered: 1, checkpoints_created: 1 }));
    expect(await b.job(job.id)).toMatchObject({
      state: { name: "pending" },
      failures: 1,
      result: { cause: "expired" },
    });
    expect((await b.store.attempts(job.id))[0]).toMatchObject({
      end: { cause: "expired", error: "the lease ran out" },
    });
  });

  test("leaves a trail that says who held the job, where and how long", async (b) => {
    const { job, granted_at, expires_at_ms } = await b.granted();
    await b.pass(EXPIRED_MS);
    await sweepOf(b).scan();
    const [checkpoint] = await b.store.checkpoints({ job: job.id, limit: 9 });
    expect(JSON.parse(checkpoint!.text)).toMatchObject({
      cause: "expired",
      attempt: 1,
      token: 1,
      holder: "w1",
      host: "elsewhere",
      granted_at_ms: granted_at.wall_ms,
      expires_at_ms,
    });
  });

  test("leaves none where none is wanted", async (b) => {
    const { job } = await b.granted();
    await b.pass(EXPIRED_MS);
    const counts = await sweepOf(b, { checkpoints: false }).scan();
    expect(counts).toEqual(counted({ expired_found: 1, recovered: 1 }));
    expect(await b.store.checkpoints({ job: job.id, limit: 9 })).toEqual([]);
  });

  test("fails a job that has no retries left", async (b) => {
    const { job } = await b.granted({ settings: { retries: 0 } });
    await b.pass(EXPIRED_MS);
    expect(await sweepOf(b).scan()).toEqual(counted({ expired_found: 1, failed: 1, checkpoints_created: 1 }));
    expect(await b.job(job.id)).toMatchObject({
      state: { name: "failed" },
      result: { cause: "expired", error: "max retries exceeded" },
    });
  });

  test("cancels a job that was asked to stop, and never retries it", async (b) => {
    const { job } = await b.granted();
    await b.store.cancel([job.id], "not needed");
    await b.pass(EXPIRED_MS);
    expect(await sweepOf(b).scan()).toEqual(counted({ expired_found: 1, cancelled: 1, checkpoints_created: 1 }));
    expect(await b.job(job.id)).toMatchObject({ state: { name: "cancelled" }, reason: "not needed" });
    expect(await b.manager.acquire()).toEqual([]);
  });

  test("leaves a job to the holder that settled it after the sweep had looked", async (b) => {
    const lease = await b.granted();
    await b.pass(EXPIRED_MS);
    const store = intercept(b.store, {
      expired: async (query) => {
        const found = await b.store.expired(query);
        await b.manager.release(lease, { end: end("success") });
        return found;
      },
    });
    expect(await sweepOf(b, { store }).scan()).toEqual(counted({ expired_found: 1 }));
    expect(await b.stateOf(lease.job.id)).toBe("completed");
  });

  test("cleans up behind itself: due jobs are promoted, old checkpoints go", async (b) => {
    const due = await b.enqueue({ delay_ms: 1_000 });
    const { job } = await b.granted();
    for (const text of ["a", "b", "c", "d"]) await b.store.checkpoint([{ id: job.id, token: 1, text }]);
    await b.pass(1_000);
    await sweepOf(b, { keep_checkpoints: 2 }).scan();
    expect(await b.stateOf(due)).toBe("pending");
    expect((await b.store.checkpoints({ job: job.id, limit: 9 })).map(({ text }) => text)).toEqual(["d", "c"]);
  });

  test("adds what it found to the totals of all sweeps, of this process and of others", async (b) => {
    const other = await b.reopen();
    for (const store of [b.store, other, b.store]) {
      await b.granted();
      await b.pass(EXPIRED_MS);
      await sweepOf(b, { store }).scan();
      await b.manager.release((await b.manager.acquire())[0]!, { end: end("success") });
    }
    await sweepOf(b).scan();
    expect(await b.store.recovery()).toMatchObject({ expired_found: 3, recovered: 3, failed: 0, errors: 0 });
  });
});

describe("a job whose worker died", () => {
  test("on this machine is given back at once, and the worker is marked", async (b) => {
    const reports: string[] = [];
    await register(b, "w1", DEAD);
    const { job } = await b.granted();
    const sweep = sweepOf(b, { report: linesFor(reports) });
    expect(await sweep.scan()).toEqual(counted({ expired_found: 1, recovered: 1, checkpoints_created: 1 }));
    expect(await b.job(job.id)).toMatchObject({ state: { name: "pending" }, result: { cause: "lost" } });
    expect(await b.store.workers()).toMatchObject([{ id: "w1", ended: "dead", stopped_at_ms: b.clock.wall_ms() }]);
    expect(reports).toEqual([
      "info: job 1: attempt 1 of worker w1 is over (the worker died), now pending",
      "warn: worker w1 died without a word",
    ]);
  });

  test("in an earlier life of this machine is given back at once", async (b) => {
    await register(b, "w1", { ...ALIVE, boot_id: ALIVE.boot_id.replace(/^[^/]*/, "an-earlier-boot") });
    await b.granted();
    expect(await sweepOf(b).scan()).toMatchObject({ recovered: 1 });
  });

  test("on another machine is given back when its lease has run out: nothing can be proven from here", async (b) => {
    await register(b, "w1", DEAD, "another-machine");
    await b.granted();
    expect(await sweepOf(b).scan()).toEqual(counted({}));
    await b.pass(EXPIRED_MS);
    expect(await sweepOf(b).scan()).toMatchObject({ recovered: 1 });
    expect(await b.store.workers()).toMatchObject([{ id: "w1", ended: null }]);
  });

  test("is left alone while nothing is proven: alive, or of unknown age", async (b) => {
    await register(b, "w1", ALIVE);
    await register(b, "w2", { ...DEAD, pid_started: 0 });
    await b.granted();
    await b.granted({}, b.managerOf("w2"));
    expect(await sweepOf(b).scan()).toEqual(counted({}));
  });

  test("is not mixed up with the jobs of living workers", async (b) => {
    await register(b, "w1", DEAD);
    await register(b, "w2", ALIVE);
    const lost = await b.granted();
    const held = await b.granted({}, b.managerOf("w2"));
    expect(await sweepOf(b).scan()).toMatchObject({ expired_found: 1, recovered: 1 });
    expect([await b.stateOf(lost.job.id), await b.stateOf(held.job.id)]).toEqual(["pending", "running"]);
  });

  test("is not taken from a worker that had ended cleanly before", async (b) => {
    await register(b, "w1", DEAD);
    const [worker] = await b.store.workers();
    await b.store.saveWorker({ ...worker!, stopped_at_ms: b.clock.wall_ms(), ended: "clean" });
    await sweepOf(b).scan();
    expect(await b.store.workers()).toMatchObject([{ ended: "clean" }]);
  });

  test("is found by the quick look too, which does nothing else", async (b) => {
    const sweep = sweepOf(b);
    const expired = await b.granted({}, b.managerOf("w2"));
    expect(await sweep.scanDead()).toBeNull();
    await register(b, "w1", DEAD);
    const lost = await b.granted();
    expect(await sweep.scanDead()).toMatchObject({ expired_found: 1, recovered: 1 });
    expect([await b.stateOf(lost.job.id), await b.stateOf(expired.job.id)]).toEqual(["pending", "running"]);
    expect(await sweep.scanDead()).toBeNull();
  });
});

describe("looks for the dead", () => {
  test("are about as many on a machine with one worker as on one with many", async (b) => {
    const looksOf = async (live: number) => {
      for (let n = 0; n < live; n++) await register(b, `live-${n}`, ALIVE);
      let looks = 0;
      const store = intercept(b.store, { workers: (query) => ((looks += 1), b.store.workers(query)) });
      const sweep = sweepOf(b, { store, dead_every_ms: 1_000, every_ms: 3_600_000 });
      sweep.start();
      for (let second = 0; second < 40; second++) await b.pass(1_000);
      await sweep.stop();
      return looks * live;
    };
    expect(await looksOf(1)).toBeWithin(35, 45);
    // Each of them: eight times in forty seconds, and not forty.
    expect(await looksOf(20)).toBeWithin(20 * 6, 20 * 12);
  });
});

describe("what is left of a recovered job on this machine", () => {
  async function expiredWith(b: Bench, pid: number): Promise<number> {
    await b.enqueue();
    const [grant] = await b.store.acquire({
      holder: "w1",
      host,
      count: 1,
      queues: null,
      task: null,
      lease_ms: LEASE_MS,
    });
    const { id, token } = grant!.job;
    await b.store.noteProcess([{ id, token, ...identify(pid) }]);
    await b.pass(EXPIRED_MS);
    return id;
  }

  test("is killed before the job may run again", async (b) => {
    const script = "trap '' TERM; echo; sleep 60 & wait; wait";
    const env = { LEASE_JOB_ID: "1", LEASE_TOKEN: "1", LEASE_STORE: b.path };
    const child = spawn("/bin/sh", ["-c", script], { detached: true, stdio: ["ignore", "pipe", "ignore"], env });
    await new Promise((resolve) => child.stdout.once("data", resolve));
    const id = await expiredWith(b, child.pid!);
    let alive_at_write = true;
    const store = intercept(b.store, {
      recover: (requests) => {
        alive_at_write = groupLives(child.pid!);
        return b.store.recover(requests);
      },
    });
    const scan = sweepOf(b, { store }).scan();
    for (let turn = 0; turn < 200 && groupLives(child.pid!); turn++) {
      await b.clock.advance(10);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await b.clock.advance(10);
    expect(await scan).toMatchObject({ recovered: 1, orphans_killed: 1 });
    expect([alive_at_write, await b.stateOf(id)]).toEqual([false, "pending"]);
  });

  test("is nothing when its process is gone", async (b) => {
    const child = spawn("true", { detached: true });
    await new Promise((resolve) => child.once("exit", resolve));
    await expiredWith(b, child.pid!);
    expect(await sweepOf(b).scan()).toMatchObject({ recovered: 1, orphans_killed: 0 });
  });
});
