/**
 * Values as people write them, on a command line, in a line of JSON or in lease.toml: for each kind how it is read (a
 * valibot schema from text), what JSON may stand for it, what help calls it and where completions come from.
 *
 * A schema's message says what is wrong with the value and what would be right; `readValue` puts in front of it what the
 * value belongs to and what was given: `--lease "soon" is not a duration: write 500ms, 30s, 5m, 2h or 1d`.
 *
 * Every command loads all kinds, and needs few of them: a schema is made when it is first read with.
 */

import * as v from "valibot";
import { formatDuration, readDuration } from "./duration.ts";
import { LeaseError } from "./errors.ts";
import { once, type Made } from "./once.ts";
import { DEFAULT_BACKOFF, type Backoff, type ExitRange } from "./retry.ts";

/** Where names are asked of the store: jobs by id, also only those that have not ended, wait, or have ended. */
export const NAME_SOURCES = [
  "queues",
  "tasks",
  "keys",
  "ids",
  "live_ids",
  "waiting_ids",
  "finished_ids",
  "limits",
  "schedules",
] as const;
export type NameSource = (typeof NAME_SOURCES)[number];

/** Where the words come from that a shell can offer; `at_file` is `@FILE`. */
export type Completer = "none" | "files" | "folders" | "at_file" | "program" | NameSource;

export interface Value<T> {
  /** How help calls it. */
  readonly hint: string;
  readonly schema: Made<v.GenericSchema<string, T>>;
  /** From JSON, where that may be something else than text. */
  readonly json: Made<v.GenericSchema<unknown, T>>;
  readonly completer: Completer;
  /** What can be typed as it is, beside what the completer finds. */
  readonly words: readonly string[];
  /** Of a number or a size. */
  readonly range?: Readonly<Record<"min" | "max", number>>;
}

/** One of a few words. */
export interface Choice<T extends string> extends Value<T> {
  readonly options: readonly T[];
}

export function readValue<T>({ schema }: Pick<Value<T>, "schema">, given: string, name: string): T {
  return read(schema(), given, name);
}

export function readJson<T>({ json }: Pick<Value<T>, "json">, given: unknown, name: string): T {
  return read(json(), given, name);
}

function read<T>(schema: v.GenericSchema<unknown, T> | v.GenericSchema<string, T>, given: unknown, name: string): T {
  const checked = v.safeParse(schema, given, { abortEarly: true });
  if (checked.success) return checked.output;
  const [issue] = checked.issues;
  // A schema that fails is about what kind of thing was given, everything else about what it says.
  if (issue.kind === "schema") throw new LeaseError("usage", `${name} must be ${issue.message}`);
  const about = issue.input === null ? "" : `${JSON.stringify(issue.input)} `;
  throw new LeaseError("usage", `${name} ${about}${issue.message}`);
}

/** What a text means, or what is wrong with it; `about` is the part that is wrong, null where the problem names it. */
export type Parsed<T> = { value: T } | { problem: string; about?: string | null };

export function text<T>(parse: (text: string) => Parsed<T>): Made<v.GenericSchema<string, T>> {
  return once(() =>
    v.pipe(
      v.string("text"),
      v.rawTransform(({ dataset, addIssue, NEVER }) => {
        const parsed = parse(dataset.value);
        if ("value" in parsed) return parsed.value;
        addIssue({ message: parsed.problem, input: parsed.about === undefined ? dataset.value : parsed.about });
        return NEVER;
      }),
    ),
  );
}

const anyText = once(() => v.string("text"));
const numeral = once(() => v.union([v.string(), v.pipe(v.number(), v.transform(String))], "a number"));
export const numerals = once(() =>
  v.pipe(
    v.union([v.array(numeral()), numeral()], "a number, or a list of them"),
    v.transform((given) => (typeof given === "string" ? given : given.join(","))),
  ),
);

interface More<T> extends Partial<Omit<Value<T>, "hint" | "schema">> {
  /** What of JSON is read like text, unless `json` says it all. */
  from?: Made<v.GenericSchema<unknown, string>>;
}

export function kind<T>(hint: string, schema: Value<T>["schema"], more: More<T> = {}): Value<T> {
  const { from = anyText, ...rest } = more;
  return { hint, schema, json: once(() => v.pipe(from(), schema())), completer: "none", words: [], ...rest };
}

/** Any text; what it means is looked up elsewhere. */
export function textValue(hint: string, completer: Completer = "none"): Value<string> {
  return kind(hint, anyText, { completer });
}

