import { describe, expect, test } from "bun:test";
import { Heartbeat } from "../../src/leasing/heartbeat.ts";
import { ManualClock } from "../support/clock.ts";

function heart(onError?: (error: unknown) => void): { clock: ManualClock; heartbeat: Heartbeat } {
  const clock = new ManualClock();
  return { clock, heartbeat: new Heartbeat(clock, onError) };
}

describe("a heartbeat", () => {
  test("counts from when it was made until the first beat", async () => {
    const { clock, heartbeat } = heart();
    expect([heartbeat.beats, heartbeat.elapsed()]).toEqual([0, 0]);
    await clock.advance(700);
    expect([heartbeat.beats, heartbeat.elapsed()]).toEqual([0, 700]);
  });

  test("tells how long the last beat is ago", async () => {
    const { clock, heartbeat } = heart();
    await clock.advance(700);
    heartbeat.beat();
    expect(heartbeat.elapsed()).toBe(0);
    await clock.advance(250);
    expect([heartbeat.beats, heartbeat.elapsed()]).toEqual([1, 250]);
    expect(heartbeat.last_beat_ms).toBe(clock.mono_ms() - 250);
  });

  test("measures on the monotonic clock, whatever the wall clock is set to", async () => {
    const { clock, heartbeat } = heart();
    heartbeat.beat();
    clock.jumpWall(3_600_000);
    await clock.advance(10);
    clock.jumpWall(-7_200_000);
    expect(heartbeat.elapsed()).toBe(10);
  });

  test("counts several beats that were seen at once, and calls back once for them", () => {
    const { heartbeat } = heart();
    let calls = 0;
    heartbeat.addCallback(() => calls++);
    heartbeat.beat(250);
    heartbeat.beat();
    expect([heartbeat.beats, calls]).toEqual([251, 2]);
  });

  test("calls back for a sign of life that is no beat of the job's", async () => {
    const { clock, heartbeat } = heart();
    let calls = 0;
    heartbeat.addCallback(() => calls++);
    await clock.advance(5);
    heartbeat.beat(0);
    expect([heartbeat.beats, heartbeat.elapsed(), calls]).toEqual([0, 0, 1]);
  });
});

describe("the callbacks of a heartbeat", () => {
  test("run in the order in which they were added, and see the beat", () => {
    const { heartbeat } = heart();
    const calls: string[] = [];
    for (const name of ["a", "b", "c"]) heartbeat.addCallback(() => calls.push(`${name}${heartbeat.beats}`));
    heartbeat.beat();
    heartbeat.beat();
    expect(calls).toEqual(["a1", "b1", "c1", "a2", "b2", "c2"]);
  });

  test("that throw stop neither the others nor the one who beats", () => {
    const errors: unknown[] = [];
    const { heartbeat } = heart((error) => errors.push(error));
    const calls: string[] = [];
    heartbeat.addCallback(() => calls.push("before"));
    heartbeat.addCallback(() => {
      throw new Error("broken");
    });
    heartbeat.addCallback(() => calls.push("after"));
    heartbeat.beat();
    heartbeat.beat();
    expect(calls).toEqual(["before", "after", "before", "after"]);
    expect(errors.map(String)).toEqual(["Error: broken", "Error: broken"]);
    expect(heartbeat.beats).toBe(2);
  });

  test("that throw are harmless even when nobody wants to know", () => {
    const { heartbeat } = heart();
    heartbeat.addCallback(() => {
      throw new Error("broken");
    });
    expect(() => heartbeat.beat()).not.toThrow();
  });

  test("are not called any more once they are removed", () => {
    const { heartbeat } = heart();
    const calls: string[] = [];
    const first = (): void => void calls.push("first");
    heartbeat.addCallback(first);
    heartbeat.addCallback(() => calls.push("second"));
    heartbeat.beat();
    heartbeat.removeCallback(first);
    heartbeat.beat();
    expect(calls).toEqual(["first", "second", "second"]);
  });

  test("that remove themselves during a call leave no other one out", () => {
    const { heartbeat } = heart();
    const calls: string[] = [];
    const once = (): void => {
      calls.push("once");
      heartbeat.removeCallback(once);
    };
    heartbeat.addCallback(once);
    heartbeat.addCallback(() => calls.push("always"));
    heartbeat.beat();
    heartbeat.beat();
    expect(calls).toEqual(["once", "always", "always"]);
  });

  test("that remove a later one stop it from the next beat on", () => {
    const { heartbeat } = heart();
    const later = (): void => void calls.push("later");
    const calls: string[] = [];
    heartbeat.addCallback(() => heartbeat.removeCallback(later));
    heartbeat.addCallback(later);
    heartbeat.beat();
    calls.length = 0;
    heartbeat.beat();
    expect(calls).toEqual([]);
  });

  test("that add one have it called from the next beat on", () => {
    const { heartbeat } = heart();
    const calls: string[] = [];
    let added = false;
    heartbeat.addCallback(() => {
      if (!added) heartbeat.addCallback(() => calls.push("new"));
      added = true;
    });
    heartbeat.beat();
    expect(calls).toEqual([]);
    heartbeat.beat();
    expect(calls).toEqual(["new"]);
  });

  test("may be removed twice, or without having been added", () => {
    const { heartbeat } = heart();
    let calls = 0;
    const callback = (): void => void calls++;
    heartbeat.removeCallback(callback);
    heartbeat.addCallback(callback);
    heartbeat.addCallback(() => calls++);
    heartbeat.removeCallback(callback);
    heartbeat.removeCallback(callback);
    heartbeat.beat();
    expect(calls).toBe(1);
  });
});

describe("a beat that somebody else saw", () => {
  test("counts from when it was, not from when it was heard of", async () => {
    const { clock, heartbeat } = heart();
    await clock.advance(1_000);
    let calls = 0;
    heartbeat.addCallback(() => calls++);
    heartbeat.beatSeen(400);
    expect([heartbeat.elapsed(), heartbeat.beats, calls]).toEqual([400, 0, 1]);
  });

  test("is no news when it is older than the last one, or the same", async () => {
    const { clock, heartbeat } = heart();
    await clock.advance(1_000);
    heartbeat.beat();
    await clock.advance(100);
    let calls = 0;
    heartbeat.addCallback(() => calls++);
    heartbeat.beatSeen(101);
    heartbeat.beatSeen(100);
    expect([heartbeat.elapsed(), heartbeat.beats, calls]).toEqual([100, 1, 0]);
  });
});
