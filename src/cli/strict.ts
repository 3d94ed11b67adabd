/**
 * A citty plugin: nothing on a command line is guessed. An unknown flag, a missing value, a value too many, a flag given
 * twice, a word where none is taken are refused with one line that says what is wrong, and often what was meant.
 *
 *     --name value   --name=value   -q value   -qvalue   -q=value   -fv (grouped booleans)   --no-name   --
 *
 * A value that begins with `-` needs the form with `=`, unless it is a negative number or `-` alone. What follows the
 * flags (see RestMode) comes back verbatim. The words are taken apart by node:util; here it is decided what they mean.
 * Loading that takes a tenth of the time of an enqueue, so a line that is plain is read by quick_words.ts, to the same end.
 */

import { defineCittyPlugin } from "citty";
import type { parseArgs } from "node:util";
import { LeaseError } from "../core/errors.ts";
import { nearest } from "../core/nearest.ts";
import { lazyUtil } from "../platform/platform.ts";
import type { PluginContext, RestMode } from "./command.ts";
import { aliasesOf, flagName, type FlagDef, type FlagsDef } from "./flags.ts";
import { looksLikeFlag, partsOf, put, quickWords, withDefaults } from "./quick_words.ts";

export interface Grammar {
  /** `name` is how messages call the command. */
  meta: { name: string; flags_of?: string };
  flags: FlagsDef;
  repeat: readonly string[];
  rest: RestMode;
}

export interface ParsedLine {
  /** Texts, until they are read. */
  args: Record<string, unknown>;
  /** Values of repeatable flags. */
  lists: Record<string, string[]>;
  rest: string[];
  /** How many words of `rest` stand before `--`; null: there is none. */
  before_dashes: number | null;
  /** The flags that were on the line, each as it was written there. */
  given: Map<string, string>;
}

export const strictFlags = defineCittyPlugin({
  name: "strict flags",
  setup(context) {
    const { cmd, rawArgs } = context as PluginContext;
    Object.assign(context, parseOrHelp({ ...cmd, meta: { ...cmd.meta, name: `lease ${cmd.meta.name}` } }, rawArgs));
  },
});

/** Whoever asks for help gets it, even if the rest of the line is wrong. */
export function parseOrHelp(grammar: Grammar, raw: readonly string[]): ParsedLine {
  try {
    return parseLine(grammar, raw);
  } catch (error) {
    const end = raw.indexOf("--");
    const flags = end === -1 ? raw : raw.slice(0, end);
    if (!flags.includes("--help") && !flags.includes("-h")) throw error;
    return parseLine(grammar, ["--help"]);
  }
}

/** One way to write a flag on the command line. */
interface Spelling {
  key: string;
  flag: FlagDef;
  negative: boolean;
}

/** Every way to write every flag: `--queue`, `-q`, `--no-sweep`. */
export function spell(flags: FlagsDef): Map<string, Spelling> {
  const spellings = new Map<string, Spelling>();
  for (const [key, flag] of Object.entries(flags)) {
    spellings.set(`--${flagName(key)}`, { key, flag, negative: false });
    for (const alias of aliasesOf(flag)) spellings.set(`-${alias}`, { key, flag, negative: false });
    if (flag.type === "boolean" && flag.negativeDescription !== undefined) {
      spellings.set(`--no-${flagName(key)}`, { key, flag, negative: true });
    }
  }
  return spellings;
}

type Tokens = NonNullable<ReturnType<typeof parseArgs>["tokens"]>;
type OptionToken = Extract<Tokens[number], { kind: "option" }>;

function tokensOf(flags: FlagsDef, raw: readonly string[]): Tokens {
  const options = Object.entries(flags).map(([key, flag]) => {
    const [short] = aliasesOf(flag);
    const type = flag.type === "boolean" ? ("boolean" as const) : ("string" as const);
    return [flagName(key), { type, ...(short === undefined ? {} : { short }) }] as const;
  });
  const lenient = { strict: false, allowPositionals: true, tokens: true } as const;
  return lazyUtil().parseArgs({ args: [...raw], options: Object.fromEntries(options), ...lenient }).tokens;
}

export function parseLine(grammar: Grammar, raw: readonly string[]): ParsedLine {
  return quickWords({ ...grammar, names: Object.keys(grammar.flags) }, raw) ?? strictLine(grammar, raw);
}

