import { describe, expect, test } from "bun:test";
import { LeaseError } from "../../src/core/errors.ts";
import { ReplacedWatch } from "../../src/store/sqlite/watch.ts";
import { ManualClock } from "../support/clock.ts";

const REPLACED = new LeaseError("store_replaced", "the store was replaced");

/** A store whose files, commits and events a test owns. */
function watched(begin: { no_watches?: boolean } = {}) {
  const clock = new ManualClock();
  const store = { replaced: false, commits: 0, listeners: new Set<() => void>(), told: [] as unknown[] };
  const files = {
    check() {
      if (store.replaced) throw REPLACED;
    },
    commits: () => store.commits,
    listen(heard: () => void) {
      if (begin.no_watches === true) throw new Error("ENOSPC");
      store.listeners.add(heard);
      return () => void store.listeners.delete(heard);
    },
  };
  const watch = new ReplacedWatch(clock, files, (error) => store.told.push(error));
  return { clock, store, watch };
}

describe("a store that is replaced while it is open", () => {
  test("is noticed at the event", () => {
    const { store } = watched();
    store.replaced = true;
    for (const heard of store.listeners) heard();
    expect(store.told).toEqual([REPLACED]);
    expect(store.listeners.size).toBe(0);
  });

  test("is noticed within a second where events are not to be had", async () => {
    const { clock, store } = watched({ no_watches: true });
    await clock.advance(500);
    store.replaced = true;
    await clock.advance(1_000);
    expect(store.told).toEqual([REPLACED]);
    await clock.advance(10_000);
    expect(store.told).toHaveLength(1);
  });

  test("one that we write all the time is not listened to, and noticed within a second all the same", async () => {
    const { clock, store } = watched();
    store.commits += 500;
    await clock.advance(1_000);
    expect(store.listeners.size).toBe(0);
    store.replaced = true;
    await clock.advance(1_000);
    expect(store.told).toEqual([REPLACED]);
  });

  test("is listened to again when we have become quiet", async () => {
    const { clock, store } = watched();
    store.commits += 500;
    await clock.advance(1_000);
    store.commits += 3;
    await clock.advance(1_000);
    expect(store.listeners.size).toBe(1);
    store.commits += 3;
    await clock.advance(1_000);
    expect(store.listeners.size).toBe(1);
  });

  test("nothing is left of it at its end", async () => {
    const { clock, store, watch } = watched();
    watch.end();
    expect(store.listeners.size).toBe(0);
    store.replaced = true;
    await clock.advance(5_000);
    expect(store.told).toEqual([]);
  });
});
