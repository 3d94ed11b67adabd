import { describe, expect, test } from "bun:test";
import { sleep } from "../../src/core/clock.ts";
import { ManualClock } from "./clock.ts";

describe("ManualClock", () => {
  test("stands still until it is moved", async () => {
    const clock = new ManualClock({ wall_ms: 1_000, mono_ms: 50 });
    await clock.advance(0);
    expect([clock.wall_ms(), clock.mono_ms()]).toEqual([1_000, 50]);
  });

  test("moves both clocks when time passes", async () => {
    const clock = new ManualClock({ wall_ms: 1_000, mono_ms: 50 });
    await clock.advance(25);
    expect([clock.wall_ms(), clock.mono_ms()]).toEqual([1_025, 75]);
  });

  test("moves the wall clock alone when it jumps, and fires nothing", async () => {
    const clock = new ManualClock({ wall_ms: 1_000, mono_ms: 50 });
    const fired: string[] = [];
    clock.after(10, () => fired.push("timer"));
    clock.jumpWall(3_600_000);
    clock.jumpWall(-7_200_000);
    await clock.advance(9);
    expect([clock.wall_ms(), clock.mono_ms()]).toEqual([1_000 - 3_600_000 + 9, 59]);
    expect(fired).toEqual([]);
  });

  test("refuses to let time pass backwards", async () => {
    const refused = await new ManualClock().advance(-1).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(Error);
  });

  test("fires what is due in order of time, then of asking, each at its own moment", async () => {
    const clock = new ManualClock({ wall_ms: 0, mono_ms: 100 });
    const fired: [string, number, number][] = [];
    const note = (name: string) => () => fired.push([name, clock.mono_ms(), clock.wall_ms()]);
    clock.after(30, note("c"));
    clock.after(10, note("a"));
    clock.after(30, note("d"));
    clock.after(20, note("b"));
    clock.after(31, note("too late"));
    await clock.advance(30);
    expect(fired).toEqual([
      ["a", 110, 10],
      ["b", 120, 20],
      ["c", 130, 30],
      ["d", 130, 30],
    ]);
    expect(clock.timers).toBe(1);
  });

  test("fires a timer once", async () => {
    const clock = new ManualClock();
    let fired = 0;
    clock.after(10, () => fired++);
    await clock.advance(10);
    await clock.advance(1_000);
    expect(fired).toBe(1);
  });

  test("does not fire a timer that was cancelled, not even by one that is due at the same time", async () => {
    const clock = new ManualClock();
    const fired: string[] = [];
    clock.after(10, () => {
      fired.push("first");
      cancel();
    });
    const cancel = clock.after(10, () => fired.push("second"));
    await clock.advance(10);
    expect(fired).toEqual(["first"]);
    expect(clock.timers).toBe(0);
  });

  test("lets promises settle between timers, so that what they start is on time", async () => {
    const clock = new ManualClock({ mono_ms: 0 });
    const seen: number[] = [];
    const worker = async (): Promise<void> => {
      for (let turn = 0; turn < 3; turn++) {
        await sleep(clock, 10);
        await Promise.resolve();
        seen.push(clock.mono_ms());
      }
    };
    const done = worker();
    await clock.advance(100);
    await done;
    expect(seen).toEqual([10, 20, 30]);
    expect(clock.mono_ms()).toBe(100);
  });

  test("settles what was started before the time moves", async () => {
    const clock = new ManualClock({ mono_ms: 0 });
    let woken_at = -1;
    const late = async (): Promise<void> => {
      await Promise.resolve();
      await sleep(clock, 10);
      woken_at = clock.mono_ms();
    };
    const done = late();
    await clock.advance(10);
    await done;
    expect(woken_at).toBe(10);
  });

  test("fires a timer without delay at the present moment, without time passing", async () => {
    const clock = new ManualClock({ mono_ms: 7 });
    const fired: number[] = [];
    clock.after(0, () => fired.push(clock.mono_ms()));
    clock.after(-5, () => fired.push(clock.mono_ms()));
    expect(fired).toEqual([]);
    await clock.advance(0);
    expect(fired).toEqual([7, 7]);
  });

  test("tells whole milliseconds, also at the moment of a timer that comes between two", async () => {
    const clock = new ManualClock({ wall_ms: 1_000, mono_ms: 0 });
    const seen: number[] = [];
    clock.after(0.5, () => seen.push(clock.wall_ms()));
    await clock.advance(1);
    expect(seen).toEqual([1_000]);
    expect(clock.wall_ms()).toBe(1_001);
  });
});
