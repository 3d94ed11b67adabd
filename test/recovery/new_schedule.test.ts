import { describe, expect, test } from "bun:test";
import { newSchedule } from "../../src/recovery/new_schedule.ts";
import { newJob } from "../support/jobs.ts";

const spell = (option: string) => `--${option}`;

describe("a schedule that is asked for", () => {
  test("leaves jobs out that come while one runs, unless told", () => {
    const made = newSchedule("s", { every: 60_000 }, newJob({ key: "k" }), spell);
    expect(made).toMatchObject({ every_ms: 60_000, overlap: "skip", catch_up: "one", zone: null });
  });

  test("can't have the next take a place that its key keeps until the one before has ended", () => {
    const set = () => newSchedule("s", { every: 60_000, overlap: "replace" }, newJob({ key: "k" }), spell);
    expect(set).toThrow("--key keeps its place until the one before has ended: leave it out with --overlap replace");
  });
});
