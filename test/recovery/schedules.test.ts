/**
 * Schedules over a year: any number of watchdogs and workers look, some die in the middle of it, the clock is set, and
 * every time becomes one job.
 */

import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { LeaseError } from "../../src/core/errors.ts";
import { dueTimes, rewound, type Schedule, type ScheduleSettings } from "../../src/core/schedule.ts";
import { firstTime, timesAhead, timesOf } from "../../src/recovery/schedule_times.ts";
import { fireSchedules } from "../../src/recovery/schedules.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { intercept, temporaryFolder } from "../leasing/fixture.ts";
import { Chance } from "../sim/chance.ts";
import { ManualClock } from "../support/clock.ts";
import { newJob } from "../support/jobs.ts";

const HOUR_MS = 3_600_000;
const BERLIN = { every_ms: null, zone: "Europe/Berlin", set_at_ms: 0 };
const iso = (times: readonly number[]) => times.map((ms) => new Date(ms).toISOString().slice(0, 16));
const cronAhead = async (cron: string, from: string, count: number) =>
  iso(timesAhead(await timesOf({ ...BERLIN, cron }), Date.parse(from), count));

function settings(overrides: Partial<ScheduleSettings> = {}): ScheduleSettings {
  const job = newJob({ argv: ["true"] });
  const rest = { overlap: "queue", catch_up: "all", jitter_ms: 0, job } as const;
  return { name: "s", cron: "30 2 * * *", every_ms: null, zone: "Europe/Berlin", ...rest, ...overrides };
}

describe("the times of a schedule", () => {
  test("in spring the one that is skipped comes when the clock has jumped", async () => {
    const times = ["2030-03-30T01:30", "2030-03-31T01:00", "2030-04-01T00:30"];
    expect(await cronAhead("30 2 * * *", "2030-03-29T12:00:00Z", 3)).toEqual(times);
  });

  test("in autumn the one that comes twice is taken once, and one that comes every hour each time", async () => {
    const once = ["2030-10-27T00:30", "2030-10-28T01:30"];
    expect(await cronAhead("30 2 * * *", "2030-10-26T12:00:00Z", 2)).toEqual(once);
    const each = ["2030-10-27T00:00", "2030-10-27T01:00", "2030-10-27T02:00"];
    expect(await cronAhead("0 * * * *", "2030-10-26T23:30:00Z", 3)).toEqual(each);
  });

  test("of a leap day come every four years", async () => {
    expect(await cronAhead("0 12 29 2 *", "2030-01-01T00:00:00Z", 2)).toEqual(["2032-02-29T11:00", "2036-02-29T11:00"]);
  });

  test.each([
    ["61 * * * *", 'has the minute "61": write 0-59'],
    ["* 24 * * *", 'has the hour "24": write 0-23'],
    ["* * 32 * *", 'has the day of the month "32": write 1-31'],
    ["* * * 13 *", 'has the month "13": write 1-12 or JAN-DEC'],
    ["* * * * 8", 'has the day of the week "8": write 0-7 or SUN-SAT'],
    ["* * * *", "has 4 fields, and five are needed"],
    ["0 0 31 2 *", "never comes"],
    ["", "has 1 fields"],
  ])("%p is refused, and says why", async (cron, why) => {
    const refused = firstTime(settings({ cron }), Date.UTC(2030, 0, 1));
    expect(refused).rejects.toThrow(why);
    expect(await refused.catch((error: LeaseError) => error.code)).toBe("usage");
  });

  test("in a zone that there is not are refused", () => {
    expect(timesOf({ ...BERLIN, cron: "* * * * *", zone: "Mars/Base" })).rejects.toThrow("is not a time zone");
  });
});

