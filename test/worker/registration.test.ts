import { describe, expect, test } from "bun:test";
import type { WorkerRecord } from "../../src/core/records.ts";
import type { Store } from "../../src/store/store.ts";
import { Registration } from "../../src/worker/registration.ts";
import { ManualClock } from "../support/clock.ts";

/** Workers of one machine, and when each of them said that it lives. */
function machine() {
  const clock = new ManualClock();
  const signs = new Map<string, number[]>();
  const activity = { slots: 1, draining: false, completed: 0, failed: 0 };
  const store = {
    now: async () => clock.wall_ms(),
    saveWorker: async ({ id }: WorkerRecord) => {
      signs.set(id, [...(signs.get(id) ?? []), clock.mono_ms()]);
    },
    storeId: async () => "store",
    noticeClockJump: async () => null,
  } as unknown as Store;
  const begin = async () => {
    const about = { name: null, version: "1", queues: null, task: null, commands_only: false };
    const machine_time = () => ({ boot_id: "boot", uptime_ms: clock.mono_ms(), suspends: 0 });
    const random = () => signs.size / 10;
    const worker = new Registration({ store, clock, random, ...about, activity: () => activity, machine_time });
    await worker.register();
    return worker;
  };
  return { clock, signs, activity, begin };
}

describe("a worker that has nothing to do", () => {
  test("says that it lives at least once in forty seconds, in the same moment as all others of its machine", async () => {
    const { clock, signs, begin } = machine();
    for (const _ of [1, 2, 3]) {
      await begin();
      await clock.advance(7_300);
    }
    await clock.advance(200_000);
    const [first = [], ...others] = [...signs.values()].map((all_ms) => all_ms.slice(1));
    expect(others.map((all_ms) => all_ms.slice(-5))).toEqual(others.map(() => first.slice(-5)));
    for (const all_ms of signs.values()) {
      const gaps_ms = all_ms.slice(1).map((at_ms, index) => at_ms - (all_ms[index] ?? 0));
      expect(Math.max(...gaps_ms)).toBeLessThanOrEqual(40_000);
      expect(Math.min(...gaps_ms)).toBeGreaterThan(12_000);
    }
  });

  test("does so also when the clock is set", async () => {
    const { clock, signs, begin } = machine();
    await begin();
    for (const jump_ms of [3_600_000, -7_200_000, 11_000]) {
      clock.jumpWall(jump_ms);
      await clock.advance(40_000);
    }
    expect([...signs.values()].flat().length).toBeGreaterThanOrEqual(4);
  });
});

describe("a worker's record", () => {
  test("is written within a second where something has changed, and no more at its end", async () => {
    const { clock, signs, activity, begin } = machine();
    const worker = await begin();
    activity.completed += 1;
    await clock.advance(1_000);
    expect([...signs.values()].flat()).toHaveLength(2);
    worker.leave();
    activity.completed += 1;
    await clock.advance(100_000);
    expect([...signs.values()].flat()).toHaveLength(2);
  });
});