/** The same, of any line. */
export function strictLine(grammar: Grammar, raw: readonly string[]): ParsedLine {
  const { meta, flags, rest } = grammar;
  const line: ParsedLine = { args: {}, lists: {}, rest: [], before_dashes: null, given: new Map() };
  const spellings = spell(flags);
  /** How many flags of the same word, a group, have been looked at. */
  let [word_index, in_word] = [-1, 0];
  for (const token of tokensOf(flags, raw)) {
    if (token.kind === "option") {
      in_word = token.index === word_index ? in_word + 1 : 0;
      word_index = token.index;
      take(grammar, line, readFlag(grammar, spellings, { token, word: raw[word_index] ?? "", in_word }));
    } else {
      const last = token.kind === "option-terminator" || rest === "command";
      const words = last ? raw.slice(token.index + (token.kind === "positional" ? 0 : 1)) : [token.value];
      if (rest === "handler" && token.kind === "positional") refuse(strayWord(grammar, token.value, raw));
      if (rest === "none" && words.length > 0) refuse(`${meta.name} takes no words, and got ${told(words[0])}`);
      if (token.kind === "option-terminator") line.before_dashes = line.rest.length;
      line.rest.push(...words);
      if (last) break;
    }
  }
  return withDefaults(grammar, line);
}

/** A word before the `--` of a worker: most often the name of a queue, or a handler. */
function strayWord({ meta }: Grammar, word: string, raw: readonly string[]): string {
  const refused = `${meta.name} takes no words before --`;
  if (word.includes("/")) return `${refused}; a handler goes behind it: ${meta.name} -- ${word}`;
  const handler = raw.includes("--") ? "" : ` Or a handler goes behind --: ${meta.name} -- ${word}`;
  return `${refused}; did you mean -q ${word}?${handler}`;
}

interface Written {
  token: OptionToken;
  /** The word that it is written in, and how many flags of a group stand before it there. */
  word: string;
  in_word: number;
}

type ReadFlag = ReturnType<typeof readFlag>;

function readFlag(grammar: Grammar, spellings: ReadonlyMap<string, Spelling>, { token, word, in_word }: Written) {
  const { rawName: written } = token;
  const short = !word.startsWith("--");
  // `-queue` would be `-q ueue`; nobody means that.
  if (short && in_word === 0 && word.length > 2 && spellings.has(`-${word}`)) {
    refuse(`unknown flag ${word}; did you mean -${word}?`);
  }
  const { key, flag, negative } = spellings.get(written) ?? unknown(grammar, short && in_word === 0 ? word : written);
  if (flag.type !== "boolean") return { key, flag, written, value: valueOf(token, short) };
  const attached = short && word[in_word + 2] === "=" ? word.slice(in_word + 3) : token.value;
  if (attached !== undefined) refuse(`${written} takes no value, and got ${told(attached)}`);
  return { key, flag, written, value: !negative };
}

function valueOf({ rawName: written, value, inlineValue }: OptionToken, short: boolean): string {
  if (value === undefined || (value === "--" && !inlineValue)) return refuse(`${written} needs a value`);
  if (inlineValue) return short && value.startsWith("=") ? value.slice(1) : value;
  if (looksLikeFlag(value)) {
    refuse(`${written} needs a value, and ${value} looks like a flag; if it is the value, write ${written}=${value}`);
  }
  return value;
}

function take(grammar: Grammar, line: ParsedLine, { key, flag, written, value }: ReadFlag): void {
  if (put(grammar, line, { key, flag, written }, value)) return;
  const repeatable = grammar.repeat.includes(key);
  if (line.given.has(key) && !repeatable) refuse(`${written} is given twice; it can be given once`);
  if (flag.type === "enum")
    for (const part of partsOf(flag, repeatable, String(value))) option(written, flag.options, part);
}

/** What other queues call a state. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  ...Object.fromEntries(["done", "finished", "success", "succeeded", "ok"].map((word) => [word, "completed"])),
  ...Object.fromEntries(["error", "errored", "discarded", "dead-letter"].map((word) => [word, "failed"])),
  ...Object.fromEntries(["queued", "waiting", "ready", "available"].map((word) => [word, "pending"])),
  ...Object.fromEntries(["killed", "aborted"].map((word) => [word, "cancelled"])),
  ...Object.fromEntries(["active", "executing", "started"].map((word) => [word, "running"])),
  ...Object.fromEntries(["delayed", "future"].map((word) => [word, "scheduled"])),
};

function stateMeant(word: string): string {
  const lower = word.toLowerCase();
  return Object.hasOwn(ELSEWHERE, lower) ? (ELSEWHERE[lower] ?? word) : word;
}

/** `value` if it is one of them; `written` is how the error calls the flag. */
export function option(written: string, options: readonly string[], value: string): string {
  if (options.includes(value)) return value;
  const meant = nearest(stateMeant(value), options);
  const hint = meant === null ? `use ${options.join(", ")}` : `did you mean ${meant}?`;
  return refuse(`${written} can't be ${told(value)}; ${hint}`);
}

