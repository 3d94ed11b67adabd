import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { closingMargin, fenceMargin, nextDuty, type Duty, type SilenceState } from "../../src/core/silence.ts";

/** A job that beat just now under a lease of 100 s, renewed at the same moment. */
function stateWith(overrides: Partial<SilenceState> = {}): SilenceState {
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

describe("the silence watch of a running job", () => {
  test("warns at half of the budget", () => {
    expect(nextDuty(stateWith())).toEqual({ duty: "warn", at_ms: 50_000 });
  });

  test("then asks for the time that stopping takes, shortly before the budget is used up", () => {
    expect(nextDuty(stateWith({ warned: true }))).toEqual({ duty: "ask_closing", at_ms: 95_000 });
  });

  test("then, with that time in hand, stops the job as silent when the budget is used up", () => {
    const closing = stateWith({ warned: true, closing_asked: true, deadline_ms: 130_000 });
    expect(nextDuty(closing)).toEqual({ duty: "stop_silent", at_ms: 100_000 });
  });

  test("kills the job before the lease is over when that time can't be had", () => {
    const refused = stateWith({ warned: true, closing_asked: true });
    expect(nextDuty(refused)).toEqual({ duty: "kill_fenced", at_ms: 99_500 });
  });

  test("kills a job that beats but whose lease could not be renewed, before the lease is over", () => {
    const unreachable = stateWith({ last_beat_ms: 90_000, deadline_ms: 100_000 });
    expect(nextDuty(unreachable)).toEqual({ duty: "kill_fenced", at_ms: 99_500 });
  });

  test("starts over with every beat", () => {
    expect(nextDuty(stateWith({ last_beat_ms: 40_000, deadline_ms: 140_000 }))).toEqual({
      duty: "warn",
      at_ms: 90_000,
    });
  });

  test("stops a job at its time limit, however much it beats", () => {
    expect(nextDuty(stateWith({ timeout_at_ms: 1_000 }))).toEqual({ duty: "stop_timeout", at_ms: 1_000 });
    expect(nextDuty(stateWith({ timeout_at_ms: 60_000 })).duty).toBe("warn");
  });

  test("judges no silence while the store is asked for beats that others saw", () => {
    const asking = stateWith({ warned: true, closing_asked: true, deadline_ms: 130_000, asking: true });
    expect(nextDuty(asking).duty).toBe("kill_fenced");
    expect(nextDuty({ ...asking, timeout_at_ms: 1_000 }).duty).toBe("stop_timeout");
  });

  test("is not over before the lease that it was granted, however little a beat adds", () => {
    const short = stateWith({ extension_ms: 20_000, granted_until_ms: 100_000, deadline_ms: 130_000 });
    expect(nextDuty(short)).toEqual({ duty: "warn", at_ms: 50_000 });
    expect(nextDuty({ ...short, warned: true, closing_asked: true })).toEqual({ duty: "stop_silent", at_ms: 100_000 });
    const later = { ...short, warned: true, closing_asked: true, last_beat_ms: 90_000 };
    expect(nextDuty(later)).toEqual({ duty: "stop_silent", at_ms: 110_000 });
  });

  test("has nothing left to do but the fence once the job has been told to stop", () => {
    const stopping = stateWith({ stopping: true, timeout_at_ms: 1_000 });
    expect(nextDuty(stopping)).toEqual({ duty: "kill_fenced", at_ms: 99_500 });
  });

  test("puts the fence before anything else that is due at the same moment", () => {
    expect(nextDuty(stateWith({ timeout_at_ms: 99_500, warned: true, closing_asked: true })).duty).toBe("kill_fenced");
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
});

const states: fc.Arbitrary<SilenceState> = fc.record({
  now_ms: fc.integer({ min: 0, max: 200_000 }),
  last_beat_ms: fc.integer({ min: 0, max: 200_000 }),
  deadline_ms: fc.integer({ min: 0, max: 400_000 }),
  timeout_at_ms: fc.option(fc.integer({ min: 0, max: 400_000 })),
  lease_ms: fc.integer({ min: 1_000, max: 200_000 }),
  warned: fc.boolean(),
  closing_asked: fc.boolean(),
  stopping: fc.boolean(),
});

function always(check: (state: SilenceState) => void): void {
  fc.assert(fc.property(states, check), { numRuns: 500 });
}

describe("whatever the state of a job", () => {
  test("its silence watch never waits past the fence, and the fence comes before the deadline", () => {
    always((state) => {
      const { at_ms } = nextDuty(state);
      expect(at_ms).toBeLessThanOrEqual(state.deadline_ms - fenceMargin(state.lease_ms));
      expect(at_ms).toBeLessThan(state.deadline_ms);
    });
  });

  test("only the fence counts once it has been told to stop", () => {
    always((state) => expect(nextDuty({ ...state, stopping: true }).duty).toBe("kill_fenced"));
  });

  test("its silence watch never waits past its time limit, or has something to do at once", () => {
    always((state) => {
      if (state.stopping || state.timeout_at_ms === null) return;
      expect(nextDuty(state).at_ms).toBeLessThanOrEqual(Math.max(state.timeout_at_ms, state.now_ms));
    });
  });

  test("it is warned of once, and stopped as silent only after the closing time was asked for", () => {
    always((state) => {
      const { duty } = nextDuty(state);
      if (state.warned) expect(duty).not.toBe("warn");
      if (state.closing_asked) expect(duty).not.toBe("ask_closing");
      else expect(duty).not.toBe("stop_silent");
    });
  });

  test("each duty comes at its own time: half of the budget, shortly before its end, its end", () => {
    always((state) => {
      const { duty, at_ms } = nextDuty(state);
      const silent_ms = at_ms - state.last_beat_ms;
      if (duty === "warn") expect(silent_ms).toBe(state.lease_ms / 2);
      if (duty === "ask_closing") expect(silent_ms).toBeCloseTo(state.lease_ms - closingMargin(state.lease_ms), 6);
      if (duty === "stop_silent") expect(silent_ms).toBe(state.lease_ms);
      if (duty === "stop_timeout") expect(at_ms).toBe(state.timeout_at_ms as number);
    });
  });

  test("the fence comes first once it is due, though other things have been due for longer", () => {
    always((state) => {
      const fence_ms = state.deadline_ms - fenceMargin(state.lease_ms);
      if (state.now_ms >= fence_ms) expect(nextDuty(state)).toEqual({ duty: "kill_fenced", at_ms: fence_ms });
    });
  });

  test("what comes next does not depend on when it is asked, as long as the fence is not due", () => {
    always((state) => {
      const fence_ms = state.deadline_ms - fenceMargin(state.lease_ms);
      const [early, late] = [
        { ...state, now_ms: fence_ms - 50_000 },
        { ...state, now_ms: fence_ms - 1 },
      ];
      expect(nextDuty(early)).toEqual(nextDuty(late));
    });
  });

  test("a beat or a renewal never brings anything nearer", () => {
    fc.assert(
      fc.property(states, fc.nat({ max: 100_000 }), fc.nat({ max: 100_000 }), (state, beat_ms, renewal_ms) => {
        const later = {
          ...state,
          last_beat_ms: state.last_beat_ms + beat_ms,
          deadline_ms: state.deadline_ms + renewal_ms,
        };
        const before = nextDuty(state);
        if (before.duty !== "kill_fenced") expect(nextDuty(later).at_ms).toBeGreaterThanOrEqual(before.at_ms);
      }),
    );
  });
});

/** What a silence watch does about a job that beat and was renewed at 0 and never again, in order. */
function watchOver(start: Partial<SilenceState>, closing_ms: number | null): { duty: Duty; at_ms: number }[] {
  const course: { duty: Duty; at_ms: number }[] = [];
  const state = stateWith({ ...start, deadline_ms: start.lease_ms ?? 100_000 });
  while (course.at(-1)?.duty !== "kill_fenced") {
    const next = nextDuty(state);
    course.push(next);
    state.now_ms = Math.max(state.now_ms, next.at_ms);
    if (next.duty === "warn") state.warned = true;
    else if (next.duty === "ask_closing") {
      state.closing_asked = true;
      if (closing_ms !== null) state.deadline_ms = next.at_ms + closingMargin(state.lease_ms) + closing_ms;
    } else state.stopping = true;
  }
  return course;
}

describe("the course of a job that falls silent", () => {
  const leases = fc.integer({ min: 1_000, max: 86_400_000 });

  test("is warned of, given time to stop, stopped as silent, and killed if it has not ended in that time", () => {
    fc.assert(
      fc.property(leases, fc.integer({ min: 2_000, max: 60_000 }), (lease_ms, closing_ms) => {
        const course = watchOver({ lease_ms }, closing_ms);
        expect(course.map(({ duty }) => duty)).toEqual(["warn", "ask_closing", "stop_silent", "kill_fenced"]);
        const times = course.map(({ at_ms }) => at_ms);
        expect(times).toEqual(times.toSorted((a, b) => a - b));
        expect(times[2]).toBe(lease_ms);
        expect(times[3]).toBeLessThan(lease_ms + closing_ms);
      }),
    );
  });

  test("ends in a kill before the lease does when it could not be given that time", () => {
    fc.assert(
      fc.property(leases, (lease_ms) => {
        const course = watchOver({ lease_ms }, null);
        expect(course.map(({ duty }) => duty)).toEqual(["warn", "ask_closing", "kill_fenced"]);
        expect(course.at(-1)?.at_ms).toBeLessThan(lease_ms);
      }),
    );
  });

  test("is cut short by its time limit, wherever that falls", () => {
    const order: Duty[] = ["warn", "ask_closing", "stop_silent"];
    fc.assert(
      fc.property(leases, fc.double({ min: 0.01, max: 2, noNaN: true }), (lease_ms, part) => {
        const course = watchOver({ lease_ms, timeout_at_ms: lease_ms * part }, 10_000);
        const before = course.slice(
          0,
          course.findIndex(({ duty }) => duty.startsWith("stop_")),
        );
        expect(before.map(({ duty }) => duty)).toEqual(order.slice(0, before.length));
        expect(course.filter(({ duty }) => duty.startsWith("stop_"))).toHaveLength(1);
        expect(course[before.length]?.at_ms).toBe(Math.min(lease_ms * part, lease_ms));
      }),
    );
  });
});
