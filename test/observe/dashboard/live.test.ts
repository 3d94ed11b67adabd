import { describe, expect, test } from "bun:test";
import { Live, type Answer } from "../../../src/observe/dashboard/live.ts";
import { Budget } from "../../../src/observe/dashboard/shared_reader.ts";
import { ManualClock } from "../../support/clock.ts";

/** A store that is looked at through a budget, and what tabs were told. */
function stage(answerOf: (path: string) => Partial<Answer> = () => ({}), cost: (look: number) => number = () => 1) {
  const clock = new ManualClock();
  const budget = new Budget(clock);
  const watchers = new Set<() => void>();
  const looks: string[] = [];
  const live = new Live({
    look: async (path) => {
      looks.push(path);
      for (let n = cost(looks.length); n > 0; n--) budget.take();
      return { status: 200, body: `"${path} ${looks.length}"`, next: null, ...answerOf(path) };
    },
    watch: (changed) => {
      watchers.add(changed);
      return () => watchers.delete(changed);
    },
    budget,
    clock,
  });
  const told: string[] = [];
  const follow = (...paths: string[]) => live.follow(paths, (path, { body }) => told.push(`${path} ${body}`));
  const change = () => {
    for (const changed of watchers) changed();
  };
  return { clock, budget, live, looks, told, follow, change, watchers };
}

describe("a tab", () => {
  test("is told at once what it shows, and again when that has changed", async () => {
    let state = "running";
    const s = stage(() => ({ body: `"${state}"` }));
    s.follow("/jobs/1");
    await s.clock.advance(0);
    expect(s.told).toEqual(['/jobs/1 "running"']);
    state = "failed";
    s.change();
    await s.clock.advance(2_000);
    expect(s.told).toEqual(['/jobs/1 "running"', '/jobs/1 "failed"']);
  });

  test("is told nothing while nothing has changed", async () => {
    const s = stage(() => ({ body: "{}" }));
    s.follow("/overview");
    for (let n = 0; n < 20; n++) {
      s.change();
      await s.clock.advance(500);
    }
    expect(s.told).toHaveLength(1);
    expect(s.looks.length).toBeGreaterThan(5);
  });

  test("costs nothing but a look now and then while the store rests, and nothing at all when it has gone", async () => {
    const s = stage();
    const leave = s.follow("/overview");
    await s.clock.advance(60_000);
    expect(s.looks.length).toBeLessThanOrEqual(8);
    leave();
    const looks = s.looks.length;
    await s.clock.advance(60_000);
    expect(s.looks.length).toBe(looks);
    expect(s.watchers.size).toBe(0);
    expect(s.clock.timers).toBe(0);
  });

  test("sees what was changed through the dashboard without waiting for its turn", async () => {
    const s = stage(undefined, () => 20);
    s.follow("/queues");
    await s.clock.advance(0);
    s.live.changed(true);
    await s.clock.advance(0);
    expect(s.looks).toHaveLength(2);
  });

  test("costs the store no more than five questions a second from the moment that it is opened", async () => {
    for (const [opened, after] of [
      [12, 9],
      [8, 8],
      [6, 5],
      [1, 1],
    ] as const) {
      const s = stage(undefined, (look) => (look === 1 ? opened : after));
      s.follow("/overview");
      for (let n = 0; n < 100; n++) {
        s.change();
        await s.clock.advance(100);
      }
      expect(s.told.length).toBeGreaterThan(3);
      expect(s.budget.asked).toBeLessThanOrEqual(10 * 5);
    }
  });

  test("is shown at once, and sees what it changed, also while others wait for their turn", async () => {
    const s = stage(undefined, () => 20);
    s.follow("/overview");
    await s.clock.advance(0);
    s.change();
    await s.clock.advance(1_000);
    s.follow("/jobs/7");
    await s.clock.advance(0);
    expect(s.looks).toEqual(["/overview", "/jobs/7"]);
    s.change();
    await s.clock.advance(1_000);
    s.live.changed(true);
    await s.clock.advance(0);
    expect(s.looks).toHaveLength(4);
  });

  test("that follows a log sees it grow every second, however much has been asked", async () => {
    const s = stage(
      (path) => ({ next: path.startsWith("/log") ? path : null }),
      (look) => (look === 1 ? 20 : 1),
    );
    s.follow("/overview", "/log");
    for (let n = 0; n < 40; n++) {
      s.change();
      await s.clock.advance(100);
    }
    expect(s.looks.filter((path) => path === "/log").length).toBeGreaterThanOrEqual(4);
  });

  test("is told why something can't be looked up", async () => {
    const s = stage(() => {
      throw new Error("no disk");
    });
    s.follow("/overview");
    await s.clock.advance(0);
    expect(s.told).toEqual(['/overview {"error":"no disk"}']);
  });
});

describe("many tabs", () => {
  test("that show the same share each look", async () => {
    const s = stage();
    for (let n = 0; n < 50; n++) s.follow("/overview");
    await s.clock.advance(0);
    expect(s.looks).toHaveLength(1);
    expect(s.told).toHaveLength(50);
  });

  test("ask the store no more than five questions a second, whatever they show and however busy it is", async () => {
    const s = stage(undefined, () => 7);
    for (let n = 0; n < 40; n++) s.follow("/overview", `/jobs/${n}`);
    await s.clock.advance(5_000);
    const before = s.budget.asked;
    for (let n = 0; n < 600; n++) {
      s.change();
      await s.clock.advance(100);
    }
    expect(s.budget.asked - before).toBeLessThanOrEqual(60 * 5);
    expect(new Set(s.looks).size).toBe(41);
  });

  test("or one whose page takes more questions than there may be at once", async () => {
    const s = stage(undefined, () => 18);
    s.follow("/overview");
    await s.clock.advance(10_000);
    const before = s.budget.asked;
    for (let n = 0; n < 600; n++) {
      s.change();
      await s.clock.advance(100);
    }
    expect((s.budget.asked - before) / 60).toBeWithin(3, 5);
  });
});

describe("a log", () => {
  test("is followed from where it was left, each line once, by tabs that came at different times", async () => {
    const lines: string[] = [];
    const s = stage((path) => {
      const from = Number(path.split("=")[1]);
      return { body: JSON.stringify(lines.slice(from)), next: `/log?from=${lines.length}` };
    });
    s.follow("/log?from=0");
    await s.clock.advance(0);
    lines.push("a", "b");
    s.change();
    await s.clock.advance(2_000);
    const late: string[] = [];
    s.live.follow(["/log?from=2"], (_path, { body }) => late.push(body));
    await s.clock.advance(0);
    lines.push("c");
    s.change();
    await s.clock.advance(2_000);
    expect(s.told.filter((text) => !text.endsWith("[]"))).toEqual(['/log?from=0 ["a","b"]', '/log?from=0 ["c"]']);
    expect(late.filter((text) => text !== "[]")).toEqual(['["c"]']);
  });
});
