import { describe, expect, test } from "bun:test";
import { dispatch } from "../../../src/cli/main.ts";
import { commandHelp, pageWidth } from "../../../src/cli/help.ts";
import { ansi, plain } from "../../../src/view/style.ts";
import { displayWidth } from "../../../src/view/text.ts";
import { answer, enqueue } from "./fixture.ts";

const help = (width: number) => commandHelp(enqueue, { width, paint: plain });
const longest = (text: string) => Math.max(...text.split("\n").map(displayWidth));

describe("the help of a command", () => {
  test("shows flags in aligned columns, by section, with hints and defaults", () => {
    expect(help(80).split("\n").slice(0, 20)).toEqual([
      "Queue a command and print the job's id.",
      "",
      "Usage",
      "  lease enqueue [FLAGS] [--] COMMAND [ARG…]",
      "",
      "Flags",
      "  -q, --queue NAME                Queue that it goes to (default: default)",
      "      --env A,B=1                 Variables to hand on (can be repeated)",
      "      --if-exists skip|fail       What to do with a live key (default: skip)",
      "      --no-sweep                  Don't sweep",
      "      --to URL                    Where it goes",
      "",
      "How it runs",
      "      --pty                       Give it a terminal",
      "      --beat VALUE                What counts as a sign of life (one of output,",
      "                                  stdout, timer, manual, whatever)",
      "",
      "Flags of every command",
      "      --store PATH|URL            Where the jobs are: an SQLite file, or",
      "                                  postgres://… (default: $LEASE_STORE, or",
    ]);
  });

  test("ends with examples, what can be set otherwise, and notes", () => {
    expect(help(80).split("\n").slice(-13)).toEqual([
      "",
      "Examples",
      "  lease enqueue -- ./build.sh release",
      "      runs exactly this argv",
      "",
      "Flags that are not given are taken from the environment (LEASE_ENQUEUE_QUEUE) or",
      "from [enqueue] in lease.toml (queue = …): queue, if_exists, beat, pty, env.",
      "",
      "The environment is not recorded.",
      "",
      "Exit codes",
      "  0   queued",
      "",
    ]);
  });

  test("puts texts below their terms where the page is narrow", () => {
    expect(help(40)).toContain(
      "\n  -q, --queue NAME\n      Queue that it goes to\n      (default: default)\n  --env A,B=1\n",
    );
  });

  test.each([40, 60, 80, 120])("fits into %d columns and leaves nothing trailing", (width) => {
    const text = help(width);
    expect(longest(text)).toBeLessThanOrEqual(width);
    expect(text).not.toMatch(/ $/m);
  });

  test("is the same text with colour as without", () => {
    const coloured = commandHelp(enqueue, { width: 80, paint: ansi });
    expect(Bun.stripANSI(coloured).replaceAll(/ +$/gm, "")).toBe(help(80));
  });
});

describe("the first page", () => {
  test.each([40, 80, 120])("fits into %d columns and lists commands by group in their order", async (columns) => {
    const { stdout } = await answer(dispatch, ["help"], { columns });
    expect(longest(stdout)).toBeLessThanOrEqual(columns);
    const places = ["The roles", "enqueue", "Around jobs", "The rest", "Environment", "Exit codes"].map((text) =>
      stdout.indexOf(`\n${text}`) === -1 ? stdout.indexOf(`\n  ${text}`) : stdout.indexOf(`\n${text}`),
    );
    expect(places).not.toContain(-1);
    expect(places.filter((place) => place > 0)).toEqual(places);
  });

  test("is as wide as a terminal of usual size when the width is not known, and never too wide to read", () => {
    expect(pageWidth(null)).toBe(80);
    expect(pageWidth(400)).toBe(110);
    expect(pageWidth(1)).toBe(20);
  });
});
