/**
 * Reads a plainly written command line, as most are, without anything that a start would have to load first. It says yes
 * or nothing: whatever is not one of the flags it is given, or is written in a way that takes a second look, is null, and
 * strict.ts has a word for it.
 *
 *     --name value   --name=value   -q value   -qvalue   --pty   words   --
 */

import { aliasesOf, flagName, type FlagsDef } from "./flags.ts";
import type { Grammar, ParsedLine } from "./strict.ts";

export interface QuickGrammar extends Omit<Grammar, "meta"> {
  /** Of all flags, also those that are not understood here: `-config` is a slip, not `-c onfig`. */
  names: readonly string[];
}

export function quickWords(grammar: QuickGrammar, words: readonly string[]): ParsedLine | null {
  const { flags, repeat, rest } = grammar;
  const line: ParsedLine = { args: {}, lists: {}, rest: [], given: new Set() };
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? "";
    const is_word = !word.startsWith("-") || word === "-";
    if (word === "--" || (is_word && rest === "command")) {
      line.rest.push(...words.slice(is_word ? at : at + 1));
      break;
    }
    if (is_word) line.rest.push(word);
    else {
      const taken = takePlainFlag(grammar, line, word, words[at + 1]);
      if (taken === null) return null;
      at += taken;
    }
  }
  if (rest === "none" && line.rest.length > 0) return null;
  withDefaults(flags, repeat, line);
  return line;
}

/** How many words its value took; null when it is not plain. */
function takePlainFlag(
  { flags, repeat, names }: QuickGrammar,
  line: ParsedLine,
  word: string,
  next: string | undefined,
): number | null {
  const long = word.startsWith("--");
  const cut = long ? `${word}=`.indexOf("=") : 2;
  const key = keyOf(flags, word.slice(0, cut), long);
  const flag = key === null ? undefined : flags[key];
  if (key === null || flag === undefined || (!long && names.includes(word.slice(1).replaceAll("-", "_")))) return null;
  if (line.given.has(key) && !repeat.includes(key)) return null;
  const attached = cut < word.length ? word.slice(long ? cut + 1 : cut) : null;
  if (attached?.startsWith("=")) return null;
  line.given.add(key);
  if (flag.type === "boolean") {
    line.args[key] = true;
    return attached === null ? 0 : null;
  }
  const value = attached ?? next;
  if (value === undefined || (attached === null && looksLikeFlag(value))) return null;
  const values = flag.type === "enum" && repeat.includes(key) ? value.split(",") : [value];
  if (flag.type === "enum" && !values.every((one) => flag.options.includes(one))) return null;
  if (repeat.includes(key)) line.lists[key] = [...(line.lists[key] ?? []), ...values];
  else line.args[key] = value;
  return attached === null ? 1 : 0;
}

function keyOf(flags: FlagsDef, written: string, long: boolean): string | null {
  for (const key in flags) {
    const flag = flags[key];
    if (long ? written === `--${flagName(key)}` : flag && aliasesOf(flag).includes(written.slice(1))) return key;
  }
  return null;
}

/** A negative number is a value; anything else that begins with `-` is more likely the next flag. */
export function looksLikeFlag(word: string): boolean {
  return word.startsWith("-") && word !== "-" && !/^-\.?\d/.test(word);
}

/** What flags are that were not given. */
export function withDefaults(flags: FlagsDef, repeat: readonly string[], line: ParsedLine): void {
  for (const key in flags) {
    const flag = flags[key];
    if (repeat.includes(key)) line.lists[key] ??= [];
    else line.args[key] ??= flag?.default ?? (flag?.type === "boolean" ? false : undefined);
  }
}
