/**
 * One line of JSON → a job. The names are those of a job's JSON and of the flags (`retry_on` for `--retry-on`); a value
 * is what the flag takes, as text, or the JSON that says the same (a number, a list of ids, an object of variables).
 * What a line leaves out, or has as null, is as in `defaults`. Unknown names are refused.
 */

import { resolve } from "node:path";
import { parseDuration } from "../core/duration.ts";
import { LeaseError, errorText } from "../core/errors.ts";
import { BEATS } from "../core/job.ts";
import type { JobSettings, NewJob } from "../core/job.ts";
import { nearest } from "../core/nearest.ts";
import { checkNewJob } from "../core/check_job.ts";
import { parseAt } from "./at.ts";
import { parseBackoff, parseBytes, parseEnv, parseExitRanges, parseIds, parseInteger, parseLease } from "./values.ts";

export interface LineContext {
  /** What the command line said. */
  defaults: NewJob;
  /** What a relative folder is relative to. */
  folder: string;
  env: Readonly<Record<string, string | undefined>>;
  now_ms: number;
  /** Reads the file of an input `@FILE`; `name` is for errors. */
  readInput: (path: string, name: string) => Uint8Array;
}

interface Draft extends Writable<NewJob> {
  settings: Writable<JobSettings>;
}
type Writable<T> = { -readonly [K in keyof T]: T[K] };

/** Takes a value that is not null over into the draft, or throws what is wrong with it. */
type Field = (draft: Draft, value: unknown, context: LineContext) => void;

const encoder = new TextEncoder();

const FIELDS: ReadonlyMap<string, Field> = new Map<string, Field>([
  ["argv", (draft, value) => (draft.argv = isWords(value) ? value : wrong("argv", 'a list of words: ["echo", "hi"]'))],
  ["shell", (draft, value) => (draft.argv = ["sh", "-c", shellLine(value)])],
  ["queue", (draft, value) => (draft.queue = text("queue", value))],
  ["task", (draft, value) => (draft.task = text("task", value))],
  ["key", (draft, value) => (draft.key = text("key", value))],
  ["if_exists", (draft, value) => (draft.if_exists = choice("if_exists", value, ["skip", "fail", "replace"]))],
  ["priority", (draft, value) => (draft.priority = integer("priority", value))],
  ["input", (draft, value, context) => (draft.input = inputOf(text("input", value), context))],
  ["cwd", (draft, value, { folder }) => (draft.cwd = resolve(folder, text("cwd", value)))],
  ["env", (draft, value, { env, defaults }) => (draft.env = { ...defaults.env, ...variables(value, env) })],
  ["delay", (draft, value) => (draft.delay_ms = parseDuration(duration("delay", value), "delay"))],
  ["at", (draft, value, { now_ms }) => (draft.run_at_ms = parseAt(text("at", value), "at", now_ms))],
  ["after", (draft, value) => (draft.after = ids("after", value))],
  ["after_any", (draft, value) => (draft.after_any = ids("after_any", value))],
  ["retries", set("retries", (value) => integer("retries", value, { min: 0, max: 1_000_000 }))],
  ["backoff", set("backoff", (value) => parseBackoff(duration("backoff", value), "backoff"))],
  ["retry_on", set("retry_on", (value) => choice("retry_on", value, ["any", "lost"]))],
  ["fatal_exit", set("fatal_exit", (value) => parseExitRanges(list("fatal_exit", value), "fatal_exit"))],
  ["timeout", set("timeout_ms", (value) => parseDuration(duration("timeout", value), "timeout"))],
  ["lease", set("lease_ms", (value) => parseLease(duration("lease", value), "lease"))],
  ["beat", set("beat", (value) => choice("beat", value, BEATS))],
  ["pty", set("pty", (value) => (typeof value === "boolean" ? value : wrong("pty", "true or false")))],
  ["log_limit", set("log_limit_bytes", (value) => parseBytes(numeral("log_limit", value), "log_limit"))],
  ["output_limit", set("output_limit_bytes", (value) => parseBytes(numeral("output_limit", value), "output_limit"))],
]);

