/**
 * A command line that is plainly written, as the ones in scripts are: flags with a value each, then words. It says yes or
 * nothing. And whether anything beside the line has a say about it.
 */

import { isPlainVariable } from "../config/settings.ts";
import type { Env } from "../config/location.ts";

/** Does what a line asks for, and answers what to print; null: nothing was done. */
export type QuickWrite = () => string | null;

export interface QuickLine {
  values: Partial<Record<string, string>>;
  /** From the first word that is no flag on. */
  rest: string[];
  behind_dashes: boolean;
}

/** What stands for bytes that are not UTF-8 once the runtime has read them. */
const REPLACEMENT = "\uFFFD";

/** `flags`: how each is written, and what it is called. Null when any other is there, one twice, or one without a value. */
export function quickLine(words: readonly string[], flags: Readonly<Record<string, string>>): QuickLine | null {
  const line: QuickLine = { values: {}, rest: [], behind_dashes: false };
  let at = 0;
  for (; at < words.length; at++) {
    const word = words[at] ?? "";
    if (word === "--" || !word.startsWith("-") || word === "-") break;
    const cut = word.startsWith("--") ? word.indexOf("=") : -1;
    const name = flags[cut < 0 ? word : word.slice(0, cut)];
    const value = cut < 0 ? words[++at] : word.slice(cut + 1);
    if (name === undefined || value === undefined || name in line.values) return null;
    // A negative number may be a value; or the next flag stands where one was forgotten.
    if (cut < 0 && value.startsWith("-")) return null;
    line.values[name] = value;
  }
  line.behind_dashes = words[at] === "--";
  line.rest = words.slice(line.behind_dashes ? at + 1 : at);
  return words.join(" ").includes(REPLACEMENT) ? null : line;
}

/** Each is read by the whole command. */
const READ_ELSEWHERE = ["LEASE_COLOR", "LEASE_VERBOSE", "LEASE_CONFIG"];

/**
 * Whether a variable has a say about the command; also one that may be a slip of one that has: the whole command says so.
 * `begins` is how the names of its own begin behind LEASE_, well before a slip would be likely.
 */
export function isSetOutside(env: Env, begins: string): boolean {
  for (const name in env) {
    if (!name.startsWith("LEASE_") || isPlainVariable(name)) continue;
    if (name.startsWith(begins, 6) || !name.includes("_", 6)) return true;
  }
  return READ_ELSEWHERE.some((name) => (env[name] ?? "") !== "");
}
