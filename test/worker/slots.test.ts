import { describe, expect, test } from "bun:test";
import { Slots } from "../../src/worker/slots.ts";
import { ManualClock } from "../support/clock.ts";
import { poolTest } from "./pools.ts";

const SCALING = { min: 1, max: 3, up_at: 5, down_after_ms: 60_000 };

function slotsOf(clock: ManualClock, backlog: { pending: number; asked: number }): Slots {
  const pending = async (): Promise<number> => {
    backlog.asked += 1;
    return backlog.pending;
  };
  return new Slots({ clock, slots: 7, scaling: SCALING, pending });
}

describe("slots that follow the work", () => {
  test("begin with the fewest, and grow one by one while enough jobs wait, up to the most", async () => {
    const backlog = { pending: 5, asked: 0 };
    const slots = slotsOf(new ManualClock(), backlog);
    const totals: number[] = [slots.total];
    for (let look = 0; look < 4; look++) {
      slots.busy(slots.total);
      await slots.adjust(slots.total);
      totals.push(slots.total);
    }
    expect(totals).toEqual([1, 2, 3, 3, 3]);
  });

  test("do not grow for fewer jobs than that, nor while one is idle", async () => {
    const backlog = { pending: 4, asked: 0 };
    const slots = slotsOf(new ManualClock(), backlog);
    slots.busy(1);
    expect([await slots.adjust(1), slots.total]).toEqual([0, 1]);
    backlog.pending = 100;
    slots.busy(0);
    expect([await slots.adjust(0), slots.total, backlog.asked]).toEqual([0, 1, 1]);
  });

  test("become fewer one by one when one has been idle for long, never below the fewest", async () => {
    const clock = new ManualClock();
    const backlog = { pending: 9, asked: 0 };
    const slots = slotsOf(clock, backlog);
    for (const running of [1, 2]) {
      slots.busy(running);
      await slots.adjust(running);
    }
    expect(slots.total).toBe(3);
    slots.busy(0);
    const totals: number[] = [];
    for (let look = 0; look < 6; look++) {
      await clock.advance(40_000);
      await slots.adjust(0);
      totals.push(slots.total);
    }
    expect(totals).toEqual([3, 2, 2, 1, 1, 1]);
  });

  test("do not become fewer when all were busy in between", async () => {
    const clock = new ManualClock();
    const slots = slotsOf(clock, { pending: 9, asked: 0 });
    slots.busy(1);
    await slots.adjust(1);
    slots.busy(1);
    await clock.advance(50_000);
    slots.busy(2);
    slots.busy(1);
    await clock.advance(50_000);
    await slots.adjust(1);
    expect(slots.total).toBe(2);
  });

  test("stay as they are where their number is fixed", async () => {
    const never = async (): Promise<number> => 100;
    const slots = new Slots({ clock: new ManualClock(), slots: 4, scaling: null, pending: never });
    slots.busy(4);
    expect([await slots.adjust(4), slots.total]).toEqual([0, 4]);
  });

  poolTest("are added by a worker under load", async (b) => {
    const text = `echo go >> ${b.file("go")}; while [ ! -e ${b.file("end")} ]; do sleep 0.01; done`;
    await b.scripts(text, 8);
    const scaling = { min: 1, max: 3, up_at: 2, down_after_ms: 60_000 };
    const pool = await b.started({ scaling, until_empty: true, poll_ms: 20 });
    await b.written("go", 3);
    expect(pool.statistics().slots).toEqual({ total: 3, idle: 0, processing: 3, draining: 0, stopped: 0 });
    expect((await b.other.workers())[0]?.slots).toBeGreaterThanOrEqual(1);
    await Bun.write(b.file("end"), "");
    await pool.finished;
    expect(pool.statistics().completed).toBe(8);
  });
});

describe("a worker that makes room for urgent work", () => {
  const quiet = (file: string): string => `echo $LEASE_JOB_ID >> ${file}; exec sleep 60`;

  poolTest("gives back its least urgent job for one that is more urgent by enough", async (b) => {
    const [low] = await b.scripts(quiet(b.file("go")), 1, { priority: 0 });
    const [middle] = await b.scripts(quiet(b.file("go")), 1, { priority: 50 });
    await b.started({ preempt: true, slots: 2 });
    await b.written("go", 2);
    const [urgent] = await b.scripts(quiet(b.file("go")), 1, { priority: 100 });
    await b.written("go", 3);
    expect(b.lines("go")[2]).toBe(String(urgent));
    expect(await b.states([low!, middle!, urgent!])).toEqual(["pending", "running", "running"]);
    expect((await b.job(low!)).failures).toBe(0);
  });

  poolTest("leaves its jobs alone for work that is not urgent enough, or when it was not told to", async (b) => {
    const [low] = await b.scripts(quiet(b.file("go")), 1, { priority: 1 });
    await b.started({ preempt: true, slots: 1, poll_ms: 20, queues: ["default"] });
    await b.written("go");
    await b.scripts("true", 1, { priority: 100 });
    await b.scripts("true", 1, { queue: "other", priority: 1_000 });
    await b.started({ store: await b.handle(), slots: 1, queues: ["other"] });
    await b.settles(1);
    expect(await b.states([low!])).toEqual(["running"]);
  });

  poolTest("does not give back a job of a preferred queue, which it would only acquire again", async (b) => {
    const [preferred] = await b.scripts(quiet(b.file("go")), 1, { queue: "first" });
    const [other] = await b.scripts(quiet(b.file("go")), 1, { queue: "second" });
    await b.started({ preempt: true, slots: 2, queues: ["first", "second"] });
    await b.written("go", 2);
    const [urgent] = await b.scripts(quiet(b.file("go")), 1, { queue: "second", priority: 100 });
    await b.written("go", 3);
    expect(await b.states([preferred!, other!, urgent!])).toEqual(["running", "pending", "running"]);
    expect((await b.job(preferred!)).token).toBe(1);
  });

  poolTest("gives nothing back when it may not take another job", async (b) => {
    const gate = b.file("gate");
    const [last] = await b.scripts(`echo go >> ${b.file("go")}; while [ ! -e ${gate} ]; do sleep 0.01; done`);
    const pool = await b.started({ preempt: true, slots: 1, max_jobs: 1, poll_ms: 10 });
    await b.written("go");
    await b.scripts("true", 1, { priority: 500 });
    // Long enough for it to have been noticed.
    await Bun.sleep(100);
    await Bun.write(gate, "");
    await pool.finished;
    expect(await b.states([last!])).toEqual(["completed"]);
  });
});
