/**
 * lease.toml → settings, or one line that names the file, the key and what was expected. Loaded only where there is a
 * file: a start without one must not pay for the parser. Checked are the shapes that the table of settings asks for:
 * what a text means is decided where the flag is read, so that file and flag can't disagree.
 *
 * The file decides which store is used, and by that what gets executed. So one that others can write is refused, and so
 * is one that belongs to somebody else, unless it was named: then whoever named it has decided whom to trust.
 */

import { lstatSync, readFileSync, statSync } from "node:fs";
import type { Stats } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import process from "node:process";
import { parse, TomlError } from "smol-toml";
import * as v from "valibot";
import { errorText, LeaseError } from "../core/errors.ts";
import { nearest } from "../core/nearest.ts";
import { nonEmpty, type Env, type FoundConfig } from "./location.ts";
import { COMMAND_SETTINGS } from "./command_settings.ts";
import { SHARED_SETTINGS, type SettingKind, type Table } from "./settings.ts";

/** Nobody writes this much by hand. */
const LIMIT_BYTES = 1024 * 1024;

type SettingValue = string | boolean | string[];

export interface Config {
  path: string;
  /** The value of a setting, of a command's table or (null) from the top of the file. */
  value: (command: string | null, key: string) => SettingValue | undefined;
}

export function readConfig(found: FoundConfig, env: Env): Config {
  const { path } = found;
  refuseUntrusted(found);
  const settings = checkShape(path, parseToml(path, readText(path)));
  const value = (command: string | null, key: string) => {
    const given = own(command === null ? settings : own(settings, command), key) as SettingValue | undefined;
    const kinds: Table | undefined = command === null ? SHARED_SETTINGS : COMMAND_SETTINGS[command];
    const is_file = kinds?.[key] === "path" || kinds?.[key] === "place";
    return is_file && typeof given === "string" ? located(given, path, env) : given;
  };
  return { path, value };
}

/** Not what every object has by that name. */
function own(values: unknown, key: string): unknown {
  return Object.hasOwn(values ?? {}, key) ? (values as Record<string, unknown>)[key] : undefined;
}

/** A file is meant from where lease.toml is, whatever the working folder; `~` because no shell has seen it. */
function located(value: string, path: string, env: Env): string {
  if (value.includes("://")) return value;
  const home = nonEmpty(env["HOME"]);
  if (home !== undefined && /^~(?:\/|$)/.test(value)) return join(home, value.slice(1));
  const folder = dirname(path);
  return isAbsolute(value) || folder === "." ? value : resolve(folder, value);
}

function readText(path: string): string {
  let bytes: Uint8Array;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    throw invalid(`${path} can't be read: ${errorText(error)}`);
  }
  if (bytes.length > LIMIT_BYTES) throw invalid(`${path} has more than 1 MiB, which can't be settings`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw invalid(`${path} is not valid UTF-8: save it as such`);
  }
}

function parseToml(path: string, text: string): unknown {
  try {
    return parse(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const [first = ""] = error.message.split("\n");
    const what = first.replace(/^Invalid TOML document: /, "");
    throw invalid(`${path}:${error.line}:${error.column}: ${what}`);
  }
}

const KINDS = {
  text: v.pipe(
    v.union([v.string(), v.number()], "is not a text or a number"),
    v.check((value) => typeof value === "string" || Number.isFinite(value), "is not a finite number"),
    v.transform(String),
  ),
  path: v.pipe(v.string("is not the name of a file"), v.nonEmpty("is empty")),
  place: v.pipe(v.string("is not the name of a file or an address"), v.nonEmpty("is empty")),
  switch: v.boolean("is not true or false"),
  list: v.pipe(
    v.union([v.array(v.string()), v.string()], 'is not a list of texts, such as ["a", "b"]'),
    v.transform((given) => (typeof given === "string" ? [given] : given)),
  ),
} as const satisfies Record<SettingKind, v.GenericSchema>;

const optional = (settings: Table) =>
  Object.entries(settings).map(([key, kind]) => [key, v.optional(KINDS[kind])] as const);

function table(entries: readonly (readonly [string, v.GenericSchema])[]) {
  // Without a prototype: valibot asks for keys with `in`, and would let `constructor` pass.
  const own_entries: v.ObjectEntries = Object.assign(Object.create(null), Object.fromEntries(entries));
  return v.strictObject(own_entries, "is not a table");
}

const SCHEMA = table([
  ...optional(SHARED_SETTINGS),
  ...Object.entries(COMMAND_SETTINGS).map(([name, settings]) => [name, v.optional(table(optional(settings)))] as const),
]);

/** The settings; what is wrong with the first that is wrong is an error. */
function checkShape(path: string, document: unknown): object {
  const checked = v.safeParse(SCHEMA, document, { abortEarly: true });
  if (checked.success) return checked.output;
  const [issue] = checked.issues;
  const keys = issue.path?.map(({ key }) => String(key)) ?? [];
  if (issue.type === "strict_object" && issue.expected === "never") throw invalid(`${path}: ${unknownKey(keys)}`);
  const value = issue.path?.at(-1)?.value;
  const told = typeof value === "number" ? String(value) : JSON.stringify(value);
  throw invalid(`${path}: ${keys.join(".")} ${told} ${issue.message}`);
}

function unknownKey(path: readonly string[]): string {
  const key = path.at(-1) ?? "";
  const at_top = path.length === 1;
  const known = Object.keys(
    at_top ? { ...SHARED_SETTINGS, ...COMMAND_SETTINGS } : (COMMAND_SETTINGS[path[0] ?? ""] ?? {}),
  );
  const told = `${path.join(".")} is not a setting`;
  if (key === "trust_store") return `${told}: a file can't ask to be trusted, pass --trust-store where you mean it`;
  const meant = nearest(key, known);
  if (meant !== null) return `${told}; did you mean ${[...path.slice(0, -1), meant].join(".")}?`;
  const home = Object.keys(COMMAND_SETTINGS).find((name) => Object.hasOwn(COMMAND_SETTINGS[name] ?? {}, key));
  if (at_top && home !== undefined) return `${told}; did you mean ${home}.${key}?`;
  return `${told}; there are ${known.join(", ")}`;
}

function refuseUntrusted({ path, named }: FoundConfig): void {
  const file = statSync(path);
  if (file.isDirectory() || (!named && !file.isFile())) throw invalid(`${path} is not a file: name one with --config`);
  // What is not a file (/dev/null, a pipe from the shell) was named, and its mode says nothing about who writes it.
  if (!file.isFile()) return;
  if ((file.mode & 0o022) !== 0) {
    throw untrusted(`${path} can be written by others`, `chmod go-w ${path}`);
  }
  // A link is as good as the file: whoever laid it chose what is read.
  if (!named && [file, lstatSync(path)].some(isForeign)) {
    throw untrusted(
      `${path} belongs to another user`,
      `pass --config ${path} if you trust them, or --config /dev/null to go without`,
    );
  }
}

function isForeign({ uid }: Stats): boolean {
  const own_uid = process.getuid?.();
  return own_uid !== undefined && uid !== own_uid && uid !== 0;
}

function untrusted(what: string, advice: string): LeaseError {
  return invalid(`${what}, and it decides which store is used and so what gets executed: ${advice}`);
}

function invalid(message: string): LeaseError {
  return new LeaseError("invalid_config", message);
}
