import { describe, expect, test } from "bun:test";
import { SharedReader } from "../../../src/observe/dashboard/shared_reader.ts";
import type { Store } from "../../../src/store/store.ts";
import { ManualClock } from "../../support/clock.ts";

function stage() {
  const clock = new ManualClock();
  const asked: string[] = [];
  const verb = (name: string) => async (query: unknown) => {
    asked.push(`${name} ${JSON.stringify(query) ?? ""}`.trim());
    if (query === "trouble") throw new Error("no disk");
    return asked.length;
  };
  const names = ["counts", "jobs", "recovery"].map((name) => [name, verb(name)]);
  const store = {
    now: async () => clock.wall_ms(),
    location: "here",
    shares_clock: true,
    ...Object.fromEntries(names),
  };
  const reader = new SharedReader(store as unknown as Store, clock);
  return { clock, asked, reader, glance: reader.glance };
}

describe("the shared reader", () => {
  test("asks once what several ask in the same moment", async () => {
    const s = stage();
    await Promise.all([s.glance.counts(), s.glance.counts(), s.glance.jobs([1]), s.glance.jobs([2])]);
    expect(s.asked).toEqual(["counts", "jobs [1]", "jobs [2]"]);
    expect(s.reader.budget.asked).toBe(3);
  });

  test("asks again a little later, and at once when something was changed", async () => {
    const s = stage();
    await s.glance.counts();
    await s.clock.advance(500);
    await s.glance.counts();
    s.reader.forget();
    await s.glance.counts();
    expect(s.asked).toHaveLength(3);
  });

  test("remembers no failure", async () => {
    const s = stage();
    await expect(s.glance.jobs("trouble" as never)).rejects.toThrow("no disk");
    await expect(s.glance.jobs("trouble" as never)).rejects.toThrow("no disk");
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
