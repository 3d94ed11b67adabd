/**
 * The first five minutes of somebody new, typed into a real terminal of three sizes; what stands on the screen is compared
 * with test/cli/screens, but for times and what is cut because of them. UPDATE_SCREENS=1 writes them anew: look at them.
 */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { HAS_TMUX, Tmux } from "../support/tmux.ts";
import { LEASE, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();
setDefaultTimeout(120_000);
if (!HAS_TMUX) console.warn("SKIPPED: nobody plays the first five minutes, because there is no tmux here");

const SCREENS = join(import.meta.dir, "screens");
const PROMPT = /^\$ *$/m;
/** An empty prompt below what was answered, which may have pushed the typed line off the screen. */
const ANSWERED = /\S[^]*\n\$\s*$/;

/**
 * Words so short that at 80 columns no line is at the edge: whether one is cut must not depend on how many digits its
 * times have, which they have more of on a busy machine.
 */
const PROGRAMS = {
  "hello.sh": "echo hello",
  "bad.sh": "echo bad magic number >&2; exit 1",
  "hang.sh": "echo ld; sleep 60",
  "long.sh": "echo working; while [ ! -e go ]; do sleep 0.02; done",
};

async function newcomer(columns: number, rows: number): Promise<{ place: Place; tmux: Tmux }> {
  const place = newPlace();
  mkdirSync(join(place.folder, "bin"));
  symlinkSync(LEASE, join(place.folder, "bin/lease"));
  for (const [name, text] of Object.entries(PROGRAMS)) {
    writeFileSync(join(place.folder, name), `#!/bin/sh\n${text}\n`);
    chmodSync(join(place.folder, name), 0o755);
  }
  const PATH = `${join(place.folder, "bin")}:${process.env["PATH"] ?? ""}`;
  return { place, tmux: await Tmux.open(place, { columns, rows }, { PATH, NO_COLOR: "" }) };
}

/** What is the same each time: times are hidden, and with them how wide a column is and what was cut to make room. */
function stable(screen: string): string {
  const lines = screen
    .trimEnd()
    .split("\n")
    .map((line) => {
      const masked = line
        .replaceAll(/\b(?:now|(?:\d+[dhms])+ ago)\b/g, "AGO")
        .replaceAll(/\d\d:\d\d:\d\d/g, "CLOCK")
        .replaceAll(/\b\d+(?:\.\d+)?(?:ms|s|m)\b/g, "TIME")
        .replaceAll(/[\d.]+\/s\b/g, "RATE")
        .replaceAll(/([─━])[─━]+/g, "$1")
        .replaceAll(/(\S{1,4})\S*…/g, "$1…")
        .replaceAll(/ +/g, " ")
        .trimEnd();
      return masked.includes("…") ? `${masked.trimStart().split(" ").slice(0, 3).join(" ")} …` : masked;
    });
  // Where our sentences wrap depends on how long the times in them are.
  return lines
    .join("\n")
    .replaceAll(/^lease: [^]*?(?=\n(?:lease: |\$|job )|$(?![^]))/gm, (told) => told.replaceAll("\n", " "));
}

/** What was on the screen after each step. */
class Diary {
  readonly #tmux: Tmux;
  readonly #columns: number;
  readonly steps: string[] = [];

  constructor(tmux: Tmux, columns: number) {
    this.#tmux = tmux;
    this.#columns = columns;
  }

  async type(line: string, answer: RegExp = ANSWERED): Promise<void> {
    this.note(line, await this.#tmux.run(line, answer));
  }

  note(title: string, screen: string): void {
    for (const line of screen.split("\n")) expect(Bun.stringWidth(line)).toBeLessThanOrEqual(this.#columns);
    this.steps.push(`== ${title}\n${stable(screen)}\n`);
  }
}

async function firstFiveMinutes({ place, tmux }: { place: Place; tmux: Tmux }, diary: Diary): Promise<void> {
  await diary.type("lease");
  await diary.type("lease jobs");
  await diary.type("lease enqueue ./hello.sh");
  await diary.type("lease ls");
  await diary.type("lease wait 1", /no worker[^]*^job 1 pending/m);
  tmux.press("C-c");
  await tmux.shows(ANSWERED);
  await diary.type("lease worker --until-empty", /1 done in[^]*^\$ *$/m);
  await diary.type("lease logs 1");
  await diary.type("lease run ./bad.sh; echo $?", /^1\n\$ *$/m);
  await diary.type("lease run --lease 1s --grace 0 ./hang.sh", ANSWERED);
  await diary.type("lease enqueue ./long.sh");
  await diary.type("lease worker", /^4 +\.\/long\.sh .*working[^]*1 running/m);
  writeFileSync(join(place.folder, "go"), "");
  await tmux.shows(/1 done/);
  tmux.press("C-c");
  diary.note("Ctrl-C", await tmux.shows(/1 done in[^]*^\$ *$/m));
  await diary.type("lease ls");
  await diary.type("lease inspect");
  await diary.type("lease enqueue -q gpu ./hello.sh");
  await diary.type("lease top", /▸ .*pending[^]* q(?: quit)?\n*$/);
  tmux.press("Enter");
  diary.note("Enter", await tmux.shows(/nothing so far[^]* quit\n*$/));
  tmux.press("q");
  await tmux.shows(PROMPT);
  await diary.type("lease cancel 5");
  await diary.type("lease retry 2");
  await diary.type("lease logs 2 --attempt 1");
}

describe.skipIf(!HAS_TMUX).each([
  [40, 12],
  [80, 24],
  [200, 60],
])("the first five minutes at %i × %i", (columns, rows) => {
  let began: Awaited<ReturnType<typeof newcomer>>;
  beforeAll(async () => {
    began = await newcomer(columns, rows);
  });
  afterAll(() => began.tmux.close());

  test("look as they always do", async () => {
    const diary = new Diary(began.tmux, columns);
    await firstFiveMinutes(began, diary);
    const file = join(SCREENS, `${columns}x${rows}.txt`);
    if (process.env["UPDATE_SCREENS"] === "1") writeFileSync(file, diary.steps.join("\n"));
    const before = readFileSync(file, "utf8").split(/\n(?=== )/);
    for (const [index, step] of diary.steps.entries()) expect(step.trimEnd()).toBe((before[index] ?? "").trimEnd());
    expect(diary.steps).toHaveLength(before.length);
  });

  test("are coloured, unless NO_COLOR says not to", async () => {
    const { tmux } = began;
    // oxlint-disable-next-line no-control-regex
    const coloured = /\u001B\[[\d;]*3[0-9][\d;]*m/;
    await tmux.run("lease ls", ANSWERED);
    expect(tmux.screen({ colours: true })).toMatch(coloured);
    await tmux.run("NO_COLOR=1 lease ls", ANSWERED);
    expect(tmux.screen({ colours: true })).not.toMatch(coloured);
    await tmux.run("lease ls | cat", ANSWERED);
    expect(tmux.screen({ colours: true })).not.toMatch(coloured);
  });
});
