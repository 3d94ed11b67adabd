import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { calibrate, type LeaseTimesInput } from "../../src/core/calibration.ts";
import { LeaseError } from "../../src/core/errors.ts";

function refusal(given: LeaseTimesInput): string {
  try {
    calibrate(given);
  } catch (error) {
    if (error instanceof LeaseError && error.code === "calibration") return error.message;
    throw error;
  }
  throw new Error("these times were accepted");
}

describe("calibrate", () => {
  test("takes a lease of five minutes and derives the rest from it", () => {
    expect(calibrate({})).toEqual({
      lease_ms: 300_000,
      interval_ms: 30_000,
      extension_ms: 300_000,
      sweep_every_ms: 60_000,
      sweep_grace_ms: 60_000,
    });
  });

  test("derives from the lease that is given", () => {
    expect(calibrate({ lease_ms: 20_000 })).toEqual({
      lease_ms: 20_000,
      interval_ms: 2_000,
      extension_ms: 20_000,
      sweep_every_ms: 4_000,
      sweep_grace_ms: 4_000,
    });
  });

  test("takes null for not given", () => {
    expect(calibrate({ lease_ms: null, interval_ms: null, sweep_every_ms: null, sweep_grace_ms: null })).toEqual(
      calibrate({}),
    );
  });

  test("does not sweep more than once a second on its own account, however short the lease", () => {
    expect(calibrate({ lease_ms: 1_000 })).toMatchObject({ sweep_every_ms: 1_000, sweep_grace_ms: 200 });
  });

  test("keeps what is given", () => {
    const given = {
      lease_ms: 10_000,
      interval_ms: 4_999,
      extension_ms: 10_000,
      sweep_every_ms: 1_000,
      sweep_grace_ms: 0,
    };
    expect(calibrate(given)).toEqual(given);
  });

  test("refuses a lease under a second", () => {
    expect(refusal({ lease_ms: 999 })).toBe("lease must be at least 1s, and is 999ms");
  });

  test("refuses an interval of half the lease, naming the rule and both values", () => {
    const message = refusal({ lease_ms: 10_000, interval_ms: 5_000 });
    expect(message).toBe("interval must be less than half of lease, and is 5s with a lease of 10s");
  });

  test("holds a given interval against the default lease", () => {
    expect(refusal({ interval_ms: 150_000 })).toContain("lease of 5m");
  });

  test("refuses a negative interval", () => {
    expect(refusal({ interval_ms: -1 })).toContain("interval can't be negative");
  });

  test("refuses sweeps less than a second apart", () => {
    expect(refusal({ sweep_every_ms: 999 })).toContain("(between two sweeps) must be at least 1s");
  });

  test("refuses a negative grace", () => {
    expect(refusal({ sweep_grace_ms: -1 })).toContain("grace can't be negative");
  });

  test("derives times that keep all rules from any lease that is allowed", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1_000, max: 3_650 * 86_400_000 }), (lease_ms) => {
        const times = calibrate({ lease_ms });
        expect(calibrate(times)).toEqual(times);
        for (const ms of Object.values(times)) expect(Number.isInteger(ms)).toBe(true);
      }),
    );
  });
});