/** What other tools call a flag, without dashes; whichever of ours a command has is meant. */
const FLAGS_ELSEWHERE: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(
    ["n", "w", "P", "concurrency", "workers", "jobs", "parallel"].map((word) => [word, ["slots", "limit"]]),
  ),
  ...Object.fromEntries(["retry", "max-retries", "attempts", "tries"].map((word) => [word, ["retries"]])),
  ...Object.fromEntries(["head", "tail", "last", "count"].map((word) => [word, ["lines", "limit"]])),
  ...Object.fromEntries(["in", "wait", "sleep"].map((word) => [word, ["delay"]])),
  ...Object.fromEntries(["grep", "search", "filter"].map((word) => [word, ["match"]])),
  ...Object.fromEntries(["label", "tag", "group", "name"].map((word) => [word, ["task"]])),
  ...Object.fromEntries(["cwd", "dir", "workdir", "chdir"].map((word) => [word, ["cwd"]])),
  ...Object.fromEntries(["depends-on", "dependency", "needs"].map((word) => [word, ["after"]])),
};

/** What does it where a command has no such flag, by its command and the flag without dashes. */
const INSTEAD: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "lease cancel": {
    all: "all that have not ended are lease cancel --status pending,scheduled,retrying,blocked,running",
  },
  "lease retry": { all: "all that failed are lease retry --status failed" },
  "lease wait": { all: "all jobs of a queue are lease wait --queue NAME" },
  "lease inspect": {
    all: "jobs in every state are listed already; --limit 1000 shows more of them. Of workers, those that have ended are --status stopped,dead",
  },
  "lease logs": {
    task: "lease logs takes ids; lease ls --task NAME lists them",
    queue: "lease logs takes ids; lease ls --queue NAME lists them",
  },
};
const LETTERS: Readonly<Record<string, string>> = { a: "all", t: "task", q: "queue" };

/** The flag of ours that somebody means by another's word, as it is to be written; null: none. */
function elsewhere(flags: FlagsDef, word: string): string | null {
  const { status } = flags;
  const state = stateMeant(word);
  if (status?.type === "enum" && status.options.includes(state)) return `--status ${state}`;
  const ours = Object.hasOwn(FLAGS_ELSEWHERE, word) ? FLAGS_ELSEWHERE[word] : undefined;
  const key = ours?.find((name) => Object.hasOwn(flags, name));
  return key === undefined ? null : `--${flagName(key)}`;
}

function unknown({ meta, flags }: Grammar, written: string): never {
  // Compared without dashes: they are in every flag, and make short ones look alike.
  const long = [...spell(flags).keys()].flatMap((spelling) => (spelling.startsWith("--") ? [spelling.slice(2)] : []));
  const word = written.replace(/^-+/, "");
  const instead = INSTEAD[meta.name] ?? {};
  const long_word = LETTERS[word] ?? word;
  if (Object.hasOwn(instead, long_word)) refuse(`unknown flag ${written}; ${instead[long_word]}`);
  const other = elsewhere(flags, word);
  if (other !== null) refuse(`unknown flag ${written}; did you mean ${other}?`);
  if ((word === "cron" || word === "every") && Object.hasOwn(flags, "delay")) {
    refuse(`unknown flag ${written}; again and again is lease schedule NAME ${written} … -- COMMAND`);
  }
  const meant = nearest(word, long);
  const behind = `flags of ${meta.flags_of} go behind --: ${meta.name} -- ${written} …`;
  const nowhere = meta.flags_of === undefined ? `see ${meta.name} --help` : behind;
  const hint = meant === null ? nowhere : `did you mean --${meant}?`;
  return refuse(`unknown flag ${written}; ${hint}`);
}

function told(word: string | undefined): string {
  return JSON.stringify(word ?? "");
}

function refuse(message: string): never {
  throw new LeaseError("usage", message);
}
