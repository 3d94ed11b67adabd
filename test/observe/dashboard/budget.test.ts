import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { Budget, type Lane } from "../../../src/observe/dashboard/budget.ts";
import { ManualClock } from "../../support/clock.ts";

function stage() {
  const clock = new ManualClock();
  const budget = new Budget(clock);
  const begun_ms = clock.mono_ms();
  const asked: { name: string; at_ms: number }[] = [];
  const ask = (lane: Lane, name: string = lane) =>
    budget.take(lane, () => asked.push({ name, at_ms: clock.mono_ms() - begun_ms }));
  const askAll = (count: number, lane: Lane) => {
    for (let n = 0; n < count; n++) ask(lane);
  };
  return { clock, budget, asked, ask, askAll };
}

const lanes = fc.constantFrom<Lane>("now", "soon", "later");

describe("the budget", () => {
  test("gives no ten seconds more than fifty questions, whoever asks when, and forgets none", async () => {
    const steps = fc.array(fc.tuple(fc.nat(4_000), fc.nat(30), lanes), { maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(steps, async (all) => {
        const s = stage();
        for (const [pause_ms, count, lane] of all) {
          await s.clock.advance(pause_ms);
          s.askAll(count, lane);
        }
        await s.clock.advance(200_000);
        expect(s.asked).toHaveLength(all.reduce((sum, [, count]) => sum + count, 0));
        for (const { at_ms: from_ms } of s.asked) {
          const within = s.asked.filter(({ at_ms }) => at_ms >= from_ms && at_ms < from_ms + 10_000);
          expect(within.length).toBeLessThanOrEqual(50);
        }
        expect(s.clock.timers).toBe(0);
      }),
      { numRuns: 60 },
    );
  });

  test("gives what a page needs that is opened, at once", async () => {
    const s = stage();
    s.askAll(40, "now");
    expect(s.asked).toHaveLength(40);
  });

  test("spreads the last ones, so that nobody waits for ten seconds", async () => {
    const s = stage();
    s.askAll(44, "now");
    for (let n = 0; n < 5; n++) {
      s.ask("now", `late ${n}`);
      await s.clock.advance(2_000);
    }
    const late = s.asked.filter(({ name }) => name.startsWith("late"));
    expect(late.map(({ at_ms }, n) => at_ms - 2_000 * n).every((waited_ms) => waited_ms < 2_000)).toBe(true);
  });

  test("leaves something for the next page that is opened, whatever those ask who have time", async () => {
    const s = stage();
    s.askAll(60, "later");
    s.askAll(60, "soon");
    expect(s.asked.length).toBeLessThan(45);
    s.askAll(3, "now");
    expect(s.asked.slice(-3).map(({ name }) => name)).toEqual(["now", "now", "now"]);
  });

  test("serves who has less time first", async () => {
    const s = stage();
    s.askAll(50, "now");
    s.ask("later", "news");
    s.ask("soon", "log");
    s.ask("now", "page");
    await s.clock.advance(30_000);
    expect(s.asked.slice(-3).map(({ name }) => name)).toEqual(["page", "log", "news"]);
  });

  test("has something left for news when little has been asked", async () => {
    const s = stage();
    expect(s.budget.wait_ms).toBe(0);
    s.askAll(11, "now");
    expect(s.budget.wait_ms).toBeWithin(2_000, 3_500);
    await s.clock.advance(s.budget.wait_ms);
    expect(s.budget.wait_ms).toBe(0);
  });
});
