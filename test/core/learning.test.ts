/** What gaps between beats teach: the percentile, the lease that follows from it, and how old runs fade. */

import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { addGap, conclude, learn, subjectOf, UNLEARNED_LEASE_MS } from "../../src/core/learning.ts";
import type { Gaps, Learned } from "../../src/core/learning.ts";

function gapsOf(sizes_ms: readonly number[]): Gaps {
  const gaps: Record<string, number> = {};
  for (const size_ms of sizes_ms) addGap(gaps, size_ms);
  return gaps;
}

function afterRuns(count: number, gaps: Gaps, before: Learned | null = null): Learned {
  let known = before;
  for (let n = 0; n < count; n++) known = learn(known, gaps);
  return known as Learned;
}

const total = ({ gaps }: Pick<Learned, "gaps">): number => Object.values(gaps).reduce((sum, count) => sum + count, 0);

const gap_ms = fc.integer({ min: 0, max: 7 * 86_400_000 });
const gap_list = fc.array(gap_ms, { minLength: 1, maxLength: 300 });

describe("the subject that a job teaches", () => {
  test("is its key, or else its queue, and these are never mixed up", () => {
    expect(subjectOf({ key: "k", queue: "q" })).toBe(subjectOf({ key: "k", queue: "other" }));
    const subjects = [
      subjectOf({ key: null, queue: "a" }),
      subjectOf({ key: "a", queue: "a" }),
      subjectOf({ key: "queue a", queue: "a" }),
      subjectOf({ key: null, queue: "key a" }),
      subjectOf({ key: null, queue: "b" }),
    ];
    expect(new Set(subjects).size).toBe(subjects.length);
  });
});

describe("gaps", () => {
  test("are all counted, whatever their size", () => {
    fc.assert(fc.property(gap_list, (sizes_ms) => total({ gaps: gapsOf(sizes_ms) }) === sizes_ms.length));
  });

  test("of a long history take little room", () => {
    const gaps: Record<string, number> = {};
    for (let size_ms = 0; size_ms < 86_400_000; size_ms += 997) addGap(gaps, size_ms);
    expect(Object.keys(gaps).length).toBeLessThan(200);
  });

  test("have their 99th percentile told to a tenth, and never too short", () => {
    fc.assert(
      fc.property(gap_list, (sizes_ms) => {
        const sorted = sizes_ms.toSorted((a, b) => a - b);
        const exact_ms = Math.max(1, sorted[Math.ceil(sorted.length * 0.99) - 1] as number);
        const told_ms = conclude(1, gapsOf(sizes_ms)).gap_ms;
        // A class of a few milliseconds is as wide as the rounding.
        expect(told_ms).toBeGreaterThanOrEqual(exact_ms - 0.5);
        expect(told_ms).toBeLessThanOrEqual(exact_ms * 1.1 + 0.5);
      }),
    );
  });

  test("that are longer make the percentile no shorter", () => {
    fc.assert(
      fc.property(gap_list, gap_ms, (sizes_ms, more_ms) => {
        const before_ms = conclude(1, gapsOf(sizes_ms)).gap_ms;
        const longer = sizes_ms.map((size_ms) => size_ms + more_ms);
        expect(conclude(1, gapsOf(longer)).gap_ms).toBeGreaterThanOrEqual(before_ms);
      }),
    );
  });

  test("of one in a thousand do not count, of one in fifty do", () => {
    const usual = Array<number>(999).fill(1_000);
    expect(conclude(20, gapsOf([...usual, 3_600_000])).gap_ms).toBeLessThanOrEqual(1_100);
    expect(conclude(20, gapsOf([...usual.slice(0, 49), 3_600_000])).gap_ms).toBeGreaterThanOrEqual(3_600_000);
  });

  test("that are none have no percentile", () => {
    expect(conclude(1, {})).toEqual({ runs: 1, gaps: {}, gap_ms: 0, lease_ms: null });
  });
});

describe("the lease that is learned", () => {
  test("is none before twenty runs, however many gaps they had", () => {
    const gaps = gapsOf(Array<number>(500).fill(60_000));
    expect(afterRuns(19, gaps).lease_ms).toBeNull();
    expect(afterRuns(20, gaps).lease_ms).not.toBeNull();
  });

  test("is three times the percentile, and at least half a minute", () => {
    fc.assert(
      fc.property(gap_list, (sizes_ms) => {
        const { gap_ms: percentile_ms, lease_ms } = conclude(20, gapsOf(sizes_ms));
        expect(lease_ms).toBe(Math.max(30_000, 3 * percentile_ms));
        expect(Number.isSafeInteger(lease_ms)).toBe(true);
      }),
    );
  });

  test("is half a minute for runs that beat all the time, or had no gap at all", () => {
    expect(afterRuns(20, gapsOf([1, 2, 3])).lease_ms).toBe(30_000);
    expect(afterRuns(20, {}).lease_ms).toBe(30_000);
  });

  test("is five minutes as long as nothing is known", () => {
    expect(UNLEARNED_LEASE_MS).toBe(5 * 60_000);
  });
});

describe("one more run", () => {
  test("adds its gaps and changes neither what was known nor the run", () => {
    fc.assert(
      fc.property(gap_list, gap_list, (first, second) => {
        const known = learn(null, gapsOf(first));
        const [copy, run] = [structuredClone(known), gapsOf(second)];
        const more = learn(known, run);
        expect([more.runs, total(more)]).toEqual([2, first.length + second.length]);
        expect(more).toEqual(conclude(2, gapsOf([...first, ...second])));
        expect([known, run]).toEqual([copy, gapsOf(second)]);
      }),
    );
  });

  test("counts the same in whichever order the runs come", () => {
    fc.assert(
      fc.property(fc.array(gap_list, { minLength: 1, maxLength: 10 }), (lists) => {
        const inOrder = (runs: Gaps[]) => runs.reduce<Learned | null>(learn, null);
        const runs = lists.map(gapsOf);
        expect(inOrder(runs.toReversed())).toEqual(inOrder(runs));
      }),
    );
  });

  test("keeps the number of runs and gaps bounded, and the lease known", () => {
    let known: Learned | null = null;
    for (let n = 0; n < 5_000; n++) {
      known = learn(known, gapsOf([1_000, 2_000, 3_000]));
      expect(known.runs).toBeLessThanOrEqual(1_000);
      expect(total(known)).toBeLessThanOrEqual(3_010);
      if (n >= 20) expect(known.lease_ms).toBe(30_000);
    }
  });

  test("makes old ones fade: a job that has become faster gets a shorter lease in time", () => {
    const slow = afterRuns(1_000, gapsOf([600_000]));
    expect(slow.lease_ms).toBeGreaterThanOrEqual(1_800_000);
    expect(afterRuns(5_000, gapsOf([1_000]), slow).lease_ms).toBe(30_000);
  });

  test("of a job that has become slower is heeded long before that", () => {
    const fast = afterRuns(1_000, gapsOf([1_000]));
    expect(afterRuns(20, gapsOf([600_000]), fast).lease_ms).toBeGreaterThanOrEqual(1_800_000);
  });

  test("of each of many kinds, once and long ago, does not decide for ever", () => {
    const kinds = Array.from({ length: 60 }, (_, n) => 60_000 * 1.11 ** n);
    const once = learn(null, gapsOf(kinds));
    expect(afterRuns(20_000, gapsOf([1_000]), once).lease_ms).toBe(30_000);
  });
});
