/**
 * A command line → flag values and words, or one line that says what is wrong with it. Nothing is guessed: an unknown
 * flag, a missing value, a value too many, a flag given twice are all refused.
 *
 *     --name value   --name=value   -q value   -qvalue   -q=value   -fv (grouped booleans)   --no-name   --
 *
 * A value that begins with `-` needs the form with `=`, unless it is a negative number or `-` alone. What follows the
 * flags (see RestMode) comes back verbatim.
 */

import { LeaseError } from "../core/errors.ts";
import { aliasesOf, flagName, type FlagDef, type FlagsDef, type RestMode } from "./command.ts";
import { nearest } from "../core/nearest.ts";

export interface Grammar {
  /** How messages call the command: `lease enqueue`. */
  name: string;
  flags: FlagsDef;
  repeat: readonly string[];
  rest: RestMode;
}

export interface Scanned {
  args: Record<string, string | boolean | undefined>;
  lists: Record<string, string[]>;
  rest: string[];
  given: Set<string>;
}

/** One way to write a flag on the command line. */
interface Spelling {
  key: string;
  flag: FlagDef;
  negative: boolean;
}

interface Scan {
  grammar: Grammar;
  raw: readonly string[];
  /** The next word to look at. */
  at: number;
  found: Scanned;
}

export function scan(grammar: Grammar, raw: readonly string[]): Scanned {
  const found: Scanned = { args: {}, lists: {}, rest: [], given: new Set() };
  const state: Scan = { grammar, raw, at: 0, found };
  while (state.at < raw.length) {
    const word = raw[state.at] ?? "";
    state.at += 1;
    if (word === "--") {
      takeWords(state, raw.slice(state.at));
      break;
    }
    if (word.startsWith("--")) longFlag(state, word);
    else if (word.startsWith("-") && word !== "-") shortFlags(state, word);
    else if (grammar.rest === "command") {
      found.rest = raw.slice(state.at - 1);
      break;
    } else takeWords(state, [word]);
  }
  fillIn(grammar, found);
  return found;
}

/** What `--queue`, `-q` or `--no-sweep` stands for; one by one, because listing all ways to write all flags takes time. */
function lookUp(flags: FlagsDef, written: string): Spelling | undefined {
  const name = written.slice(written.startsWith("--") ? 2 : 1);
  const long = written.startsWith("--") && !name.includes("_");
  const key = name.replaceAll("-", "_");
  const direct = long && Object.hasOwn(flags, key) ? flags[key] : undefined;
  if (direct !== undefined) return { key, flag: direct, negative: false };
  const denied_key = key.slice("no_".length);
  const denied = long && key.startsWith("no_") && Object.hasOwn(flags, denied_key) ? flags[denied_key] : undefined;
  if (denied?.type === "boolean" && denied.negativeDescription !== undefined) {
    return { key: denied_key, flag: denied, negative: true };
  }
  for (const other in flags) {
    const flag = flags[other];
    const is_alias = flag !== undefined && aliasesOf(flag).includes(name) && (name.length === 1) !== long;
    if (is_alias) return { key: other, flag, negative: false };
  }
  return undefined;
}

/** Every way to write every flag. */
export function spell(flags: FlagsDef): Map<string, Spelling> {
  const spellings = new Map<string, Spelling>();
  for (const [key, flag] of Object.entries(flags)) {
    spellings.set(`--${flagName(key)}`, { key, flag, negative: false });
    for (const alias of aliasesOf(flag)) {
      spellings.set(alias.length === 1 ? `-${alias}` : `--${alias}`, { key, flag, negative: false });
    }
    if (flag.type === "boolean" && flag.negativeDescription !== undefined) {
      spellings.set(`--no-${flagName(key)}`, { key, flag, negative: true });
    }
  }
  return spellings;
}

function takeWords({ grammar, found }: Scan, words: readonly string[]): void {
  if (grammar.rest === "none" && words.length > 0) refuse(`${grammar.name} takes no words, and got ${told(words[0])}`);
  found.rest.push(...words);
}

