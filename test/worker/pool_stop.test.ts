import { describe, expect } from "bun:test";
import { readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { intercept } from "../leasing/fixture.ts";
import { ManualClock } from "../support/clock.ts";
import { newJob } from "../support/jobs.ts";
import { poolTest as test, type PoolBench } from "./pools.ts";

/** Says in a file that it runs, then sits out every TERM. */
const stubborn = (b: PoolBench): string => `trap '' TERM; echo go >> ${b.file("go")}; while :; do sleep 0.05; done`;
const quiet = (b: PoolBench): string => `echo go >> ${b.file("go")}; exec sleep 60`;

describe("a worker that drains", () => {
  test("lets running jobs end, and takes no more", async (b) => {
    const gate = b.file("gate");
    const running = await b.scripts(`echo go >> ${b.file("go")}; while [ ! -e ${gate} ]; do sleep 0.01; done`, 2);
    const pool = await b.started();
    await b.written("go", 2);
    const waiting = await b.scripts("true", 2);
    pool.stop(60_000);
    await Bun.write(gate, "");
    await pool.finished;
    expect(await b.states(running)).toEqual(["completed", "completed"]);
    expect(await b.states(waiting)).toEqual(["pending", "pending"]);
  });

  test("returns what has not ended in time to the queue, uncounted", async (b) => {
    const ids = await b.scripts(quiet(b), 2, { settings: { retries: 0 } });
    const pool = await b.started();
    await b.written("go", 2);
    pool.stop(50);
    await pool.finished;
    expect(await b.states(ids)).toEqual(["pending", "pending"]);
    expect((await b.other.attempts(ids[0]!))[0]).toMatchObject({ end: { cause: "returned", signal: "SIGTERM" } });
    expect((await b.job(ids[0]!)).failures).toBe(0);
  });

  test("kills what does not hear when the grace is over", async (b) => {
    const ids = await b.scripts(stubborn(b));
    const pool = await b.started({ kill_grace_ms: 50 });
    await b.written("go");
    pool.stop(1);
    await pool.finished;
    expect(await b.states(ids)).toEqual(["pending"]);
    expect((await b.other.attempts(ids[0]!))[0]).toMatchObject({ end: { cause: "returned", signal: "SIGKILL" } });
  });

  test("does not wait when it is told a second time", async (b) => {
    const ids = await b.scripts(quiet(b));
    const pool = await b.started();
    await b.written("go");
    pool.stop(60_000);
    pool.stop(0);
    await pool.finished;
    expect(await b.states(ids)).toEqual(["pending"]);
  });

  test("with nothing to do ends at once", async (b) => {
    const pool = await b.started();
    pool.stop(60_000);
    await pool.finished;
    expect(pool.statistics().state).toBe("stopped");
  });

  test("gives back at once what it acquires too late", async (b) => {
    const pool = await b.started();
    const ids = await b.scripts(`echo ran >> ${b.file("ran")}; sleep 60`, 2);
    // The acquire for them is under way or about to be.
    pool.stop(60_000);
    await pool.finished;
    expect(await b.states(ids)).toEqual(["pending", "pending"]);
  });

  test("ends at once though it was just asking for jobs, in vain", async (b) => {
    const gate = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    const store = intercept(b.store, {
      acquire: async (request) => {
        asked.resolve();
        await gate.promise;
        return b.store.acquire(request);
      },
    });
    const pool = await b.started({ store, poll_ms: 60_000 });
    await asked.promise;
    pool.stop(60_000);
    gate.resolve();
    const late = Bun.sleep(500).then(() => "still there");
    expect(await Promise.race([pool.finished.then(() => "ended"), late])).toBe("ended");
  });

  test("while it is starting ends for good, and leaves nothing behind that goes on", async (b) => {
    const gate = Promise.withResolvers<void>();
    const store = intercept(b.store, {
      saveWorker: async (worker) => {
        await gate.promise;
        return b.store.saveWorker(worker);
      },
    });
    const clock = new ManualClock();
    const pool = b.pool({ store, clock, sweep: true });
    const started = pool.start();
    pool.stop(60_000);
    gate.resolve();
    await started;
    await pool.finished;
    expect([clock.timers, readdirSync(tmpdir()).includes(`lease-${pool.worker_id}`)]).toEqual([0, false]);
    expect((await b.other.workers())[0]).toMatchObject({ ended: "clean" });
  });

  test("has ended in its record too, though an earlier sign of life was slow to be written", async (b) => {
    const written: (string | null)[] = [];
    let slow = false;
    const store = intercept(b.store, {
      saveWorker: async (worker) => {
        if (slow && worker.ended === null) await Bun.sleep(50);
        await b.store.saveWorker(worker);
        written.push(worker.ended);
      },
    });
    const pool = await b.started({ store });
    slow = true;
    pool.stop(60_000);
    await pool.finished;
    while (written.length < 3) await Bun.sleep(1);
    expect(written).toEqual([null, null, "clean"]);
  });

  test("again when it has ended changes nothing any more", async (b) => {
    const pool = await b.drained();
    pool.stop(60_000);
    pool.abort();
    // A record that it should not write any more would be there by then.
    await Bun.sleep(20);
    expect(pool.statistics().state).toBe("stopped");
    expect((await b.other.workers())[0]).toMatchObject({ ended: "clean" });
  });

  test("in the middle of many short jobs leaves none running and loses none", async (b) => {
    const ids = await b.scripts(`echo $LEASE_JOB_ID >> ${b.file("ran")}`, 100);
    const pool = await b.started({ slots: 4 });
    await b.settles(30);
    pool.stop(0);
    await pool.finished;
    const states = await b.states(ids);
    expect(new Set(states)).toEqual(new Set(["completed", "pending"]));
    await b.drained();
    expect(await b.states(ids)).toEqual(ids.map(() => "completed"));
    const completed = new Set(b.lines("ran"));
    expect(completed.size).toBe(100);
  });
});

describe("a worker that aborts", () => {
  test("kills and returns everything at once", async (b) => {
    const ids = await b.scripts(stubborn(b), 2);
    const pool = await b.started();
    await b.written("go", 2);
    pool.abort();
    await pool.finished;
    expect(await b.states(ids)).toEqual(["pending", "pending"]);
    expect((await b.other.attempts(ids[0]!))[0]).toMatchObject({ end: { cause: "returned", signal: "SIGKILL" } });
  });

  test("in the middle of a drain does not wait for its end", async (b) => {
    const ids = await b.scripts(stubborn(b));
    const pool = await b.started();
    await b.written("go");
    pool.stop(60_000);
    pool.abort();
    await pool.finished;
    expect(await b.states(ids)).toEqual(["pending"]);
  });
});

describe("a worker that has nothing to do", () => {
  test("starts a job that another process enqueued without waiting for its poll", async (b) => {
    const pool = await b.started({ poll_ms: 60_000 });
    const ids = await b.scripts("true");
    await b.settles(1);
    expect(await b.states(ids)).toEqual(["completed"]);
    expect(pool.statistics().completed).toBe(1);
  });

  test("starts many that come one by one", async (b) => {
    await b.started({ poll_ms: 60_000, slots: 1 });
    for (let job = 1; job <= 10; job++) {
      await b.scripts("true");
      await b.settles(job);
    }
    expect(b.settled).toHaveLength(10);
  });

  test("starts a job when it is due without waiting for its poll", async (b) => {
    await b.started({ poll_ms: 60_000 });
    await b.scripts("true", 1, { delay_ms: 100 });
    await b.settles(1);
    expect(b.settled[0]!.state).toBe("completed");
  });

  test("starts a job that came into its own store handle at its next poll", async (b) => {
    await b.started({ poll_ms: 20 });
    await b.store.enqueue([newJob({ argv: ["true"] })]);
    await b.settles(1);
    expect(b.settled[0]!.state).toBe("completed");
  });
});

describe("a job that is cancelled by another process", () => {
  test("is stopped without waiting for a poll or a beat", async (b) => {
    const [id] = await b.scripts(quiet(b));
    await b.started({ poll_ms: 60_000 });
    await b.written("go");
    await b.other.cancel([id!], "not needed");
    await b.settles(1);
    expect(await b.job(id!)).toMatchObject({ state: { name: "cancelled" }, reason: "not needed" });
  });

  test("leaves the others of the worker alone", async (b) => {
    const [cancelled, kept] = await b.scripts(quiet(b), 2);
    const pool = await b.started({ poll_ms: 60_000 });
    await b.written("go", 2);
    await b.other.cancel([cancelled!], null);
    await b.settles(1);
    expect(await b.states([cancelled!, kept!])).toEqual(["cancelled", "running"]);
    expect(pool.statistics().slots.processing).toBe(1);
  });
});
