/** Schedules as somebody else may have written them: one that can't be read is shown, and never fired. */

import { describe, expect, test } from "bun:test";
import { INPUT_LIMIT_BYTES } from "../../src/core/job.ts";
import { templateText } from "../../src/core/schedule.ts";
import { toSchedule } from "../../src/store/shared/schedules.ts";
import { newJob } from "../support/jobs.ts";

const JOB = newJob({ argv: ["echo", "ä"], input: new Uint8Array([1, 2, 255]), env: { A: "1" } });
const ROW = {
  name: "nightly",
  cron: "0 3 * * *",
  every_ms: null,
  zone: "UTC",
  overlap: "skip",
  catch_up: "one",
  jitter_ms: 0,
  job: templateText(JOB),
  set_at_ms: 1,
  paused: 0,
  next_at_ms: 2,
  last_at_ms: null,
  last_job: null,
  last_state: null,
};

describe("a schedule's row", () => {
  test("is what was set, its job too", () => {
    expect(toSchedule(ROW)).toMatchObject({ name: "nightly", cron: "0 3 * * *", paused: false, job: JOB });
  });

  test("has an input as long as any job may have one", () => {
    const input = new Uint8Array(INPUT_LIMIT_BYTES).fill(97);
    expect(toSchedule({ ...ROW, job: templateText({ ...JOB, input }) }).job.input).toEqual(input);
  });

  test("of an earlier lease has the defaults of what came since", () => {
    const { settings, limits: _limits, ...job } = JSON.parse(templateText(JOB));
    delete settings.on_failed;
    const { job: read } = toSchedule({ ...ROW, job: JSON.stringify({ ...job, settings }) });
    expect(read).toMatchObject({ argv: JOB.argv, limits: [], settings: { on_failed: null } });
  });

  test.each([
    [{ job: "{" }, "damaged: job is not JSON"],
    [{ job: "[]" }, "damaged: job"],
    [{ job: templateText({ ...JOB, argv: ["a\0b"] }) }, "damaged: job.argv.0 is out of range"],
    [{ job: templateText(JOB).replace('"retry_on":"any"', '"retry_on":"never"') }, "damaged: job.settings.retry_on"],
    [{ job: templateText(JOB).replace(/"input":"[^"]*"/, '"input":"%%"') }, "damaged: job.input"],
    [{ every_ms: 0 }, "damaged: every_ms is out of range"],
    [{ every_ms: -(2 ** 62) }, "damaged: every_ms is out of range"],
    [{ next_at_ms: 2 ** 62 }, "damaged: next_at_ms is out of range"],
    [{ jitter_ms: -1 }, "damaged: jitter_ms is out of range"],
    [{ overlap: "magic" }, "damaged: overlap is none that is known"],
  ])("that is damaged never fires: %j", (change, reason) => {
    const schedule = toSchedule({ ...ROW, ...change });
    expect(schedule).toMatchObject({ name: "nightly", paused: true });
    expect(schedule.cron).toStartWith(reason);
  });
});