/** For sh -c. */
export const LINE = kind(
  "LINE",
  text((given) => (given.trim() === "" ? { problem: "is empty: write the line to run" } : { value: given })),
);
export const QUEUE = textValue("NAME", "queues");
export const TASK = textValue("NAME", "tasks");
export const NAME = textValue("NAME");
export const KEY = textValue("KEY", "keys");
export const TEXT = textValue("TEXT");
export const FILE = textValue("FILE", "files");
export const FOLDER = textValue("FOLDER", "folders");
/** Of a store. */
export const LOCATION = textValue("PATH|URL", "files");

const INTEGER = /^[+-]?\d+$/;

export function integer(range: { min?: number; max?: number } = {}): Value<number> {
  const { min = Number.MIN_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER } = range;
  const upper = max === Number.MAX_SAFE_INTEGER ? "" : ` to ${max}`;
  const from = min === Number.MIN_SAFE_INTEGER ? "" : ` from ${min}${upper === "" ? " up" : upper}`;
  const parse = (given: string): Parsed<number> => {
    const value = INTEGER.test(given) ? Number(given) : Number.NaN;
    if (Number.isSafeInteger(value) && value >= min && value <= max) return { value };
    if (from === "" && !Number.isNaN(value)) return { problem: `is out of range: ${min} to ${max}` };
    return { problem: `is not a whole number${from}` };
  };
  return kind("N", text(parse), { from: numeral, range: { min, max } });
}

export const COUNT = integer({ min: 1 });
export const ID: Value<number> = { ...COUNT, hint: "ID", completer: "ids" };

function percent(given: string): Parsed<number> {
  const value = /^\d+(\.\d+)?%?$/.test(given) ? Number.parseFloat(given) : Number.NaN;
  return value >= 0 && value <= 100 ? { value } : { problem: "is not a percentage from 0 to 100" };
}

export const PERCENT = kind("PERCENT", text(percent), { from: numeral });

export function choice<const T extends string>(options: readonly T[]): Choice<T> {
  const schema = once(() => v.picklist(options, `one of ${options.join(", ")}`));
  return { ...kind<T>(options.join("|"), schema, { json: schema, words: options }), options };
}

/** A flag without a value; true or false elsewhere. */
export const SWITCH = kind(
  "",
  text((given) => ({ value: given === "true" })),
  { json: once(() => v.boolean("true or false")) },
);

const WORD_LIST = 'a list of words: ["echo", "hi"]';
/** Half a character has no bytes that a program could be given. */
const isWord = (given: unknown) => typeof given === "string" && given.isWellFormed();
const wordList = once(() => v.array(v.custom<string>(isWord, WORD_LIST), WORD_LIST));
const oneWord = text<readonly string[]>((given) => ({ value: [given] }));
/** A command line, word by word. */
export const WORDS = kind("WORDS", oneWord, { json: wordList, completer: "program" });

export const timeText = once(() => v.string('a time as text: "30s"'));

export const DURATION = kind("TIME", text(readDuration), { from: timeText });
/** How long ago. */
export const AGE: Value<number> = { ...DURATION, hint: "AGE" };

/** A duration, or a word that stands for something else. */
function durationOr<T>(special: string, meaning: T): Value<number | T> {
  const parse = (given: string) => (given === special ? { value: meaning } : readDuration(given));
  return kind(`TIME|${special}`, text<number | T>(parse), { from: timeText, words: [special] });
}

/** `auto` is learned from earlier runs. */
export const LEASE = durationOr("auto", "auto" as const);
function kept(given: string): Parsed<number | null> {
  if (given === "none") return { value: null };
  const value = INTEGER.test(given) ? Number(given) : Number.NaN;
  if (Number.isSafeInteger(value) && value >= 0) return { value };
  return { problem: "is not a whole number from 0 up, or none" };
}

/** `none` is null: nothing is ever thrown away. */
export const KEPT = kind("N|none", text(kept), { from: numeral, words: ["none"] });

/** `never` is for cancels: nothing is sent. */
export const GRACE = durationOr("never", "never" as const);

/** When somebody is to be told; null: never because of it. */
export interface AlertRules {
  /** A lease that has been over for longer, and that nobody has recovered. */
  stale_ms: number | null;
  /** A job that has been pending for longer. */
  oldest_ms: number | null;
  /** So many failed for good in the time. */
  failed: { count: number; within_ms: number } | null;
}

const ALERTS_PROBLEM = "is not a rule: write stale=5m, oldest=1h, failed=10/1h, or several with commas";

function alertRules(given: string): Parsed<AlertRules> {
  const rules: AlertRules = { stale_ms: null, oldest_ms: null, failed: null };
  for (const part of given.split(",")) {
    const [name, said = ""] = part.trim().split("=", 2);
    const [, count, time] = /^(?:(\d{1,9})\/)?(.+)$/.exec(said) ?? [];
    const duration = readDuration(time ?? "");
    if (!("value" in duration)) return { problem: ALERTS_PROBLEM, about: part };
    if (name === "failed" && Number(count) > 0) rules.failed = { count: Number(count), within_ms: duration.value };
    else if (name === "stale" && count === undefined) rules.stale_ms = duration.value;
    else if (name === "oldest" && count === undefined) rules.oldest_ms = duration.value;
    else return { problem: ALERTS_PROBLEM, about: part };
  }
  return { value: rules };
}

