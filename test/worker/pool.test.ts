import { describe, expect } from "bun:test";
import { existsSync } from "node:fs";
import { dirname } from "node:path";
import type { WorkerRecord } from "../../src/core/records.ts";
import { intercept } from "../leasing/fixture.ts";
import { fastClock } from "../runner/fixture.ts";
import { poolTest as test } from "./pools.ts";

describe("a worker", () => {
  test("runs what is queued and ends when nothing is left", async (b) => {
    const ids = await b.scripts(`echo $LEASE_JOB_ID >> ${b.file("ran")}`, 20);
    const pool = await b.drained({ slots: 3 });
    expect(
      b
        .lines("ran")
        .map(Number)
        .toSorted((a, c) => a - c),
    ).toEqual(ids);
    expect(await b.states(ids)).toEqual(ids.map(() => "completed"));
    expect(pool.statistics()).toMatchObject({
      state: "stopped",
      slots: { total: 3, stopped: 3, processing: 0 },
      completed: 20,
      failed: 0,
      current: [],
    });
  });

  test("never runs more jobs at a time than it has slots, and does use them all", async (b) => {
    const marks = b.file("marks");
    const text = `mkdir -p ${marks}; touch ${marks}/$$; ls ${marks} | wc -l >> ${b.file("counts")}; sleep 0.04; rm ${marks}/$$`;
    await b.scripts(text, 15);
    await b.drained({ slots: 3 });
    const counts = b.lines("counts").map(Number);
    expect([counts.length, Math.max(...counts)]).toEqual([15, 3]);
  });

  test("never runs more jobs at a time than it has slots when they are very short", async (b) => {
    const marks = b.file("marks");
    await b.scripts(
      `mkdir -p ${marks}; touch ${marks}/$$; ls ${marks} | wc -l >> ${b.file("counts")}; rm ${marks}/$$`,
      40,
    );
    await b.drained({ slots: 2 });
    const counts = b.lines("counts").map(Number);
    expect(counts).toHaveLength(40);
    expect(Math.max(...counts)).toBeLessThanOrEqual(2);
  });

  test("tells about itself while it works", async (b) => {
    const [id] = await b.scripts(`echo go > ${b.file("go")}; sleep 60`);
    const pool = b.pool();
    expect(pool.statistics()).toMatchObject({ state: "starting", slots: { total: 2, idle: 2, processing: 0 } });
    await pool.start();
    await b.written("go");
    const { current, ...rest } = pool.statistics();
    expect(rest).toMatchObject({ state: "working", slots: { total: 2, idle: 1, processing: 1 }, completed: 0 });
    expect(current).toMatchObject([{ job: id, attempt: 1 }]);
    expect(current[0]!.last_beat_ms_ago).toBeLessThan(5_000);
    pool.stop(60_000);
    expect(pool.statistics().state).toBe("draining");
    pool.abort();
    await pool.finished;
    expect(pool.statistics()).toMatchObject({ state: "stopped", other: 1, current: [] });
  });

  test("counts what failed for good apart from what is tried again", async (b) => {
    await b.scripts("exit 1", 1, { settings: { retries: 2 } });
    await b.scripts("exit 0", 2);
    const pool = await b.drained();
    expect(pool.statistics()).toMatchObject({ completed: 2, failed: 1, other: 2 });
  });

  test("serves its queues in the order given, and no others", async (b) => {
    const text = `echo $LEASE_QUEUE >> ${b.file("order")}`;
    await b.scripts(text, 2, { queue: "low" });
    await b.scripts(text, 2, { queue: "high" });
    const others = await b.scripts(text, 1, { queue: "other" });
    await b.drained({ slots: 1, queues: ["high", "low"] });
    expect(b.lines("order")).toEqual(["high", "high", "low", "low"]);
    expect(await b.states(others)).toEqual(["pending"]);
  });

  test("keeps to its task", async (b) => {
    const mine = await b.scripts("true", 2, { task: "t" });
    const others = await b.scripts("true", 2);
    await b.drained({ task: "t" });
    expect(await b.states([...mine, ...others])).toEqual(["completed", "completed", "pending", "pending"]);
  });

  test("cleans up its scratch folder", async (b) => {
    await b.scripts(`dirname $LEASE_OUTPUT > ${b.file("scratch")}; echo result > $LEASE_OUTPUT`);
    await b.drained();
    const [scratch] = b.lines("scratch");
    expect([dirname(scratch!), existsSync(scratch!)]).toEqual([`${b.path}-scratch`, false]);
  });

  test("is registered while it works, and then as having ended cleanly", async (b) => {
    const pool = await b.started({ name: "builder", queues: ["a", "b"], slots: 3 });
    expect(await b.other.workers()).toMatchObject([
      { id: pool.worker_id, name: "builder", queues: ["a", "b"], slots: 3, ended: null, process: { pid: process.pid } },
    ]);
    pool.stop(0);
    await pool.finished;
    expect(await b.other.workers()).toMatchObject([{ id: pool.worker_id, ended: "clean" }]);
  });

  test("has what it has done so far in its record within a moment, not only when it ends", async (b) => {
    const counted = Promise.withResolvers<WorkerRecord>();
    const store = intercept(b.store, {
      saveWorker: (worker) => {
        if (worker.completed === 3) counted.resolve(worker);
        return b.store.saveWorker(worker);
      },
    });
    await b.started({ store, clock: fastClock(10) });
    await b.scripts("true", 3);
    await b.settles(3);
    // A tenth of its second, against a tenth of the ten after which it gives a sign of life anyway.
    const late = Bun.sleep(600).then(() => null);
    expect(await Promise.race([counted.promise, late])).toMatchObject({ completed: 3, ended: null });
  });

  test("takes the results of jobs though somebody tidied up its folder for them", async (b) => {
    const ids = await b.scripts(`rm -r $(dirname $LEASE_OUTPUT)`);
    ids.push(...(await b.scripts("echo result > $LEASE_OUTPUT")));
    await b.drained({ slots: 1 });
    expect((await b.other.jobs(ids)).map((job) => job?.result.output)).toEqual([null, "result\n"]);
  });

  test("shares a store with others: each job runs once", async (b) => {
    const ids = await b.scripts(`echo $LEASE_JOB_ID >> ${b.file("ran")}`, 60);
    const stores = [b.store, await b.handle(), await b.handle()];
    await Promise.all(stores.map((store) => b.drained({ store })));
    expect(
      b
        .lines("ran")
        .map(Number)
        .toSorted((a, c) => a - c),
    ).toEqual(ids);
  });
});

