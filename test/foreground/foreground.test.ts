import { afterEach, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { calibrate } from "../../src/core/calibration.ts";
import { LeaseError } from "../../src/core/errors.ts";
import { Foreground } from "../../src/foreground/foreground.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { intercept, temporaryFolder } from "../leasing/fixture.ts";
import { newJob } from "../support/jobs.ts";

const clearing: (() => unknown)[] = [];
afterEach(async () => {
  for (const clear of clearing.splice(0).toReversed()) await clear();
});

async function storeOf(verbs: (real: Store) => Partial<Store>): Promise<{ store: Store; store_url: string }> {
  const folder = temporaryFolder();
  clearing.push(() => rmSync(folder, { recursive: true, force: true }));
  const store_url = join(folder, "lease.db");
  const real = await openSqlite(store_url, { clock: systemClock, random: systemRandom });
  clearing.push(() => real.close());
  return { store: intercept(real, verbs(real)), store_url };
}

describe("a job that is cancelled before it has begun", () => {
  test("is given up as soon as the store can be written again, and not when its lease is over", async () => {
    let failures = 0;
    const { store, store_url } = await storeOf((real) => ({
      settle: (requests, options) => {
        if (failures > 0) return real.settle(requests, options);
        failures += 1;
        return Promise.reject(new LeaseError("store_full", "the disk is full"));
      },
    }));
    const foreground = new Foreground({
      store,
      store_url,
      clock: systemClock,
      random: systemRandom,
      report: () => {},
      version: "0",
      remote: false,
      print: () => {},
      times: calibrate({ lease_ms: 3_600_000 }),
      kill_grace_ms: 10_000,
    });
    const { id } = await foreground.enqueue(newJob({ argv: ["true"] }), {});
    foreground.cancel("changed my mind");
    expect((await foreground.follow(id)).state.name).toBe("cancelled");
    await foreground.end();
    expect(failures).toBe(1);
  });
});
