import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { closingMargin, fenceMargin, nextDuty, type Vigil } from "../../src/core/vigil.ts";

/** A job that beat just now under a lease of 100 s, renewed at the same moment. */
function vigil(overrides: Partial<Vigil> = {}): Vigil {
  return {
    now_ms: 0,
    last_beat_ms: 0,
    deadline_ms: 100_000,
    timeout_at_ms: null,
    lease_ms: 100_000,
    warned: false,
    closing_asked: false,
    stopping: false,
    ...overrides,
  };
}

describe("the keeper of a running job", () => {
  test("warns at half of the budget", () => {
    expect(nextDuty(vigil())).toEqual({ duty: "warn", at_ms: 50_000 });
  });

  test("then asks for the time that stopping takes, shortly before the budget is used up", () => {
    expect(nextDuty(vigil({ warned: true }))).toEqual({ duty: "ask_closing", at_ms: 95_000 });
  });

  test("then, with that time in hand, stops the job as silent when the budget is used up", () => {
    const closing = vigil({ warned: true, closing_asked: true, deadline_ms: 130_000 });
    expect(nextDuty(closing)).toEqual({ duty: "stop_silent", at_ms: 100_000 });
  });

  test("kills the job before the lease is over when that time can't be had", () => {
    const refused = vigil({ warned: true, closing_asked: true });
    expect(nextDuty(refused)).toEqual({ duty: "kill_fenced", at_ms: 99_500 });
  });

  test("kills a job that beats but whose lease could not be renewed, before the lease is over", () => {
    const unreachable = vigil({ last_beat_ms: 90_000, deadline_ms: 100_000 });
    expect(nextDuty(unreachable)).toEqual({ duty: "kill_fenced", at_ms: 99_500 });
  });

  test("starts over with every beat", () => {
    expect(nextDuty(vigil({ last_beat_ms: 40_000, deadline_ms: 140_000 }))).toEqual({ duty: "warn", at_ms: 90_000 });
  });

  test("stops a job at its time limit, however much it beats", () => {
    expect(nextDuty(vigil({ timeout_at_ms: 1_000 }))).toEqual({ duty: "stop_timeout", at_ms: 1_000 });
    expect(nextDuty(vigil({ timeout_at_ms: 60_000 })).duty).toBe("warn");
  });

  test("has nothing left to do but the fence once the job has been told to stop", () => {
    const stopping = vigil({ stopping: true, timeout_at_ms: 1_000 });
    expect(nextDuty(stopping)).toEqual({ duty: "kill_fenced", at_ms: 99_500 });
  });

  test("puts the fence before anything else that is due at the same moment", () => {
    expect(nextDuty(vigil({ timeout_at_ms: 99_500, warned: true, closing_asked: true })).duty).toBe("kill_fenced");
  });

  test("leaves room for the kill before any lease ends, and room to ask before that", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1_000, max: 86_400_000 }), (lease_ms) => {
        expect(fenceMargin(lease_ms)).toBeGreaterThan(0);
        expect(closingMargin(lease_ms)).toBeGreaterThan(fenceMargin(lease_ms));
        expect(closingMargin(lease_ms)).toBeLessThan(lease_ms / 2);
      }),
    );
  });

  test("never waits past the fence, whatever the state of the job", () => {
    const states = fc.record({
      now_ms: fc.constant(0),
      last_beat_ms: fc.integer({ min: 0, max: 200_000 }),
      deadline_ms: fc.integer({ min: 0, max: 400_000 }),
      timeout_at_ms: fc.option(fc.integer({ min: 0, max: 400_000 })),
      lease_ms: fc.integer({ min: 1_000, max: 200_000 }),
      warned: fc.boolean(),
      closing_asked: fc.boolean(),
      stopping: fc.boolean(),
    });
    fc.assert(
      fc.property(states, (state) => {
        const { duty, at_ms } = nextDuty(state);
        expect(at_ms).toBeLessThan(state.deadline_ms);
        if (state.stopping) expect(duty).toBe("kill_fenced");
      }),
    );
  });
});
