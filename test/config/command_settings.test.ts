import { describe, expect, test } from "bun:test";
import { strangeVariables } from "../../src/config/command_settings.ts";

describe("a variable of ours that sets nothing", () => {
  test("is strange, with what it may have been meant for", () => {
    expect(strangeVariables({ LEASE_WORKER_SLOTZ: "1", LEASE_XYZZY: "1", HOME: "/" })).toEqual([
      { name: "LEASE_WORKER_SLOTZ", meant: "LEASE_WORKER_SLOTS" },
      { name: "LEASE_XYZZY", meant: null },
    ]);
  });

  test("is not, where a job is told something by it, or a command reads it by itself", () => {
    const told = ["JOB_ID", "NEED_GPU", "FAILED_JOB", "ARRAY_INDEX", "SCHEDULE", "SCHEDULED_AT", "UI_TOKEN"];
    expect(strangeVariables(Object.fromEntries(told.map((name) => [`LEASE_${name}`, "1"])))).toEqual([]);
  });
});
