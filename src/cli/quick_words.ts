/**
 * Reads a plainly written command line, as most are, without anything that a start would have to load first. It says yes
 * or nothing: whatever is not one of the flags it is given, or is written in a way that takes a second look, is null, and
 * strict.ts has a word for it.
 *
 *     --name value   --name=value   -q value   -qvalue   --pty   words   --
 */

import { aliasesOf, flagName, type FlagDef } from "./flags.ts";
import type { Grammar, ParsedLine } from "./strict.ts";

export interface QuickGrammar extends Omit<Grammar, "meta"> {
  /** Of all flags, also those that are not understood here: `-config` is a slip, not `-c onfig`. */
  names: readonly string[];
}

export function quickWords(grammar: QuickGrammar, words: readonly string[]): ParsedLine | null {
  const { rest } = grammar;
  const line: ParsedLine = { args: {}, lists: {}, rest: [], before_dashes: null, given: new Map() };
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? "";
    const is_word = !word.startsWith("-") || word === "-";
    if (word === "--" || (is_word && rest === "command")) {
      if (!is_word) line.before_dashes = line.rest.length;
      line.rest.push(...words.slice(is_word ? at : at + 1));
      break;
    }
    if (is_word && rest === "handler") return null;
    const took = is_word ? line.rest.push(word) && 0 : takeFlag(grammar, line, word, words[at + 1]);
    if (took === null) return null;
    at += took;
  }
  if (rest === "none" && line.rest.length > 0) return null;
  return withDefaults(grammar, line);
}

/** How many words its value took; null when it is not plain. */
function takeFlag(grammar: QuickGrammar, line: ParsedLine, word: string, next: string | undefined): number | null {
  const long = word.startsWith("--");
  const cut = long ? `${word}=`.indexOf("=") : 2;
  const written = word.slice(long ? 2 : 1, cut);
  const attached = cut < word.length ? word.slice(long ? cut + 1 : cut) : null;
  if (attached?.startsWith("=") || (!long && grammar.names.some((name) => flagName(name) === word.slice(1))))
    return null;
  for (const key in grammar.flags) {
    const flag = grammar.flags[key];
    if (flag === undefined || !(long ? flagName(key) === written : aliasesOf(flag).includes(written))) continue;
    const found = { key, flag, written: word.slice(0, cut) };
    if (flag.type === "boolean") return attached === null && put(grammar, line, found, true) ? 0 : null;
    const value = attached ?? next;
    if (value === undefined || (attached === null && looksLikeFlag(value))) return null;
    return put(grammar, line, found, value) ? (attached === null ? 1 : 0) : null;
  }
  return null;
}

/** A negative number is a value; anything else that begins with `-` is more likely the next flag. */
export function looksLikeFlag(word: string): boolean {
  return word.startsWith("-") && word !== "-" && !/^-\.?\d/.test(word);
}

/** False when the flag has a value already, or this is none of its choices. */
export function put(
  { repeat }: Pick<Grammar, "repeat">,
  line: ParsedLine,
  { key, flag, written }: { key: string; flag: FlagDef; written: string },
  value: string | boolean,
): boolean {
  const list = repeat.includes(key);
  const values = partsOf(flag, list, String(value));
  if ((line.given.has(key) && !list) || (flag.type === "enum" && !values.every((one) => flag.options.includes(one))))
    return false;
  line.given.set(key, written);
  if (list) line.lists[key] = [...(line.lists[key] ?? []), ...values];
  else line.args[key] = value;
  return true;
}

/** Of a choice that can be given more than once, a value may be a list. */
export function partsOf(flag: FlagDef, repeatable: boolean, value: string): string[] {
  return flag.type === "enum" && repeatable ? value.split(",") : [value];
}

export function withDefaults({ flags, repeat }: Pick<Grammar, "flags" | "repeat">, line: ParsedLine): ParsedLine {
  for (const key in flags) {
    const flag = flags[key];
    if (repeat.includes(key)) line.lists[key] ??= [];
    else line.args[key] ??= flag?.default ?? (flag?.type === "boolean" ? false : undefined);
  }
  return line;
}
