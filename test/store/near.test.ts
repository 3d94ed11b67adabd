/** Lists of a store with many jobs: what is looked for near the end of the ids first is found wherever it is. */

import { expect, test } from "bun:test";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { ManualClock } from "../support/clock.ts";
import { newJob } from "../support/jobs.ts";

const PENDING = 6_000;
const CANCELLED = 21_000;

async function withStore(body: (store: Store, enqueue: (count: number) => Promise<unknown>) => Promise<void>) {
  const store = await openSqlite(":memory:", { clock: new ManualClock(), random: () => 0.5, memory: true });
  async function* jobs(count: number) {
    yield Array.from({ length: count }, () => newJob());
  }
  try {
    await body(store, (count) => store.enqueueAll(jobs(count)));
  } finally {
    await store.close();
  }
}

const range = (first: number, last: number) =>
  Array.from({ length: Math.abs(last - first) + 1 }, (_, n) => first + Math.sign(last - first) * n);

test("of many jobs those that come first are listed, whether they are near or behind many others", () =>
  withStore(async (store, enqueue) => {
    await enqueue(PENDING + CANCELLED);
    await store.cancel(range(PENDING + 1, PENDING + CANCELLED), null);
    const pending = async (newest_first: boolean) =>
      (await store.list({ states: ["pending"], newest_first, limit: 50 })).map(({ id }) => id);
    // More than the ids that are looked through are cancelled, and newer.
    expect(await pending(true)).toEqual(range(PENDING, PENDING - 49));
    expect(await pending(false)).toEqual(range(1, 50));
    await enqueue(60);
    const newest = PENDING + CANCELLED + 60;
    expect(await pending(true)).toEqual(range(newest, newest - 49));
  }));

test("the first page of a walk begins at the first that is meant", () =>
  withStore(async (store, enqueue) => {
    await enqueue(PENDING + CANCELLED);
    const page = async (limit: number, behind_id: number) =>
      (await store.outlines({ states: ["cancelled"], newest_first: false, behind_id, limit })).map(({ id }) => id);
    expect(await page(3, 0)).toEqual([]);
    await store.cancel(range(CANCELLED + 1, CANCELLED + 5), null);
    expect(await page(3, 0)).toEqual(range(CANCELLED + 1, CANCELLED + 3));
    expect(await page(3, CANCELLED + 3)).toEqual(range(CANCELLED + 4, CANCELLED + 5));
  }));