describe("a clock that was set back below what was fired", () => {
  const fired = { set_at_ms: 100_500, last_at_ms: 160_500, next_at_ms: 170_500, paused: false, every_ms: 10_000 };
  const schedule = { ...settings(), cron: null, last_job: null, last_state: null, ...fired } as Schedule;

  test("leaves what comes every so often in step", async () => {
    const back = rewound(schedule, await timesOf(schedule), 63_000);
    expect(back).toEqual({ set_at_ms: 60_500, next_at_ms: 70_500 });
    expect((await timesOf({ ...schedule, ...back }))(63_000)).toBe(70_500);
  });

  test("is nothing to one that is paused, or was not fired behind it", async () => {
    const next = await timesOf(schedule);
    expect(rewound({ ...schedule, paused: true }, next, 63_000)).toBeNull();
    expect(rewound(schedule, next, 160_500)).toBeNull();
  });
});

describe("after a pause", () => {
  const due = async (catch_up: ScheduleSettings["catch_up"], pause_ms: number) => {
    const times = { next_at_ms: HOUR_MS, paused: false, last_at_ms: null, last_job: null, last_state: null };
    const schedule: Schedule = { ...settings({ cron: null, every_ms: HOUR_MS, catch_up }), set_at_ms: 0, ...times };
    return dueTimes(schedule, await timesOf(schedule), pause_ms)?.at_ms.map((ms) => ms / HOUR_MS);
  };
  test.each([
    ["none", 5.5 * HOUR_MS, []],
    ["one", 5.5 * HOUR_MS, [5]],
    ["all", 5.5 * HOUR_MS, [1, 2, 3, 4, 5]],
    ["none", 5 * HOUR_MS + 60_000, [5]],
    ["one", 5 * HOUR_MS + 60_000, [4, 5]],
  ] as const)("%s makes up for what was missed as it says", async (catch_up, pause_ms, hours) => {
    expect(await due(catch_up, pause_ms)).toEqual([...hours]);
  });

  test("of years no more than a hundred are made up for", async () => {
    const hours = (await due("all", 100_000 * HOUR_MS)) ?? [];
    expect(hours).toEqual(Array.from({ length: 100 }, (_, n) => 99_901 + n));
  });

  test("that was long, what came every minute is looked for near its end only", async () => {
    let asked = 0;
    const next = (behind_ms: number) => {
      asked += 1;
      return (Math.floor(behind_ms / 60_000) + 1) * 60_000;
    };
    const times = { next_at_ms: 60_000, paused: false, last_at_ms: null, last_job: null, last_state: null };
    const schedule: Schedule = { ...settings({ catch_up: "all" }), set_at_ms: 0, ...times };
    expect(dueTimes(schedule, next, 87_600 * HOUR_MS)?.at_ms).toHaveLength(100);
    expect(asked).toBeLessThan(3_000);
  });
});

describe("a clock that was years ahead", () => {
  test.each([{ cron: "30 2 * * *" }, { cron: null, every_ms: 24 * HOUR_MS, zone: null }] as const)(
    "and is set right again leaves no schedule waiting for years: %p",
    async (when) => {
      const clock = new ManualClock({ wall_ms: Date.UTC(2030, 0, 1) });
      const folder = temporaryFolder();
      const store = await openSqlite(join(folder, "lease.db"), { clock, random: () => 0.5 });
      const look = () => fireSchedules({ store, random: () => 0, report: (_level, text) => expect(text).toBe("") });
      const before = settings({ ...when, catch_up: "one" });
      await store.setSchedule(before, await firstTime(before, clock.wall_ms()));
      clock.jumpWall(87_612 * HOUR_MS);
      expect(await look()).toBe(1);
      const during = settings({ ...when, catch_up: "one", name: "set meanwhile" });
      await store.setSchedule(during, await firstTime(during, clock.wall_ms()));
      clock.jumpWall(-87_612 * HOUR_MS);
      expect(await look()).toBe(0);
      await clock.advance(25 * HOUR_MS);
      expect(await look()).toBe(2);
      await clock.advance(24 * HOUR_MS);
      expect(await look()).toBe(2);
      expect(await look()).toBe(0);
      await store.close();
      rmSync(folder, { recursive: true, force: true });
    },
  );
});

