/** What doctor says about schedules that nobody fires, limits that nobody uses and needs that nobody can meet. */

import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { WorkerRecord } from "../../src/core/records.ts";
import { plans } from "../../src/lookup/plans_checkup.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { temporaryFolder } from "../leasing/fixture.ts";
import { ManualClock } from "../support/clock.ts";
import { newJob } from "../support/jobs.ts";
import { worker } from "../view/fixture.ts";

const HOUR_MS = 3_600_000;
let folder: string;
let store: Store;
let clock: ManualClock;
beforeEach(async () => {
  folder = temporaryFolder();
  clock = new ManualClock({ wall_ms: Date.UTC(2030, 0, 1) });
  store = await openSqlite(join(folder, "lease.db"), { clock, random: () => 0.5 });
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

const told = async (...alive: WorkerRecord[]) =>
  (await plans(store, alive, clock.wall_ms())).map(({ name, value }) => `${name}: ${value}`);

describe("a checkup of plans", () => {
  test("says nothing where there is nothing to say", async () => {
    await store.setLimit("x", { most: 1, rate: null });
    await store.enqueue([newJob({ limits: ["x"] }), newJob({ needs: { gpu: 1 } })]);
    expect(await told(worker({ have: { gpu: ["0"] } }))).toEqual([]);
  });

  test("names a schedule that nobody fires, and one that never was", async () => {
    const when = { cron: null, every_ms: HOUR_MS, zone: null, overlap: "skip", catch_up: "one", jitter_ms: 0 } as const;
    await store.setSchedule({ name: "s", ...when, job: newJob() }, clock.wall_ms() + HOUR_MS);
    expect(await told()).toEqual([]);
    await clock.advance(3 * HOUR_MS);
    expect(await told()).toEqual(["schedules: schedule s was due 2h ago, and it has never fired"]);
    await store.pauseSchedule("s", true, null);
    expect(await told()).toEqual([]);
  });

  test("names one that can't be read, which nobody ever fires", async () => {
    const when = { cron: null, every_ms: HOUR_MS, zone: null, overlap: "skip", catch_up: "one", jitter_ms: 0 } as const;
    await store.setSchedule({ name: "s", ...when, job: newJob() }, clock.wall_ms() + HOUR_MS);
    const database = new Database(join(folder, "lease.db"));
    database.run("UPDATE schedules SET job = '{'");
    database.close();
    const [found] = await plans(store, [], clock.wall_ms());
    expect(found).toMatchObject({
      level: "error",
      value: "schedule s can't be read (job is not JSON), and is not fired",
    });
  });

  test("names a limit that nobody uses, and a need that nobody has", async () => {
    await store.setLimit("x", { most: 1, rate: null });
    await store.enqueue([newJob({ needs: { gpu: 2 } }), newJob({ needs: { gpu: 1 } })]);
    expect(await told(worker({ have: { gpu: ["0"] } }))).toEqual([
      "limits: nothing counts for limit x",
      "needs: 1 job needs more gpu than any live worker has",
    ]);
  });
});
