/** Wake-ups are for those who wait: who has work enough does not listen, and misses nothing by it. */

import { describe, expect, test } from "bun:test";
import { Wakeups } from "../../src/worker/wakeups.ts";
import type { Store } from "../../src/store/store.ts";
import { poolTest, type PoolBench } from "./pools.ts";

function listener() {
  const watching = new Set<() => void>();
  const watch = (changed: () => void) => {
    watching.add(changed);
    return () => watching.delete(changed);
  };
  let heard = 0;
  const wakeups = new Wakeups({ watch } as unknown as Store, () => (heard += 1));
  return { wakeups, watching, heard: () => heard };
}

const MANY = 100;

describe("wake-ups", () => {
  test("come to whoever listens, once per commit however often it was told to", () => {
    const { wakeups, watching, heard } = listener();
    expect(wakeups.listening).toBe(false);
    wakeups.listen();
    wakeups.listen();
    expect([wakeups.listening, watching.size]).toEqual([true, 1]);
    for (const changed of watching) changed();
    expect(heard()).toBe(1);
  });

  test("are not listened to any more after many full answers in a row, until one is not full", () => {
    const { wakeups, watching } = listener();
    wakeups.listen();
    for (let i = 0; i < MANY; i++) {
      wakeups.countFullAnswer();
      if (i === 0) expect(watching.size).toBe(1);
    }
    expect([wakeups.listening, watching.size]).toEqual([false, 0]);
    wakeups.listen();
    expect(watching.size).toBe(1);
  });

  test("are listened to on while full answers are few", () => {
    const { wakeups, watching } = listener();
    wakeups.listen();
    for (let i = 0; i < MANY; i++) {
      if (i % 10 === 0) wakeups.listen();
      else wakeups.countFullAnswer();
    }
    expect(watching.size).toBe(1);
  });

  test("that the system has no watch for are left to the poll, and asked for again", () => {
    let tries = 0;
    const watch = () => {
      tries += 1;
      throw new Error("ENOSPC: no space left on device, watch");
    };
    const wakeups = new Wakeups({ watch } as unknown as Store, () => {});
    wakeups.listen();
    wakeups.listen();
    expect([wakeups.listening, tries]).toEqual([false, 2]);
  });

  test("end", () => {
    const { wakeups, watching } = listener();
    wakeups.listen();
    wakeups.end();
    expect(watching.size).toBe(0);
  });
});

describe("a worker that was never out of work for a while", () => {
  /** The state in which it is after its attempt; one that was given back has had none. */
  const ended = ({ settled }: PoolBench, job: number | undefined) =>
    settled.find(({ id, state }) => id === job && state !== "pending")?.state;

  poolTest("hears of a new job when it is", async (b) => {
    await b.scripts("true", 200);
    await b.started({ slots: 2 });
    await b.settles(200);
    await b.scripts("true");
    await b.settles(201);
  });

  poolTest("hears that the last job it may take is to be cancelled", async (b) => {
    await b.scripts("true", 200);
    const [last = 0] = await b.scripts(`echo x >> ${b.file("begun")}; sleep 60`, 1);
    await b.started({ slots: 1, max_jobs: 201 });
    await b.written("begun");
    await b.other.cancel([last], null);
    // What was acquired ahead and not begun in time goes back, which is settled too.
    for (let count = 201; ended(b, last) === undefined; count++) await b.settles(count);
    expect(ended(b, last)).toBe("cancelled");
  });

  poolTest("hears that a job is to be cancelled which is not as short", async (b) => {
    await b.scripts("true", 200);
    const [long] = await b.scripts(`echo x >> ${b.file("begun")}; sleep 60`, 1);
    await b.scripts("true", 5);
    await b.started({ slots: 1 });
    await b.written("begun");
    await b.other.cancel([long ?? 0], null);
    // What was acquired ahead is given back first.
    for (let count = 201; ended(b, long) === undefined; count++) await b.settles(count);
    expect(ended(b, long)).toBe("cancelled");
  });
});
