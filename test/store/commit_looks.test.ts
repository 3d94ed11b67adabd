import { describe, expect, test } from "bun:test";
import { CommitLooks } from "../../src/store/sqlite/watch.ts";
import { ManualClock } from "../support/clock.ts";

/** Commits become visible when a test says so; writes are reported before. */
function watched() {
  const clock = new ManualClock();
  const store = { version: 1, looks: 0, heard_at_ms: [] as number[] };
  const started_ms = clock.mono_ms();
  const version = () => {
    store.looks += 1;
    return store.version;
  };
  const looks = new CommitLooks(clock, version, () => store.heard_at_ms.push(clock.mono_ms() - started_ms));
  return { clock, store, looks };
}

describe("looking for commits of others", () => {
  test("looks again soon when the commit is not visible yet", async () => {
    const { clock, store, looks } = watched();
    looks.written();
    await clock.advance(2);
    store.version = 2;
    await clock.advance(1);
    expect(store.heard_at_ms).toEqual([3]);
  });

  test("a write is looked for at once, also while the last look for an earlier one is pending", async () => {
    const { clock, store, looks } = watched();
    looks.written();
    // Nothing came of it, and the next look would be the last, long after.
    await clock.advance(21);
    looks.written();
    store.version = 2;
    await clock.advance(1);
    expect(store.heard_at_ms).toEqual([21]);
  });

  test("many changes are heard of no more often than every five milliseconds", async () => {
    const { clock, store, looks } = watched();
    for (let ms = 0; ms < 50; ms++) {
      store.version += 1;
      looks.written();
      await clock.advance(1);
    }
    expect(store.heard_at_ms.length).toBeWithin(9, 12);
  });

  test("a commit that was under way when another was seen is heard of too", async () => {
    const { clock, store, looks } = watched();
    looks.written();
    store.version = 2;
    await clock.advance(0);
    store.version = 3;
    await clock.advance(5);
    expect(store.heard_at_ms).toEqual([0, 5]);
  });

  test("whoever hears of a change may end it", async () => {
    const clock = new ManualClock();
    let version = 1;
    const looks = new CommitLooks(
      clock,
      () => version,
      () => looks.end(),
    );
    looks.written();
    version = 2;
    await clock.advance(1);
    expect(clock.timers).toBe(0);
  });

  test("gives up when nothing comes of a write, and when it is told to", async () => {
    const { clock, store, looks } = watched();
    looks.written();
    await clock.advance(1_000);
    expect(clock.timers).toBe(0);
    looks.written();
    looks.end();
    store.version = 2;
    await clock.advance(1_000);
    expect(store.heard_at_ms).toEqual([]);
  });
});
