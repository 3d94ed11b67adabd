/**
 * Random lives of a job: any order of events, a clock that also goes back, any retry settings, tokens that are current,
 * outdated or made up. A history is every step that was tried, accepted or not.
 */

import * as fc from "fast-check";
import { CAUSES, type Job, type JobSettings, type JobState } from "../../src/core/job.ts";
import { isRefusal } from "../../src/core/transition.ts";
import { end, jobIn } from "../support/jobs.ts";
import { happen, type LifeChange, type LifeEvent, type LifeRefusal } from "./life.ts";

export interface Step {
  before: Job;
  event: LifeEvent;
  now_ms: number;
  answer: LifeChange | LifeRefusal;
  after: Job;
}

/** An event whose token is still relative to the job it will meet. */
type Intent = (token: number) => LifeEvent;

const START_MS = 10_000_000;

const tokenOffset = fc.oneof(
  { weight: 6, arbitrary: fc.constant(0) },
  { weight: 1, arbitrary: fc.integer({ min: -2, max: 1 }) },
);

const ends = fc
  .record({ cause: fc.constantFrom(...CAUSES), exit_code: fc.option(fc.integer({ min: 0, max: 5 })) })
  .map(({ cause, exit_code }) => end(cause, { exit_code }));

const grace = fc.integer({ min: 0, max: 20_000 });
const lease = fc.integer({ min: 1, max: 60_000 });

const intents: fc.Arbitrary<Intent> = fc.oneof(
  { weight: 1, arbitrary: fc.constant<Intent>(() => ({ type: "unblock" })) },
  { weight: 1, arbitrary: fc.constant<Intent>(() => ({ type: "doom", reason: "a dependency failed" })) },
  { weight: 8, arbitrary: fc.constant<Intent>(() => ({ type: "due" })) },
  {
    weight: 12,
    arbitrary: fc
      .tuple(fc.constantFrom("w1", "w2"), lease)
      .map(([holder, lease_ms]): Intent => () => ({ type: "acquire", holder, lease_ms })),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(tokenOffset, lease)
      .map(([offset, lease_ms]): Intent => (token) => ({ type: "extend", token: token + offset, lease_ms })),
  },
  {
    weight: 8,
    arbitrary: fc
      .tuple(tokenOffset, ends)
      .map(([offset, attempt]): Intent => (token) => ({ type: "settle", token: token + offset, end: attempt })),
  },
  {
    weight: 3,
    arbitrary: fc
      .tuple(fc.constantFrom("expired" as const, "lost" as const), grace)
      .map(([cause, grace_ms]): Intent => () => ({ type: "recover", cause, grace_ms })),
  },
  {
    weight: 1,
    arbitrary: fc.option(fc.constant("not needed")).map((reason): Intent => () => ({ type: "cancel", reason })),
  },
  { weight: 3, arbitrary: fc.boolean().map((waits): Intent => () => ({ type: "retry", waits })) },
);

const jobSettings: fc.Arbitrary<Partial<JobSettings>> = fc.record({
  retries: fc.integer({ min: 0, max: 4 }),
  retry_on: fc.constantFrom("any" as const, "lost" as const),
  fatal_exit: fc.array(fc.constantFrom([2, 2] as const, [4, 9] as const), { maxLength: 2 }),
  backoff: fc.record({
    first_ms: fc.integer({ min: 0, max: 5_000 }),
    factor: fc.integer({ min: 1, max: 3 }),
    max_ms: fc.integer({ min: 0, max: 30_000 }),
    jitter: fc.constantFrom(0, 0.2, 1),
  }),
});

const starts: fc.Arbitrary<JobState> = fc.constantFrom<JobState>(
  { name: "blocked" },
  { name: "scheduled", run_at_ms: START_MS + 5_000 },
  { name: "pending", run_at_ms: START_MS },
);

const ticks = fc.oneof(
  { weight: 5, arbitrary: fc.integer({ min: 0, max: 40_000 }) },
  { weight: 1, arbitrary: fc.integer({ min: -3_600_000, max: 3_600_000 }) },
);

const moves = fc.record({ intent: intents, tick_ms: ticks, chance: fc.double({ min: 0, max: 0.999, noNaN: true }) });

/** The job after a change, as a store would write it. */
export function applied(job: Job, change: LifeChange): Job {
  const { state, token, failures, result, reason } = change;
  return {
    ...job,
    state,
    token,
    failures,
    result,
    reason,
    run_at_ms: "run_at_ms" in state ? state.run_at_ms : job.run_at_ms,
  };
}

function frozen<T>(value: T): T {
  if (typeof value === "object" && value !== null) Object.values(Object.freeze(value)).forEach(frozen);
  return value;
}

/** Frozen all the way down, so that a function which is pure only in its answer throws. */
function lived(start: Job, tried: readonly { intent: Intent; tick_ms: number; chance: number }[]): Step[] {
  const steps: Step[] = [];
  let job = frozen(start);
  let now_ms = START_MS;
  for (const { intent, tick_ms, chance } of tried) {
    now_ms += tick_ms;
    const event = frozen(intent(job.token));
    const answer = frozen(happen(job, event, { now_ms, random: () => chance }));
    const after = isRefusal(answer) ? job : frozen(applied(job, answer));
    steps.push({ before: job, event, now_ms, answer, after });
    job = after;
  }
  return steps;
}

export const histories: fc.Arbitrary<Step[]> = fc
  .tuple(jobSettings, starts, fc.array(moves, { minLength: 1, maxLength: 150, size: "max" }))
  .map(([settings, state, tried]) => lived(jobIn(state, { settings, run_at_ms: START_MS }), tried));

export function accepted(step: Step): LifeChange | null {
  return isRefusal(step.answer) ? null : step.answer;
}
