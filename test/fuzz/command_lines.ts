/** Command lines for the whole of the command line's reading: routes, flags, settings and values, but for what they would do. */

import type { Commands } from "../../src/cli/command.ts";
import { COMMANDS } from "../../src/cli/commands.ts";
import type { Io } from "../../src/cli/io.ts";
import { dispatch } from "../../src/cli/main.ts";
import { parseLine, spell, strictLine, type ParsedLine } from "../../src/cli/strict.ts";
import type { Chance } from "../sim/chance.ts";
import { garbled, type Words } from "./inputs.ts";

/** The real ones, and nothing is done: where they would begin to, they have been understood. */
const HARMLESS: Commands = Object.fromEntries(
  Object.entries(COMMANDS).map(([name, entry]) => [
    name,
    { ...entry, load: async () => ({ ...(await entry.load()), run: async () => {} }) },
  ]),
);
const LOADED = await Promise.all(Object.values(COMMANDS).map(({ load }) => load()));
const SPELLINGS = LOADED.map(({ flags }) => [...spell(flags).keys()]);

const VALUES: Words = {
  samples: [
    "30s",
    "7",
    "9-12",
    "default",
    "*",
    "failed,running",
    "auto",
    "1s..10m",
    "A=1",
    "gpu=0,1",
    "postgres://h/d",
    "x.db",
    "always",
    "json",
  ],
  parts: ["-", "=", ",", "1", "s", "--", "a"],
};

function wordsOf(chance: Chance): string[] {
  const at = chance.between(0, LOADED.length - 1);
  const name = LOADED[at]?.meta.name ?? "";
  const words = [chance.of(0.9) ? name : garbled({ samples: [name, "ls", "help", "kill"] }, chance)];
  for (let more = chance.between(0, 6); more > 0; more--) {
    const flag = chance.pick(chance.of(0.9) ? (SPELLINGS[at] ?? []) : chance.pick(SPELLINGS));
    const spelt = chance.of(0.85) ? flag : garbled({ samples: [flag] }, chance);
    const given = garbled(VALUES, chance);
    words.push(
      ...chance.pick([[spelt, given], [`${spelt}=${given}`], [`${spelt}${given}`], [spelt], [given], ["--", given]]),
    );
  }
  return words;
}

/** The quick reading of a plain line and the strict one of any line must come to the same. */
function compare(name: string, words: readonly string[]): void {
  const command = LOADED.find(({ meta }) => meta.name === name);
  if (command === undefined) return;
  const told = (read: () => ParsedLine) => {
    try {
      const { args, lists, rest, before_dashes, given } = read();
      return JSON.stringify({
        args: Object.entries(args).toSorted(),
        lists,
        rest,
        before_dashes,
        given: [...given].toSorted(),
      });
    } catch (error) {
      return (error as Error).message;
    }
  };
  const [quick, strict] = [told(() => parseLine(command, words)), told(() => strictLine(command, words))];
  if (quick !== strict) throw new Error(`contradiction: quickly ${quick}, strictly ${strict}`);
}

export async function commandLine(chance: Chance, told: (input: unknown) => void): Promise<void> {
  const words = wordsOf(chance);
  told(words);
  const said: string[] = [];
  const io: Io = {
    stdout: () => {},
    stdoutBytes: () => {},
    stderr: (text) => void said.push(text),
    env: { HOME: "/nonexistent" },
    is_tty: false,
    columns: 80,
  };
  const code = await dispatch(words, HARMLESS, io);
  const text = said.join("");
  if (code !== 0 && code !== 2) throw new Error(`contradiction: ended with ${code}: ${text}`);
  if (text.includes("unexpected error")) throw new Error(`contradiction: ${text}`);
  if (code === 2 && !/^lease: .+\n/.test(text) && !text.startsWith("Usage"))
    throw new Error(`contradiction: no line: ${text}`);
  // oxlint-disable-next-line no-control-regex
  if (/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/.test(text))
    throw new Error(`contradiction: raw text: ${JSON.stringify(text)}`);
  compare(words[0] ?? "", words.slice(1));
}
