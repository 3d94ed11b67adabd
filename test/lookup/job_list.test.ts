import { afterEach, beforeEach, expect, spyOn, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { listView, type InspectArgs, type Seen } from "../../src/commands/inspect/lists.ts";
import { listedJobs, SearchTime } from "../../src/lookup/job_list.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { temporaryFolder } from "../leasing/fixture.ts";
import { ManualClock } from "../support/clock.ts";
import { newJob } from "../support/jobs.ts";
import { screen } from "../view/fixture.ts";

let folder: string;
let store: Store;
beforeEach(async () => {
  folder = temporaryFolder();
  store = await openSqlite(join(folder, "lease.db"), { clock: new ManualClock(), random: () => 0.5 });
  await store.enqueue([newJob({ argv: ["./deploy.sh"] }), newJob({ argv: ["./build.sh"] })]);
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

const query = { sort: "live", match: "deploy", limit: 10, newest_first: true } as const;
const ids = async (search_time: SearchTime) =>
  (await Array.fromAsync(listedJobs(store, { ...query, search_time }, 10))).flat().map(({ id }) => id);

test("a part of the command is looked for no longer than it may be", async () => {
  const [enough, none] = [new SearchTime(60_000), new SearchTime(0)];
  expect([await ids(enough), enough.ran_out]).toEqual([[1], false]);
  expect([await ids(none), none.ran_out]).toEqual([[], true]);
});

test("a list that was cut short says so, and where the rest is", async () => {
  const slow = spyOn(performance, "now");
  let time_ms = 0;
  slow.mockImplementation(() => (time_ms += 400));
  const view = listView("jobs", { match: "build" } as InspectArgs, [], []);
  const [seen] = (await Array.fromAsync(view.look(store, 0, true))) as [Seen];
  slow.mockRestore();
  expect(seen.text(screen())).toMatch(
    /build\.sh[^]*\nlooked for 1s and stopped: older jobs may match too; --json looks on\n$/,
  );
});

test("what waits and what is over are looked for in one walk where there are many of both", async () => {
  await store.enqueue([newJob({ argv: ["./deploy.sh", "2"] }), newJob({ argv: ["./deploy.sh", "3"] })]);
  await store.cancel([1, 4], null);
  const searches: unknown[] = [];
  const large = new Proxy(store, {
    get(target, name) {
      if (name === "counts") return () => MANY;
      const verb: unknown = Reflect.get(target, name, target);
      if (typeof verb !== "function") return verb;
      return (...args: unknown[]) => {
        if (name === "search") searches.push(args);
        return Reflect.apply(verb, target, args);
      };
    },
  });
  const listed = async (limit: number) =>
    (await Array.fromAsync(listedJobs(large, { ...query, limit }, 10))).flat().map(({ id }) => id);
  expect(await listed(10)).toEqual([3, 4, 1]);
  expect(searches).toHaveLength(2);
  expect(await listed(2)).toEqual([3, 4]);
  expect(await listed(1)).toEqual([3]);
});

const MANY = (["pending", "completed", "cancelled"] as const).map((state) => ({ queue: "q", state, count: 1_000_000 }));
