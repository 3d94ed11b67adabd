import { describe, expect, test } from "bun:test";
import { Live, type Answer } from "../../../src/observe/dashboard/live.ts";
import { Budget } from "../../../src/observe/dashboard/budget.ts";
import { ManualClock } from "../../support/clock.ts";

/** A store that is looked at through a budget, and what tabs were told. */
function stage(answerOf: (path: string) => Partial<Answer> = () => ({}), cost: (look: number) => number = () => 1) {
  const clock = new ManualClock();
  const budget = new Budget(clock);
  const watchers = new Set<() => void>();
  const looks: string[] = [];
  const live = new Live({
    look: async (path, lane) => {
      looks.push(path);
      const count = cost(looks.length);
      await Promise.all(Array.from({ length: count }, () => new Promise<void>((start) => budget.take(lane, start))));
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
  /** By its name, and what it was told by then. */
  const tab = (name: string, ...paths: string[]) => {
    const seen: string[] = [];
    live.follow(paths, (_path, { body }) => seen.push(body), name);
    return seen;
  };
  const change = () => {
    for (const changed of watchers) changed();
  };
  return { clock, budget, live, looks, told, follow, tab, change, watchers };
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
    s.tab("mine", "/queues");
    await s.clock.advance(0);
    s.live.changedByUs("mine", true);
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
    s.tab("mine", "/jobs/7");
    await s.clock.advance(0);
    expect(s.looks).toEqual(["/overview", "/jobs/7"]);
    await s.clock.advance(10_000);
    s.change();
    const before = s.looks.length;
    s.live.changedByUs("mine", true);
    await s.clock.advance(0);
    expect(s.looks[before]).toBe("/jobs/7");
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

  test("sees what it changed before others do, and again within a second while that goes on", async () => {
    const s = stage(undefined, () => 4);
    const others = Array.from({ length: 12 }, (_, n) => s.tab(`other ${n}`, `/jobs/${n}`));
    const mine = s.tab("mine", "/jobs/99");
    await s.clock.advance(30_000);
    for (let n = 0; n < 50; n++) {
      s.change();
      await s.clock.advance(100);
    }
    const before = mine.length;
    s.live.changedByUs("mine", true);
    await s.clock.advance(0);
    expect(mine.length).toBe(before + 1);
    for (let n = 0; n < 10; n++) {
      s.change();
      await s.clock.advance(100);
    }
    expect(mine.length).toBeGreaterThan(before + 1);
    expect(others.every((seen) => seen.length > 0)).toBe(true);
  });

  test("is shown a part where there is no room for all of it, and the rest after that", async () => {
    let room = false;
    const s = stage(() => ({ body: room ? '"all"' : '"part"', partial: !room }));
    s.follow("/jobs/1");
    await s.clock.advance(0);
    expect(s.told[0]).toBe('/jobs/1 "part"');
    room = true;
    await s.clock.advance(3_000);
    expect(s.told).toEqual(['/jobs/1 "part"', '/jobs/1 "all"']);
  });

  test("that comes back at once costs nothing, and is told what it saw", async () => {
    const s = stage();
    const leave = s.follow("/overview");
    await s.clock.advance(0);
    leave();
    s.follow("/overview", "/jobs/1");
    await s.clock.advance(0);
    expect(s.looks).toEqual(["/overview", "/jobs/1"]);
    expect(s.told.slice(1)).toEqual(['/overview "/overview 1"', '/jobs/1 "/jobs/1 2"']);
  });

  test("that comes back after a change is not left with what it saw", async () => {
    const s = stage(undefined, () => 20);
    const leave = s.follow("/queues");
    await s.clock.advance(0);
    leave();
    s.change();
    s.follow("/queues");
    await s.clock.advance(0);
    expect(s.told).toEqual(['/queues "/queues 1"', '/queues "/queues 1"', '/queues "/queues 2"']);
  });

  test("asks no more for what will not change", async () => {
    const s = stage(() => ({ final: true }));
    s.follow("/log");
    for (let n = 0; n < 50; n++) {
      s.change();
      await s.clock.advance(1_000);
    }
    expect(s.looks).toHaveLength(1);
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

  test("that are opened in the same moment are all shown at once, for no more than that", async () => {
    const s = stage(undefined, () => 2);
    for (let n = 0; n < 20; n++) s.follow(`/jobs/${n}`);
    await s.clock.advance(0);
    expect(s.told).toHaveLength(20);
    for (let n = 0; n < 100; n++) {
      s.change();
      await s.clock.advance(100);
    }
    expect(s.budget.asked).toBeLessThanOrEqual(10 * 5);
  });

  test("that follow twenty logs see each of them grow, for no more than that", async () => {
    const s = stage((path) => ({ next: path }));
    for (let n = 0; n < 20; n++) s.follow(`/log/${n}`);
    await s.clock.advance(10_000);
    const before = { asked: s.budget.asked, looks: s.looks.length };
    for (let n = 0; n < 200; n++) {
      s.change();
      await s.clock.advance(100);
    }
    expect(s.budget.asked - before.asked).toBeLessThanOrEqual(20 * 5);
    const seen = Map.groupBy(s.looks.slice(before.looks), (path) => path);
    expect(seen.size).toBe(20);
    for (const looks of seen.values()) expect(looks.length).toBeGreaterThanOrEqual(2);
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
    expect((s.budget.asked - before) / 60).toBeWithin(2.5, 5);
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