function longFlag(state: Scan, word: string): void {
  const equals = word.indexOf("=");
  const written = equals === -1 ? word : word.slice(0, equals);
  const spelling = lookUp(state.grammar.flags, written) ?? unknown(state, written);
  const attached = equals === -1 ? null : word.slice(equals + 1);
  if (spelling.flag.type !== "boolean") return store(state, written, spelling, attached ?? nextValue(state, written));
  if (attached !== null) refuse(`${written} takes no value, and got ${told(attached)}`);
  store(state, written, spelling, !spelling.negative);
}

function shortFlags(state: Scan, word: string): void {
  // `-queue` would be `-q ueue`; nobody means that.
  if (word.length > 2 && lookUp(state.grammar.flags, `-${word}`) !== undefined)
    refuse(`unknown flag ${word}; did you mean -${word}?`);
  for (let at = 1; at < word.length; at += 1) {
    const written = `-${word.charAt(at)}`;
    const spelling = lookUp(state.grammar.flags, written) ?? unknown(state, at === 1 ? word : written);
    const attached = word.slice(at + 1);
    const value = attached.startsWith("=") ? attached.slice(1) : attached;
    if (spelling.flag.type !== "boolean") {
      return store(state, written, spelling, attached === "" ? nextValue(state, written) : value);
    }
    if (value !== attached) refuse(`${written} takes no value, and got ${told(value)}`);
    store(state, written, spelling, true);
  }
}

/** A negative number is a value; anything else that begins with `-` is more likely the next flag. */
function nextValue(state: Scan, written: string): string {
  const value = state.raw[state.at];
  if (value === undefined || value === "--") refuse(`${written} needs a value`);
  if (value.startsWith("-") && value !== "-" && !/^-\.?\d/.test(value)) {
    refuse(`${written} needs a value, and ${value} looks like a flag; if it is the value, write ${written}=${value}`);
  }
  state.at += 1;
  return value;
}

function store({ grammar, found }: Scan, written: string, { key, flag }: Spelling, value: string | boolean): void {
  const repeatable = grammar.repeat.includes(key);
  if (found.given.has(key) && !repeatable) refuse(`${written} is given twice; it can be given once`);
  found.given.add(key);
  if (typeof value === "boolean" || !repeatable) {
    found.args[key] = typeof value === "string" && flag.type === "enum" ? option(written, flag.options, value) : value;
    return;
  }
  const values = flag.type === "enum" ? value.split(",").map((part) => option(written, flag.options, part)) : [value];
  found.lists[key] = [...(found.lists[key] ?? []), ...values];
}

/** `value` if it is one of them; `written` is how the error calls the flag. */
export function option(written: string, options: readonly string[], value: string): string {
  if (options.includes(value)) return value;
  const meant = nearest(value, options);
  const hint = meant === null ? `use ${options.join(", ")}` : `did you mean ${meant}?`;
  return refuse(`${written} can't be ${told(value)}; ${hint}`);
}

function unknown({ grammar }: Scan, written: string): never {
  const long = [...spell(grammar.flags).keys()].filter((spelling) => spelling.startsWith("--"));
  // Compared without dashes: they are in every flag, and make short ones look alike.
  const meant = nearest(
    written.replace(/^-+/, ""),
    long.map((spelling) => spelling.slice(2)),
  );
  const hint = meant === null ? `see ${grammar.name} --help` : `did you mean --${meant}?`;
  return refuse(`unknown flag ${written}; ${hint}`);
}

function fillIn({ name, flags, repeat }: Grammar, { args, lists }: Scanned): void {
  for (const [key, flag] of Object.entries(flags)) {
    if (repeat.includes(key)) lists[key] ??= [];
    else args[key] ??= flag.default ?? (flag.type === "boolean" ? false : undefined);
    const empty = repeat.includes(key) ? lists[key]?.length === 0 : args[key] === undefined;
    // Help is asked for by people who don't know yet what is required.
    if (flag.required && empty && args["help"] !== true) refuse(`${name} needs --${flagName(key)}`);
  }
}

function told(word: string | undefined): string {
  return JSON.stringify(word ?? "");
}

function refuse(message: string): never {
  throw new LeaseError("usage", message);
}
