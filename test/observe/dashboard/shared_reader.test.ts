import { describe, expect, test } from "bun:test";
import { SharedReader } from "../../../src/observe/dashboard/shared_reader.ts";
import type { Store } from "../../../src/store/store.ts";
import { ManualClock } from "../../support/clock.ts";

function stage() {
  const clock = new ManualClock();
  const asked: string[] = [];
  const verb = (name: string) => async (query: unknown) => {
    asked.push(`${name} ${JSON.stringify(query) ?? ""}`.trim());
    if (String(query) === "13,13") throw new Error("no disk");
    if (name === "jobs") return (query as number[]).map((id) => (id < 4 ? { id } : null));
    return asked.length;
  };
  const names = ["counts", "jobs", "recovery", "pausedQueues", "attempts", "checkpoints"].map((name) => [
    name,
    verb(name),
  ]);
  const store = {
    now: async () => clock.wall_ms(),
    location: "here",
    shares_clock: true,
    ...Object.fromEntries(names),
  };
  const reader = new SharedReader(store as unknown as Store, clock);
  return { clock, asked, reader, glance: reader.glance("now") };
}

describe("the shared reader", () => {
  test("asks once what several ask in the same moment", async () => {
    const s = stage();
    await Promise.all([s.glance.counts(), s.glance.counts(), s.reader.glance("later").counts()]);
    expect(s.asked).toEqual(["counts"]);
    expect(s.reader.budget.asked).toBe(1);
  });

  test("asks for jobs together that are wanted in the same moment", async () => {
    const s = stage();
    expect(await Promise.all([3, 1, 2, 4].map(async (id) => await s.glance.jobs([id])))).toEqual([
      [{ id: 3 }],
      [{ id: 1 }],
      [{ id: 2 }],
      [null],
    ] as never);
    expect(s.asked).toEqual(["jobs [1,2,3,4]"]);
  });

  test("lets a question wait that there is no room for, and whoever asks the same with less time hurries it", async () => {
    const s = stage();
    for (let n = 0; n < 45; n++) void s.glance.jobs([n, n + 1]);
    const told: string[] = [];
    const wait = (name: string, asked: Promise<unknown>) => void asked.then(() => told.push(name));
    wait("later", s.reader.glance("later").recovery());
    wait("soon", s.reader.glance("soon").counts());
    await s.clock.advance(0);
    expect(told).toEqual([]);
    wait("now", s.glance.recovery());
    await s.clock.advance(9_000);
    expect(told).toEqual(["later", "now"]);
    await s.clock.advance(1_000);
    expect(told).toEqual(["later", "now", "soon"]);
  });

  test("asks again at once what was tried of a job that has moved on, and of no other", async () => {
    const s = stage();
    const ask = async () => {
      for (const job of [1, 12]) await Promise.all([s.glance.attempts(job), s.glance.checkpoints({ job, limit: 100 })]);
    };
    await ask();
    s.asked.length = 0;
    s.reader.forgetPast(1);
    await ask();
    expect(s.asked).toEqual(["attempts 1", 'checkpoints {"job":1,"limit":100}']);
  });

  test("asks again a little later, and at once when something was changed", async () => {
    const s = stage();
    await s.glance.counts();
    await s.clock.advance(500);
    await s.glance.counts();
    expect(s.asked).toHaveLength(1);
    await s.clock.advance(500);
    await s.glance.counts();
    s.reader.forget();
    await s.glance.counts();
    expect(s.asked).toHaveLength(3);
  });

  test("asks for nothing but paused queues again when one was paused", async () => {
    const s = stage();
    await Promise.all([s.glance.counts(), s.glance.pausedQueues()]);
    s.reader.forgetPauses();
    await Promise.all([s.glance.counts(), s.glance.pausedQueues()]);
    expect(s.asked).toEqual(["counts", "pausedQueues", "pausedQueues"]);
  });

  test("remembers no failure", async () => {
    const s = stage();
    await expect(s.glance.jobs([13, 13])).rejects.toThrow("no disk");
    await expect(s.glance.jobs([13, 13])).rejects.toThrow("no disk");
    expect(s.asked).toHaveLength(2);
  });

  test("knows the store's time without asking for it each time", async () => {
    const s = stage();
    expect(await s.reader.now_ms()).toBe(s.clock.wall_ms());
    s.clock.jumpWall(10_000);
    await s.clock.advance(1_000);
    expect(await s.reader.now_ms()).toBe(s.clock.wall_ms() - 10_000);
    await s.clock.advance(61_000);
    expect(await s.reader.now_ms()).toBe(s.clock.wall_ms());
  });

  test("has nothing that changes anything", () => {
    expect(Object.keys(stage().glance)).not.toContain("cancel");
    expect(Object.keys(stage().glance)).not.toContain("enqueue");
  });
});