describe("a worker with a number of jobs to do", () => {
  test("ends after them, and takes no more", async (b) => {
    const ids = await b.scripts("true", 5);
    const pool = await b.started({ max_jobs: 3 });
    await pool.finished;
    const done = (await b.states(ids)).filter((state) => state === "completed");
    expect([done.length, pool.statistics().completed]).toEqual([3, 3]);
    expect(await b.states(ids)).not.toContain("running");
  });

  test("waits for them where there are not enough yet", async (b) => {
    const pool = await b.started({ max_jobs: 2 });
    await b.scripts("true");
    await b.settles(1);
    expect(pool.statistics().state).toBe("working");
    await b.scripts("true");
    await pool.finished;
    expect(pool.statistics().completed).toBe(2);
  });

  test("does not count those that it gave back without having run them", async (b) => {
    await b.scripts("true", 40);
    await b.scripts("sleep 0.3");
    await b.scripts("true", 10);
    const pool = await b.started({ slots: 1, max_jobs: 45 });
    await pool.finished;
    expect(pool.statistics().completed).toBe(45);
  });
});

describe("jobs that are acquired ahead", () => {
  test("are not taken and given back again and again while a long one runs", async (b) => {
    await b.scripts("true", 40);
    await b.scripts("sleep 0.8");
    const [waiting] = await b.scripts("true");
    await b.drained({ slots: 1 });
    // One look ahead may have been in vain; the job's history is not the place for more.
    expect((await b.job(waiting!)).token).toBeLessThanOrEqual(2);
  });

  test("are there for other workers when this one is busy", async (b) => {
    await b.scripts("true", 40);
    const busy = await b.started({ slots: 1 });
    await b.settles(40);
    const [long] = await b.scripts(`echo go > ${b.file("go")}; sleep 60`);
    await b.written("go");
    const idle = await b.started({ store: await b.handle(), slots: 1 });
    const ids = await b.scripts("true", 10);
    const done = async (): Promise<number> => (await b.states(ids)).filter((state) => state === "completed").length;
    for (let look = 0; look < 200 && (await done()) < 10; look++) await Bun.sleep(10);
    expect(await done()).toBe(10);
    expect([busy.statistics().current[0]!.job, idle.statistics().completed]).toEqual([long!, 10]);
  });

  test("are started while the store takes its time with the next ones", async (b) => {
    await b.scripts("true", 300);
    const [stands, goes_on] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let granted = 0;
    const store = intercept(b.store, {
      acquire: async (request) => {
        if (granted >= 100) {
          stands.resolve();
          await goes_on.promise;
        }
        const grants = await b.store.acquire(request);
        granted += grants.length;
        return grants;
      },
    });
    const pool = await b.started({ store, slots: 2, until_empty: true });
    await stands.promise;
    await b.settles(granted);
    expect(b.settled.map(({ state }) => state)).toEqual(Array.from({ length: granted }, () => "completed"));
    goes_on.resolve();
    await pool.finished;
  });
});