export const ALERTS = kind("RULES", text(alertRules), { words: ["stale=5m,oldest=1h,failed=10/1h"] });

export interface ListenAddress {
  host: string;
  port: number;
}

/** `127.0.0.1:9464`, `[::1]:9464`, `9464` on this machine alone, `:9464` on every address. */
function listenAddress(given: string): Parsed<ListenAddress> {
  const [, host, port] = /^(?:(\[[\da-f:.]+\]|[\w.-]*):)?(\d{1,5})$/i.exec(given.trim()) ?? [];
  if (port === undefined || Number(port) > 65_535) return { problem: "is not an address: write 127.0.0.1:9464" };
  const name = host === undefined ? "127.0.0.1" : host === "" ? "0.0.0.0" : host.replaceAll(/[[\]]/g, "");
  return { value: { host: name, port: Number(port) } };
}

export const ADDRESS = kind("HOST:PORT", text(listenAddress), { words: ["127.0.0.1:9464"] });

const BYTE_UNITS: Readonly<Record<string, number>> = { "": 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30, t: 2 ** 40 };

/** `4096`, `64k`, `16MiB`, `1g`. */
function bytes(given: string): number {
  const match = /^(\d+)\s*([kmgt]?)(?:i?b)?$/i.exec(given.trim());
  const unit = BYTE_UNITS[match?.[2]?.toLowerCase() ?? ""];
  return match === null || unit === undefined ? Number.NaN : Number(match[1]) * unit;
}

function bytesUpTo(given: string, [from, to]: [number, number], problem: string): Parsed<number> {
  const value = bytes(given);
  return Number.isSafeInteger(value) && value >= from && value <= to ? { value } : { problem };
}

const size = (given: string) => bytesUpTo(given, [0, 2 ** 30], "is not a size up to 1GiB: write 4096, 64k or 16MiB");
export const SIZE = kind("SIZE", text(size), { from: numeral, range: { min: 0, max: 2 ** 30 } });

/** Less than this no program starts with. */
const LEAST_MEMORY = 2 ** 20;
const memory = (given: string) =>
  bytesUpTo(given, [LEAST_MEMORY, 2 ** 50], "is not an amount of memory from 1MiB up: write 512M or 8G");
export const MEMORY = kind("SIZE", text(memory), { from: numeral, range: { min: LEAST_MEMORY, max: 2 ** 50 } });

const MOST_CPUS = 10_000;

/** `2`, `0.5`. */
function cpus(given: string): Parsed<number> {
  const value = /^\d+(\.\d+)?$/.test(given) ? Number(given) : Number.NaN;
  return value >= 0.01 && value <= MOST_CPUS ? { value } : { problem: "is not a number of processors: write 2 or 0.5" };
}

export const CPUS = kind("N", text(cpus), { from: numeral, range: { min: 0.01, max: MOST_CPUS } });

/** `9` or `9-12`: both ends; null when it is neither, or ends before it begins. */
export function ends(given: string, most_digits: number): ExitRange | null {
  const match = /^(\d+)(?:-(\d+))?$/.exec(given);
  const [, from = "", to = from] = match ?? [];
  const fits = match !== null && Math.max(from.length, to.length) <= most_digits && Number(from) <= Number(to);
  return fits ? [Number(from), Number(to)] : null;
}

/** `2,64-78`. */
function exitCodes(given: string): Parsed<ExitRange[]> {
  const value: ExitRange[] = [];
  for (const part of given.split(",")) {
    const codes = ends(part.trim(), 3);
    if (codes === null || codes[1] > 255) {
      return { problem: "is not a list of exit codes: write 2,64-78 (0 to 255)" };
    }
    value.push(codes);
  }
  return { value };
}

export const EXIT_RANGES = kind<readonly ExitRange[]>("CODES", text(exitCodes), { from: numerals });

export const MOST_IDS = 1_000_000;

const NOT_AN_ID = "is not a job id: write 7, or 9-12 for a range";

/** `7,9-12`, also with spaces. */
function ids(given: string): Parsed<number[]> {
  const found = new Set<number>();
  for (const part of given.split(/[,\s]/).filter((item) => item !== "")) {
    const [from, to] = ends(part, 15) ?? [0, 0];
    if (from < 1) return { problem: NOT_AN_ID, about: part };
    if (to - from + found.size >= MOST_IDS)
      return { problem: `is more than ${MOST_IDS} jobs at once: write smaller ranges`, about: part };
    for (let id = from; id <= to; id++) found.add(id);
  }
  if (found.size === 0) return { problem: "names no job: write 7, or 9-12 for a range" };
  return { value: [...found] };
}

