import { describe, expect } from "bun:test";
import { newJob } from "../support/jobs.ts";
import { poolTest as test } from "./pools.ts";

describe("a worker that ends when nothing is left", () => {
  test("waits for retries that are scheduled", async (b) => {
    const text = `echo x >> ${b.file("tries")}; [ $(wc -l < ${b.file("tries")}) -ge 3 ]`;
    const ids = await b.scripts(text, 1, { settings: { retries: 5 } });
    await b.drained();
    expect([b.lines("tries").length, await b.states(ids)]).toEqual([3, ["completed"]]);
  });

  test("waits for jobs that others of its jobs set free", async (b) => {
    const [parent] = await b.scripts("sleep 0.02");
    const children = await b.scripts("true", 2, { after: [parent!] });
    await b.drained({ slots: 1 });
    expect(await b.states(children)).toEqual(["completed", "completed"]);
  });

  test("does not wait for a job that a person delayed", async (b) => {
    const delayed = await b.scripts("true", 1, { delay_ms: 60_000 });
    await b.scripts("true");
    await b.drained();
    expect(await b.states(delayed)).toEqual(["scheduled"]);
  });

  test("does not wait for other queues", async (b) => {
    await b.scripts("true", 3, { queue: "other" });
    const pool = await b.drained({ queues: ["mine"] });
    expect(pool.statistics().completed).toBe(0);
  });

  test("fires schedules that are due first, and runs what they make, as nobody else may be there to", async (b) => {
    const due = {
      name: "s",
      cron: "0 0 1 1 *",
      every_ms: null,
      zone: "UTC",
      overlap: "queue",
      catch_up: "one",
    } as const;
    const job = newJob({ argv: ["true"] });
    await b.other.setSchedule({ ...due, jitter_ms: 0, job }, (await b.other.now()) - 1);
    const pool = await b.drained({ sweep: true });
    expect([pool.statistics().completed, b.settled.length]).toEqual([1, 1]);
  });

  test("ends at once on an empty store", async (b) => {
    await b.drained();
    expect(b.settled).toEqual([]);
  });
});
