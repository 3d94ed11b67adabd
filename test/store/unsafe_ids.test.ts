/** Ids of jobs beyond what a number holds, which only somebody else can have written. */

import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import { acquireRequest } from "../contract/subject.ts";
import { newJob } from "../support/jobs.ts";

test.each([1, 20])("at the head of a queue don't block it: an acquire of %d goes on behind them", async (count) => {
  const folder = mkdtempSync(join(tmpdir(), "lease-ids-"));
  const store = await openSqlite(join(folder, "lease.db"), { clock: systemClock, random: systemRandom });
  try {
    await store.enqueue([newJob({ priority: 2 }), newJob({ priority: 1 }), newJob()]);
    using database = new Database(store.location);
    database.run("UPDATE jobs SET id = 9007199254740993 WHERE id = 1");
    database.run("UPDATE jobs SET id = -9007199254740993 WHERE id = 2");
    const granted = await store.acquire(acquireRequest({ queues: ["default"], count }));
    expect(granted.map(({ job }) => job.id)).toEqual([3]);
    expect(await store.counts()).toContainEqual({ queue: "default", state: "failed", count: 2 });
    const [failed] = await store.list({ states: ["failed"], limit: 1, newest_first: true });
    expect(failed?.result).toMatchObject({ cause: "not_executable", error: "damaged: id is out of range" });
  } finally {
    await store.close();
    rmSync(folder, { recursive: true });
  }
});