export const IDS = kind("IDS", text(ids), { from: numerals, completer: "ids" });

/** Of jobs to wait for, where somebody may have thought of a time to wait. */
function parents(given: string): Parsed<number[]> {
  const found = ids(given);
  if (!("about" in found) || typeof found.about !== "string" || !("value" in readDuration(found.about))) return found;
  return { ...found, problem: `${found.problem}; not before a time is --delay ${found.about}` };
}

export const PARENTS = kind("IDS", text(parents), { from: numerals, completer: "ids" });

/** `5s` (doubling from there), `1s..10m` (doubling, with a longest), `fixed:30s`, `none`. */
function backoff(given: string): Parsed<Backoff> {
  if (given === "none" || given === "0") return { value: { ...DEFAULT_BACKOFF, first_ms: 0, max_ms: 0 } };
  const fixed = given.startsWith("fixed:");
  const [first = "", most, ...more] = fixed ? [given.slice("fixed:".length)] : given.split("..");
  if (more.length > 0) return { problem: "has more than two ends: write 1s..10m" };
  const begin = readDuration(first);
  if ("problem" in begin && /\d/.test(first)) return begin;
  if ("problem" in begin) return { problem: "is not a backoff: write 5s, 1s..10m, fixed:30s or none" };
  const first_ms = begin.value;
  if (fixed) return { value: { ...DEFAULT_BACKOFF, first_ms, max_ms: first_ms, factor: 1 } };
  const end = most === undefined ? { value: Math.max(DEFAULT_BACKOFF.max_ms, first_ms) } : readDuration(most);
  if ("problem" in end) return end;
  if (end.value >= first_ms) return { value: { ...DEFAULT_BACKOFF, first_ms, max_ms: end.value } };
  const [from, to] = [formatDuration(first_ms), formatDuration(end.value)];
  return { problem: `begins above its end: ${from} is more than ${to}` };
}

export const BACKOFF = kind("TIMES", text(backoff), { from: timeText });

/** A variable by name: with its value, or (null) as it is where the job is made. */
export type Variables = Readonly<Record<string, string | null>>;

/** `A,B=1`: A as it is now, B as given; `\,` is a comma in a value. */
function variables(given: string): Parsed<Variables> {
  const value: Record<string, string | null> = {};
  for (const part of given.split(/(?<!\\),/).filter((item) => item !== "")) {
    const equals = part.indexOf("=");
    const key = equals === -1 ? part : part.slice(0, equals);
    if (!/^[A-Za-z_]\w*$/.test(key)) {
      const comma = given.includes(`,${key}`) ? String.raw`; a comma inside a value is written \,` : "";
      return { problem: `is not a variable's name${comma}`, about: key };
    }
    value[key] = equals === -1 ? null : part.slice(equals + 1).replaceAll(String.raw`\,`, ",");
  }
  return { value };
}

const variablesText = text(variables);
const MAP = 'variables and their texts, {"A": "1"}, or a text as for --env';
const variableMap = once(() =>
  v.pipe(
    v.custom<object>((given) => typeof given === "object" && given !== null && !Array.isArray(given), MAP),
    v.record(v.string(), v.string(MAP), MAP),
  ),
);

// Not a union: that would say what it takes instead of what is wrong with the text.
const variablesJson = once(() => v.lazy((given) => (typeof given === "string" ? variablesText() : variableMap())));
export const ENV: Value<Variables> = kind("A,B=1", variablesText, { json: variablesJson });

const MOMENT = /^\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[Zz]|[+-]\d\d:\d\d)?)?$/;

/** A moment, or how long before now: known when it is asked for. */
export type Since = (now_ms: number) => number;

/** `2h` before now, or a moment in RFC 3339; one without a zone, or a day alone, is meant as the clock on the wall. */
function since(given: string): Parsed<Since> {
  const trimmed = given.trim();
  if (!/^\d{4}-/.test(trimmed)) {
    const ago = readDuration(given);
    return "value" in ago ? { value: (now_ms) => now_ms - ago.value } : ago;
  }
  const at_ms = MOMENT.test(trimmed) ? Date.parse(trimmed.length === 10 ? `${trimmed}T00:00` : trimmed) : Number.NaN;
  if (Number.isFinite(at_ms)) return { value: () => at_ms };
  return { problem: "is not a moment: write 2h, or 2026-03-01T09:30:00Z" };
}

export const SINCE = kind("TIME", text(since));

/** Ids and ranges as words: `7 9-12`; none at all is none. */
export function readIds(words: readonly string[], name: string): number[] {
  return words.length === 0 ? [] : readValue(IDS, words.join(","), name);
}
