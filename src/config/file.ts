/**
 * lease.toml → settings, or one line that names the file, the key and what was expected. Loaded only where there is a
 * file: a start without one must not pay for the parser.
 *
 * The file decides which store is used, and by that what gets executed. So one that others can write is refused, and so
 * is one that belongs to somebody else, unless it was named: then whoever named it has decided whom to trust.
 */

import { lstatSync, readFileSync, statSync } from "node:fs";
import type { Stats } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import process from "node:process";
import { parse, TomlError } from "smol-toml";
import { errorText, LeaseError } from "../core/errors.ts";
import { nonEmpty, type Env, type FoundConfig } from "./location.ts";
import { checkShape, type ConfigTables, type SettingValue } from "./schema.ts";
import { COMMAND_SETTINGS, SHARED_SETTINGS, type SettingKind } from "./settings.ts";

/** Nobody writes this much by hand. */
const LIMIT_BYTES = 1024 * 1024;

export interface Config {
  path: string;
  /** The value of a setting, of a command's table or (null) from the top of the file. */
  value: (command: string | null, key: string) => SettingValue | undefined;
}

export function readConfig(found: FoundConfig, env: Env): Config {
  const { path } = found;
  refuseUntrusted(found);
  const checked = checkShape(parseToml(path, readText(path)));
  if ("problem" in checked) throw invalid(`${path}: ${checked.problem}`);
  const { settings } = checked;
  const value = (command: string | null, key: string) => {
    const [given, kind] = lookUp(settings, command, key);
    return typeof given === "string" && kind !== undefined ? located(given, kind, path, env) : given;
  };
  return { path, value };
}

function lookUp(
  settings: ConfigTables,
  command: string | null,
  key: string,
): [SettingValue | undefined, SettingKind | undefined] {
  const shared: Readonly<Record<string, SettingKind>> = SHARED_SETTINGS;
  const own = <T>(record: Readonly<Record<string, T>>, name: string) =>
    Object.hasOwn(record, name) ? record[name] : undefined;
  const table = command === null ? settings : ((own(settings, command) ?? {}) as ConfigTables);
  const kind = command === null ? shared[key] : COMMAND_SETTINGS[command]?.[key];
  return [own(table, key) as SettingValue | undefined, kind];
}

/** A file is meant from where lease.toml is, whatever the working folder; `~` because no shell has seen it. */
function located(value: string, kind: SettingKind, path: string, env: Env): string {
  if ((kind !== "path" && kind !== "place") || value.includes("://")) return value;
  const home = nonEmpty(env["HOME"]);
  if (home !== undefined && /^~(?:\/|$)/.test(value)) return join(home, value.slice(1));
  if (isAbsolute(value)) return value;
  const folder = dirname(path);
  return folder === "." ? value : resolve(folder, value);
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
