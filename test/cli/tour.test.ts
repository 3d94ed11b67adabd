/** The tour of the README: taken again, it shows what stands there. */

import { expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { takeTour, tourBlock, withoutTimes } from "../../scripts/tour.ts";
import { Screen } from "../../scripts/tour/screen.ts";
import { LEASE, ROOT } from "./lease.ts";

setDefaultTimeout(60_000);

const [, written = ""] =
  /(<!-- tour:begin -->[^]*<!-- tour:end -->)/.exec(readFileSync(join(ROOT, "README.md"), "utf8")) ?? [];

test("what the README shows of a terminal is what a terminal shows; `bun scripts/tour.ts` writes it anew", async () => {
  const seen = tourBlock(await takeTour(LEASE));
  const told = (text: string) => text.split("\n").map((line) => withoutTimes(line));
  expect(told(seen)).toEqual(told(written));
});

test("the picture of it has the same commands, and no script", () => {
  const svg = readFileSync(join(ROOT, "docs/images/tour.svg"), "utf8");
  const commands = [...written.matchAll(/^\$ (lease \w+)/gm)].map(([, command = ""]) => command);
  expect(commands.length).toBeGreaterThan(4);
  for (const command of commands) expect(svg).toContain(command);
  expect(svg).not.toMatch(/<script|href="http|on\w+=/);
});

test("a screen shows what is left after moving, erasing and wrapping", () => {
  const screen = new Screen(10);
  screen.feed("one\r\ntwo\r\n\u001b[1A\u001b[2Kthree\u001b[3");
  screen.feed("1m!\u001b[0m\r\n0123456789abc\r\ngone\u001b[1G\u001b[J");
  expect(screen.lines()).toEqual(["one", "three!", "0123456789", "abc"]);
  expect(screen.rows[1]?.[5]).toEqual({ text: "!", style: "31" });
  expect(() => screen.feed("\u001b[5z")).toThrow("does not know CSI 5z");
});
