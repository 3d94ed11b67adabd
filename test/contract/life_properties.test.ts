/**
 * What holds over every life of a job, whatever happens to it and whatever the clock does.
 */

import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { isFinished, STATE_NAMES } from "../../src/core/job.ts";
import { isRetryable } from "../../src/core/retry.ts";
import { isRefusal } from "../../src/core/transition.ts";
import { accepted, histories, type Step } from "./history.ts";
import { happen } from "./life.ts";

const RUNS = { numRuns: 500 };

function always(check: (history: Step[]) => void): void {
  fc.assert(fc.property(histories, check), RUNS);
}

function eachStep(check: (step: Step) => void): void {
  always((history) => history.forEach(check));
}

describe("whatever happens to a job", () => {
  test("its token rises by one with every grant and never otherwise", () => {
    eachStep((step) => {
      const granted = step.event.type === "acquire" && accepted(step) !== null;
      expect(step.after.token - step.before.token).toBe(granted ? 1 : 0);
    });
  });

  test("a terminal state changes only when a person retries it", () => {
    eachStep((step) => {
      if (isFinished(step.before.state) && step.event.type !== "retry") expect(step.after).toEqual(step.before);
    });
  });

  test("it is not granted again after an accepted success, unless a person retries it", () => {
    always((history) => {
      let succeeded = false;
      for (const step of history) {
        const change = accepted(step);
        if (!change) continue;
        if (step.event.type === "retry") succeeded = false;
        if (step.event.type === "acquire") expect(succeeded).toBe(false);
        if (change.ended?.cause === "success") succeeded = true;
      }
    });
  });

  test("it has at most 1 + retries + returned attempts between two retries by a person", () => {
    always((history) => {
      let attempts = 0;
      let returned = 0;
      for (const step of history) {
        const change = accepted(step);
        if (!change) continue;
        if (step.event.type === "retry") attempts = returned = 0;
        if (step.event.type === "acquire") attempts++;
        if (change.ended?.cause === "returned") returned++;
        expect(attempts).toBeLessThanOrEqual(1 + step.before.settings.retries + returned);
      }
    });
  });

  test("once asked to stop it is never granted again, unless a person retries it", () => {
    always((history) => {
      let asked = false;
      for (const step of history) {
        if (!accepted(step)) continue;
        if (step.event.type === "cancel") asked = true;
        if (step.event.type === "retry") asked = false;
        if (step.event.type === "acquire") expect(asked).toBe(false);
      }
    });
  });

  test("a holder's write is accepted only with the current token of a running job", () => {
    eachStep((step) => {
      if (step.event.type !== "extend" && step.event.type !== "settle") return;
      const holds = step.before.state.name === "running" && step.event.token === step.before.token;
      if (accepted(step)) expect(holds).toBe(true);
      if (step.event.type === "settle") expect(accepted(step) !== null).toBe(holds);
    });
  });

  test("an extension is accepted exactly until the lease has ended, and moves only the expiry", () => {
    eachStep((step) => {
      const { event, before, now_ms } = step;
      if (event.type !== "extend" || before.state.name !== "running" || event.token !== before.token) return;
      expect(accepted(step) !== null).toBe(now_ms <= before.state.expires_at_ms);
      if (!accepted(step)) return;
      const state = { ...before.state, expires_at_ms: now_ms + event.lease_ms };
      expect(step.after).toEqual({ ...before, state });
    });
  });

  test("it is recovered only beyond expiry and grace, or from a holder proven dead", () => {
    eachStep((step) => {
      const { event, before, now_ms } = step;
      if (event.type !== "recover" || !accepted(step)) return;
      if (before.state.name !== "running") throw new Error("recovered a job that was not running");
      if (event.cause === "expired") expect(now_ms).toBeGreaterThan(before.state.expires_at_ms + event.grace_ms);
    });
  });

  test("no lease can be extended at a moment at which a sweep may recover it as expired", () => {
    eachStep(({ before, now_ms }) => {
      const moment = { now_ms, random: () => 0.5 };
      const extended = happen(before, { type: "extend", token: before.token, lease_ms: 1 }, moment);
      const recovered = happen(before, { type: "recover", cause: "expired", grace_ms: 0 }, moment);
      expect(isRefusal(extended) || isRefusal(recovered)).toBe(true);
    });
  });

  test("every grant ends at most once, with exactly one cause, before the next", () => {
    always((history) => {
      const ended = new Set<number>();
      for (const step of history) {
        const change = accepted(step);
        if (!change) continue;
        const stopped = step.before.state.name === "running" && step.after.state.name !== "running";
        expect(change.ended !== null).toBe(stopped);
        if (!stopped) continue;
        expect(ended.has(step.before.token)).toBe(false);
        ended.add(step.before.token);
      }
    });
  });

  test("only failed attempts count as failures, and a person's retry forgives them", () => {
    eachStep((step) => {
      const change = accepted(step);
      if (!change) return;
      const forgiving = ["success", "cancelled", "returned"];
      const cancelled = change.state.name === "cancelled";
      const counts = change.ended !== null && !forgiving.includes(change.ended.cause) && !cancelled;
      const expected = step.event.type === "retry" ? 0 : step.before.failures + (counts ? 1 : 0);
      expect(step.after.failures).toBe(expected);
    });
  });

  test("it fails exactly when its retries are used up or the cause is not one to retry", () => {
    eachStep((step) => {
      const change = accepted(step);
      if (!change?.ended || step.after.failures === step.before.failures) return;
      const { cause, exit_code } = change.ended;
      const over = step.after.failures > step.before.settings.retries;
      const final = over || !isRetryable(cause, exit_code, step.before.settings);
      expect(step.after.state.name === "failed").toBe(final);
    });
  });

  test("a refusal says why and nothing else, and the same job asked again answers the same", () => {
    eachStep(({ before, event, now_ms, answer }) => {
      if (!isRefusal(answer)) return;
      expect(Object.keys(answer)).toEqual(["refused"]);
      expect(happen(before, event, { now_ms, random: () => 0.1 })).toEqual(answer);
    });
  });

  test("each state has exactly its own data", () => {
    const fields = {
      blocked: [],
      scheduled: ["run_at_ms"],
      pending: ["run_at_ms"],
      running: ["cancel_requested_at_ms", "expires_at_ms", "holder"],
      completed: ["finished_at_ms"],
      failed: ["finished_at_ms"],
      cancelled: ["finished_at_ms"],
    };
    eachStep(({ after: { state } }) => {
      expect(
        Object.keys(state)
          .filter((field) => field !== "name")
          .toSorted(),
      ).toEqual(fields[state.name]);
    });
  });
});

describe("the histories that these properties are tried on", () => {
  test("reach every state, every kind of event accepted and refused, and every refusal", () => {
    const steps = fc.sample(histories, { ...RUNS, seed: 1 }).flat();
    const seen = (pick: (step: Step) => string | null): string[] =>
      [...new Set(steps.map(pick))].filter((value) => value !== null).toSorted();
    const events = ["acquire", "cancel", "doom", "due", "extend", "recover", "retry", "settle", "unblock"];

    expect(seen((step) => step.after.state.name)).toEqual(STATE_NAMES.toSorted());
    expect(seen((step) => (accepted(step) ? step.event.type : null))).toEqual(events);
    expect(seen((step) => (accepted(step) ? null : step.event.type))).toEqual(events);
    expect(seen(({ answer }) => (isRefusal(answer) ? answer.refused : null))).toEqual([
      "conflict",
      "expired",
      "finished",
      "not_due",
      "not_expired",
      "wrong_state",
    ]);
    expect(Math.max(...steps.map((step) => step.after.token))).toBeGreaterThan(8);
    expect(seen((step) => String(step.after.state.name === "failed" && step.after.failures))).toContain("4");
  });
});
