import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { CAUSES, type Cause } from "../../src/core/job.ts";
import { backoffDelay, DEFAULT_BACKOFF, wasLost, isRetryable, type ExitRange } from "../../src/core/retry.ts";

const middle = (): number => 0.5;

describe("backoffDelay", () => {
  test("doubles from a second to ten minutes by default", () => {
    const delays = [1, 2, 3, 4, 10, 11, 12].map((failures) => backoffDelay(DEFAULT_BACKOFF, failures, middle));
    expect(delays).toEqual([1_000, 2_000, 4_000, 8_000, 512_000, 600_000, 600_000]);
  });

  test("spreads by a fifth to either side by default", () => {
    expect(backoffDelay(DEFAULT_BACKOFF, 1, () => 0)).toBe(800);
    expect(backoffDelay(DEFAULT_BACKOFF, 1, () => 0.999_999)).toBe(1_200);
  });

  test("stays the same with a factor of one", () => {
    const backoff = { first_ms: 250, factor: 1, max_ms: 60_000, jitter: 0 };
    expect([1, 2, 50].map((failures) => backoffDelay(backoff, failures, middle))).toEqual([250, 250, 250]);
  });

  test("can be nothing at all", () => {
    const backoff = { first_ms: 0, factor: 2, max_ms: 60_000, jitter: 0.2 };
    expect(backoffDelay(backoff, 1_000, middle)).toBe(0);
  });

  test("is a whole number within the jitter around the limit, after any number of failures", () => {
    const backoffs = fc.record({
      first_ms: fc.integer({ min: 0, max: 3_600_000 }),
      factor: fc.double({ min: 1, max: 1_000, noNaN: true }),
      max_ms: fc.integer({ min: 0, max: 86_400_000 }),
      jitter: fc.double({ min: 0, max: 1, noNaN: true }),
    });
    const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(backoffs, fc.integer({ min: 1, max: 1_000_000 }), chance, (backoff, failures, value) => {
        const delay_ms = backoffDelay(backoff, failures, () => value);
        expect(Number.isInteger(delay_ms)).toBe(true);
        expect(delay_ms).toBeGreaterThanOrEqual(0);
        expect(delay_ms).toBeLessThanOrEqual(Math.ceil(backoff.max_ms * (1 + backoff.jitter)));
      }),
    );
  });

  test("never shrinks as failures add up", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 200 }), (failures) => {
        const now_ms = backoffDelay(DEFAULT_BACKOFF, failures, middle);
        expect(backoffDelay(DEFAULT_BACKOFF, failures + 1, middle)).toBeGreaterThanOrEqual(now_ms);
      }),
    );
  });
});

describe("isRetryable", () => {
  const any = { retry_on: "any", fatal_exit: [] } as const;
  const onlyLost = { retry_on: "lost", fatal_exit: [] } as const;
  const fatal = {
    retry_on: "any",
    fatal_exit: [
      [2, 2],
      [64, 78],
    ] as ExitRange[],
  } as const;

  test.each(["exit", "signal", "timeout", "silent", "expired", "lost"] as const)(
    "runs a job again after %p",
    (cause) => {
      expect(isRetryable(cause, cause === "exit" ? 1 : null, any)).toBe(true);
    },
  );

  test.each(["not_found", "not_executable"] as const)(
    "does not try again what the next run would find too: %p",
    (cause) => {
      expect(isRetryable(cause, null, any)).toBe(false);
      expect(isRetryable(cause, 127, any)).toBe(false);
    },
  );

  test.each(["exit", "signal", "timeout", "silent"] as const)("leaves %p alone where only loss is retried", (cause) => {
    expect(isRetryable(cause, null, onlyLost)).toBe(false);
  });

  test.each(["expired", "lost"] as const)("runs a job again after %p whatever it asked for", (cause) => {
    expect(isRetryable(cause, null, onlyLost)).toBe(true);
    expect(isRetryable(cause, 2, { retry_on: "lost", fatal_exit: [[2, 2]] })).toBe(true);
  });

  test.each([
    [1, true],
    [2, false],
    [3, true],
    [63, true],
    [64, false],
    [70, false],
    [78, false],
    [79, true],
  ])("with the fatal codes 2 and 64-78, exit code %p may run again: %p", (exit_code, again) => {
    expect(isRetryable("exit", exit_code, fatal)).toBe(again);
  });

  test("does not take the absence of an exit code for a fatal one", () => {
    expect(isRetryable("signal", null, { retry_on: "any", fatal_exit: [[0, 255]] })).toBe(true);
  });
});

describe("wasLost", () => {
  test("is true of the two causes that say nothing against the job", () => {
    expect(CAUSES.filter((cause: Cause) => wasLost(cause))).toEqual(["expired", "lost"]);
  });
});
