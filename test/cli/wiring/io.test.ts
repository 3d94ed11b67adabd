import { expect, test } from "bun:test";
import { wantsColor } from "../../../src/cli/io.ts";

test.each([
  ["auto", true, {}, true],
  ["auto", false, {}, false],
  ["auto", true, { NO_COLOR: "1" }, false],
  ["auto", true, { NO_COLOR: "" }, true],
  ["auto", true, { TERM: "dumb" }, false],
  ["always", false, { NO_COLOR: "1" }, true],
  ["never", true, {}, false],
] as const)("colour %s with terminal %p and environment %j is %p", (choice, is_tty, env, expected) => {
  expect(wantsColor(choice, { is_tty, env })).toBe(expected);
});
