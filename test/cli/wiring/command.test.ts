import { describe, expect, expectTypeOf, test } from "bun:test";
import { STATE_NAMES, type StateName } from "../../../src/core/job.ts";
import { DURATION, GRACE, QUEUE } from "../../../src/core/values.ts";
import { command } from "../../../src/cli/command.ts";
import { JSON_FLAG } from "../../../src/cli/flags.ts";

describe("a command definition", () => {
  test("gives run the types of its flags", () => {
    command({
      meta: { name: "test", description: "Test" },
      args: {
        queue: { type: "string", alias: "q", value: QUEUE },
        status: { type: "enum", options: STATE_NAMES },
        every: { type: "string", default: "1m", value: DURATION },
        grace: { type: "string", value: GRACE },
        beat: { type: "enum", options: ["output", "timer"] },
        if_exists: { type: "enum", options: ["skip", "fail"], default: "skip" },
        once: { type: "boolean" },
        json: JSON_FLAG,
      },
      repeat: ["queue", "status"],
      rest: "words",
      run: async ({ args, lists, rest }) => {
        expectTypeOf(args.every).toEqualTypeOf<number>();
        expectTypeOf(args.grace).toEqualTypeOf<number | "never" | undefined>();
        expectTypeOf(args.beat).toEqualTypeOf<"output" | "timer" | undefined>();
        expectTypeOf(args.if_exists).toEqualTypeOf<"skip" | "fail">();
        expectTypeOf(args.once).toEqualTypeOf<boolean>();
        expectTypeOf(args.json).toEqualTypeOf<boolean>();
        expectTypeOf(args.store).toEqualTypeOf<string | undefined>();
        expectTypeOf(args.color).toEqualTypeOf<"auto" | "always" | "never">();
        expectTypeOf(args.verbose).toEqualTypeOf<boolean>();
        expectTypeOf(lists).toEqualTypeOf<{ readonly queue: string[]; readonly status: StateName[] }>();
        expectTypeOf(rest).toEqualTypeOf<string[]>();
        // @ts-expect-error a repeatable flag is a list, not a value
        expect(args.queue).toBeUndefined();
        return 0;
      },
    });
  });

  test("has the flags of every command beside its own", () => {
    const { flags } = command({
      meta: { name: "test", description: "Test" },
      args: { once: { type: "boolean" } },
      rest: "none",
      run: async () => 0,
    });
    expect(Object.keys(flags)).toEqual(["once", "store", "trust_store", "config", "color", "verbose", "help"]);
  });
});