describe("ten watchdogs and five workers over a year", () => {
  let folder: string;
  let clock: ManualClock;
  let stores: Store[];
  beforeEach(async () => {
    folder = temporaryFolder();
    clock = new ManualClock({ wall_ms: Date.UTC(2030, 0, 1) });
    const open = () => openSqlite(join(folder, "lease.db"), { clock, random: () => 0.5 });
    stores = await Promise.all([1, 2, 3].map(open));
  });
  afterEach(async () => {
    for (const store of stores) await store.close();
    rmSync(folder, { recursive: true, force: true });
  });

  test("ask no more of a store with many schedules when one of them is due", async () => {
    const [store] = stores as [Store];
    const every = settings({ cron: null, every_ms: HOUR_MS, zone: null });
    await store.setSchedule(every, 0);
    for (let n = 0; n < 50; n++) await store.setSchedule({ ...every, name: `later ${n}`, every_ms: 9 * HOUR_MS }, 0);
    await store.setSchedule({ ...every, name: "damaged" }, 0);
    const database = new Database(join(folder, "lease.db"));
    database.run("UPDATE schedules SET job = '{' WHERE name = 'damaged'");
    database.close();
    await clock.advance(HOUR_MS);
    let asked = 0;
    const counting = intercept(store, { now: () => ((asked += 1), store.now()) });
    const report = (_level: string, text: string) => expect(text).toBe("");
    expect(await fireSchedules({ store: counting, random: () => 0, report })).toBe(1);
    expect(asked).toBeLessThan(4);
  });

  test("make one job for each time, and miss none", async () => {
    const chance = new Chance(Number(process.env["SIM_SEED"] ?? 7));
    const [store] = stores as [Store];
    const from_ms = clock.wall_ms();
    const plans = [
      settings(),
      settings({ name: "six", cron: "0 */6 * * *" }),
      settings({ name: "leap", cron: "0 0 1 * *" }),
    ];
    for (const plan of plans) await store.setSchedule(plan, await firstTime(plan, from_ms));
    // Killed before its write reaches the store, or after it and before it hears of it.
    const mortal = (one: Store): Store =>
      intercept(one, {
        fire: async (...asked) => {
          if (chance.of(0.2)) throw new Error("killed");
          const made = await one.fire(...asked);
          if (chance.of(0.2)) throw new Error("killed");
          return made;
        },
      });
    const look = () =>
      fireSchedules({ store: mortal(chance.pick(stores)), random: chance.next, report: () => {} }).catch(() => 0);
    const end_ms = from_ms + 365 * 24 * HOUR_MS;
    while (clock.wall_ms() < end_ms) {
      await clock.advance(chance.between(HOUR_MS / 2, 9 * HOUR_MS));
      const jump_ms = chance.of(0.05) ? chance.pick([-HOUR_MS, HOUR_MS]) : 0;
      clock.jumpWall(jump_ms);
      await Promise.all(Array.from({ length: chance.between(1, 15) }, look));
    }
    await fireSchedules({ store, random: () => 0, report: () => {} });
    const now_ms = clock.wall_ms();
    const made = new Map<string, string[]>();
    const jobs = await store.list({ limit: 10_000, newest_first: false });
    for (const { env } of jobs) {
      const name = env["LEASE_SCHEDULE"] as string;
      made.set(name, [...(made.get(name) ?? []), env["LEASE_SCHEDULED_AT"] as string]);
    }
    for (const plan of plans) {
      const all = timesAhead(await timesOf({ ...plan, set_at_ms: from_ms }), from_ms, 5_000);
      const expected = all.filter((at_ms) => at_ms <= now_ms).map((at_ms) => new Date(at_ms).toISOString());
      expect(made.get(plan.name)).toEqual(expected);
    }
    expect(jobs.length).toBeGreaterThan(1_800);
  }, 60_000);
});