/** The job that a line describes, checked. */
export function jobOfLine(line: string, context: LineContext): NewJob {
  const { defaults } = context;
  const object = parsed(line);
  const draft = { ...defaults } as Draft;
  for (const name in object) {
    const field = FIELDS.get(name) ?? unknown(name);
    const value = object[name];
    if (value === null) continue;
    if (SETTINGS.has(name) && draft.settings === defaults.settings) draft.settings = { ...defaults.settings };
    field(draft, value, context);
  }
  if (has(object, "argv") && has(object, "shell")) refuse("argv and shell both say what to run: give one of them");
  if (has(object, "at") && has(object, "delay")) refuse("at and delay both say when: give one of them");
  // The last word on when is the line's, whichever way it says it.
  if (has(object, "at")) draft.delay_ms = 0;
  if (has(object, "delay")) draft.run_at_ms = null;
  if (has(object, "if_exists") && draft.key === null)
    refuse("if_exists says what to do about a key: give that as well");
  checkNewJob(draft);
  return draft;
}

const SETTINGS: ReadonlySet<string> = new Set([
  "retries",
  "backoff",
  "retry_on",
  "fatal_exit",
  "timeout",
  "lease",
  "beat",
  "pty",
  "log_limit",
  "output_limit",
]);

function set<K extends keyof JobSettings>(name: K, read: (value: unknown) => JobSettings[K]): Field {
  return (draft, value) => {
    draft.settings[name] = read(value) as Draft["settings"][K];
  };
}

function parsed(line: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    refuse(`this is not JSON: ${errorText(error).replace(/^JSON Parse error: /, "")}`);
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  return refuse('a line is one JSON object: {"argv": ["echo", "hi"]}');
}

function unknown(name: string): never {
  const names = [...FIELDS.keys()];
  const meant = nearest(name, names);
  return refuse(
    `there is no name ${JSON.stringify(name)}; ${meant === null ? `use ${names.join(", ")}` : `did you mean ${meant}?`}`,
  );
}

function has(object: Record<string, unknown>, name: string): boolean {
  return object[name] !== undefined && object[name] !== null;
}

function isWords(value: unknown): value is string[] {
  // Half a character has no bytes that a program could be given.
  return Array.isArray(value) && value.every((word) => typeof word === "string" && word.isWellFormed());
}

function text(name: string, value: unknown): string {
  return typeof value === "string" ? value : wrong(name, "text");
}

function duration(name: string, value: unknown): string {
  return typeof value === "string" ? value : wrong(name, 'a time as text: "30s"');
}

/** Numbers and lists of them as the flag would have them. */
function list(name: string, value: unknown): string {
  return Array.isArray(value) ? value.map((item) => numeral(name, item)).join(",") : numeral(name, value);
}

function numeral(name: string, value: unknown): string {
  return typeof value === "number" ? String(value) : typeof value === "string" ? value : wrong(name, "a number");
}

function ids(name: string, value: unknown): number[] {
  return parseIds([list(name, value)], name);
}

function integer(name: string, value: unknown, range: { min?: number; max?: number } = {}): number {
  return parseInteger(numeral(name, value), name, range);
}

function choice<T extends string>(name: string, value: unknown, options: readonly T[]): T {
  return options.find((option) => option === value) ?? wrong(name, `one of ${options.join(", ")}`);
}

function shellLine(value: unknown): string {
  const line = text("shell", value);
  return line.trim() === "" ? refuse("shell is empty: write the line to run") : line;
}

function variables(value: unknown, env: LineContext["env"]): Record<string, string> {
  if (typeof value === "string") return parseEnv(value, "env", env);
  const isMap = typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isMap || Object.values(value).some((item) => typeof item !== "string")) {
    return wrong("env", 'variables and their texts, {"A": "1"}, or a text as for --env');
  }
  return value as Record<string, string>;
}

function inputOf(input: string, { folder, readInput }: LineContext): Uint8Array {
  if (!input.startsWith("@")) return encoder.encode(input);
  if (input.startsWith("@@")) return encoder.encode(input.slice(1));
  return readInput(resolve(folder, input.slice(1)), `input ${input}`);
}

function wrong(name: string, expected: string): never {
  return refuse(`${name} must be ${expected}`);
}

function refuse(message: string): never {
  throw new LeaseError("usage", message);
}
