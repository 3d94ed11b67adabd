import { describe, expect, test } from "bun:test";
import { inheritRun } from "../../src/runner/inherit.ts";

describe("a command in the foreground", () => {
  test("answers with its exit code", async () => {
    const run = await inheritRun(["/bin/sh", "-c", "exit 9"]);
    expect(await run.exit_code).toBe(9);
  });

  test("answers with 128 + n when a signal ended it", async () => {
    const run = await inheritRun(["sleep", "60"]);
    run.kill("SIGTERM");
    expect(await run.exit_code).toBe(143);
  });

  test("is refused with a clear line when it can't be started", async () => {
    const error: unknown = await inheritRun(["no-such-command-here"]).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: "not_found" });
  });
});
