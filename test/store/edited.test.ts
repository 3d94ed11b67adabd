import { describe, expect, test } from "bun:test";
import { edited } from "../../src/store/shared/edited.ts";
import { jobIn } from "../support/jobs.ts";

describe("a job that was due before the clock was set back", () => {
  const job = jobIn({ name: "pending", run_at_ms: 5_000_000 }, { run_at_ms: 5_000_000 });

  test("stays so when something else about it is edited", () => {
    expect(edited(job, { priority: 3 }, 1_000_000)).toMatchObject({ state: "pending", run_at_ms: 5_000_000 });
  });

  test("waits when it is said anew when it runs", () => {
    const when = { run_at_ms: null, delay_ms: 60_000 };
    expect(edited(job, { when }, 1_000_000)).toMatchObject({ state: "scheduled", run_at_ms: 1_060_000 });
  });
});
