/**
 * A citty plugin: flags that were not given, from the environment and from lease.toml: flags > LEASE_* > lease.toml >
 * defaults. Each value is read like the flag's own, and an error about one names where it stands instead of the flag.
 */

import { platform } from "#platform";
import { defineCittyPlugin } from "citty";
import type { Config } from "../config/file.ts";
import { findConfig, nonEmpty, type Env } from "../config/location.ts";
import { isPlainVariable, SHARED_SETTINGS, variableName, type Table } from "../config/settings.ts";
import { LeaseError } from "../core/errors.ts";
import { lazyFs } from "../platform/platform.ts";
import { readValue } from "../core/values.ts";
import type { AnyCommand, PluginContext } from "./command.ts";
import { flagName } from "./flags.ts";
import type { Io } from "./io.ts";
import { option, spell, type ParsedLine } from "./strict.ts";

/** Where a value that was not a flag comes from. */
interface Origin {
  from: "environment" | "file";
  /** The variable, or the file. */
  place: string;
  /** How an error calls the value: `LEASE_WORKER_SLOTS`, `lease.toml: worker.slots`. */
  label: string;
}

export type Origins = ReadonlyMap<string, Origin>;

interface Found {
  value: string | boolean | string[];
  origin: Origin;
}

const NOTHING_FOUND: Origins = new Map();

/** Then texts become what they say; an error about one names where it stands. */
export const settingsFromOutside = defineCittyPlugin({
  name: "settings from outside",
  async setup(context) {
    const line = context as PluginContext;
    const { cmd, given, data } = line;
    const args: ParsedLine["args"] = line.args;
    line.origins = NOTHING_FOUND;
    // Help is there for those whose settings are wrong.
    if (args["help"] === true) return;
    line.origins = await applySettings(cmd, line, data.io.env);
    // Those that read no settings tell of none; doctor says it in its own way.
    if (!cmd.ignores_config) await warnOfMisspelt(data.io);
    for (const key in cmd.flags) {
      args[key] = readFlag(cmd, key, args[key], given.get(key) ?? line.origins.get(key)?.label);
    }
  },
});

/** A variable that is nearly one of ours would be ignored without a word. */
async function warnOfMisspelt({ env, stderr }: Io): Promise<void> {
  if (!Object.keys(env).some((name) => name.startsWith("LEASE_") && !isPlainVariable(name))) return;
  const { strangeVariables } = await import("../config/command_settings.ts");
  for (const { name, meant } of strangeVariables(env)) {
    if (meant !== null) stderr(`lease: ${name} is no setting; did you mean ${meant}?\n`);
  }
}

/** `name` is how an error calls it. */
export function readFlag({ flags }: AnyCommand, key: string, given: unknown, name: string | undefined): unknown {
  const flag = flags[key];
  if (flag?.type !== "string" || typeof given !== "string") return given;
  return readValue(flag.value, given, name ?? `--${flagName(key)}`);
}

/** Fills in what `line` was not given; answers where each value that it filled in comes from. */
export async function applySettings(command: AnyCommand, line: ParsedLine, env: Env): Promise<Origins> {
  const flag = line.args["config"] as string | undefined;
  // Whoever names a file hears when it is not there, also where nothing would be read from it.
  if (command.ignores_config && flag !== undefined) findConfig(flag, env, exists);
  const config = command.ignores_config ? null : await loadConfig(flag, env);
  // Most people set nothing for a command, and then there is no need to know what could be.
  const { settings_of } = command;
  const prefix = variableName(settings_of, "");
  const is_set = config !== null || Object.keys(env).some((variable) => variable.startsWith(prefix));
  const settings = is_set ? (await import("../config/command_settings.ts")).COMMAND_SETTINGS[settings_of] : {};
  return fillIn(command, line, env, { config, settings });
}

function exists(path: string): boolean {
  const files = platform.quickFiles();
  return files === null ? lazyFs().existsSync(path) : files.stat(path) !== null;
}

/** The settings file that counts; null when there is none. */
export async function loadConfig(flag: string | undefined, env: Env): Promise<Config | null> {
  const found = findConfig(flag, env, exists);
  return found === null ? null : (await import("../config/file.ts")).readConfig(found, env);
}

/** The settings file that counts, as it was named; null when there is none. */
export function configPath(flag: string | undefined, env: Env): string | null {
  return findConfig(flag, env, exists)?.path ?? null;
}

/** What may be set for a command, and the file that may set it. */
interface Settable {
  config: Config | null;
  settings: Table | undefined;
}

export function fillIn(command: AnyCommand, line: ParsedLine, env: Env, { config, settings = {} }: Settable): Origins {
  const found = new Map<string, Found>();
  // Most people set none or one, and then there is no need to look for each.
  const variables = Object.keys(env).filter((variable) => variable.startsWith("LEASE_"));
  const look = (table: string | null, known: Table) => {
    const prefix = variableName(table, "");
    if (config === null && !variables.some((variable) => variable.startsWith(prefix))) return;
    for (const key in known) {
      if (line.given.has(key) || !Object.hasOwn(command.flags, key)) continue;
      const here = fromEnvironment(table, key, known, env) ?? fromFile(table, key, config);
      if (here !== null) found.set(key, here);
    }
  };
  look(null, SHARED_SETTINGS);
  look(command.settings_of, settings);
  if (found.size === 0) return NOTHING_FOUND;
  dropRivals(command.rivals, line.given, found);
  for (const [key, here] of found) take(command, line, key, here);
  return new Map([...found].map(([key, { origin }]) => [key, origin]));
}

function fromEnvironment(table: string | null, key: string, settings: Table, env: Env): Found | null {
  const name = variableName(table, key);
  const text = nonEmpty(env[name]);
  if (text === undefined) return null;
  const value = settings[key] === "switch" ? readSwitch(text, name) : text;
  return { value, origin: { from: "environment", place: name, label: name } };
}

function fromFile(table: string | null, key: string, config: Config | null): Found | null {
  const value = config?.value(table, key);
  if (config === null || value === undefined) return null;
  const label = `${config.path}: ${table === null ? key : `${table}.${key}`}`;
  return { value, origin: { from: "file", place: config.path, label } };
}

function readSwitch(text: string, name: string): boolean {
  if (/^(?:1|true|yes|on)$/i.test(text)) return true;
  if (/^(?:0|false|no|off)$/i.test(text)) return false;
  throw new LeaseError("usage", `${name} ${JSON.stringify(text)} is not a yes or a no: write 1 or 0`);
}

function take(command: AnyCommand, line: ParsedLine, key: string, { value, origin }: Found): void {
  const flag = command.flags[key];
  if (flag === undefined) return;
  const checked = (text: string) => (flag.type === "enum" ? option(origin.label, flag.options, text) : text);
  if (typeof value === "boolean") line.args[key] = value;
  else if (command.repeat.includes(key)) {
    const texts = Array.isArray(value) ? value : [value];
    line.lists[key] = (flag.type === "enum" ? texts.flatMap((text) => text.split(",")) : texts).map(checked);
  } else line.args[key] = checked(String(value));
}

/** Of rival groups only the one with the most direct word stays; at the same rank the command has to sort it out. */
function dropRivals(rivals: AnyCommand["rivals"], given: ReadonlyMap<string, string>, found: Map<string, Found>): void {
  const rankOf = (key: string) => (given.has(key) ? 0 : RANKS[found.get(key)?.origin.from ?? "nobody"]);
  const ranks = rivals.map((keys) => Math.min(...keys.map(rankOf)));
  const best = Math.min(...ranks);
  for (const [index, keys] of rivals.entries()) {
    if ((ranks[index] ?? 0) > best) for (const key of keys) found.delete(key);
  }
}

const RANKS = { environment: 1, file: 2, nobody: Number.POSITIVE_INFINITY } as const;

/** The same error in terms of where the value stands that it is about. */
export function nameOrigin(error: unknown, command: AnyCommand, origins: Origins): unknown {
  if (!(error instanceof LeaseError) || error.exit_code !== 2 || origins.size === 0) return error;
  const { message } = error;
  for (const [spelling, { key }] of spell(command.flags)) {
    const origin = origins.get(key);
    if (origin === undefined || !message.startsWith(spelling) || /[\w-]/.test(message.charAt(spelling.length)))
      continue;
    return new LeaseError(error.code, origin.label + message.slice(spelling.length), { cause: error });
  }
  // Rules about several values, and about names, speak of no flag.
  if (error.code !== "calibration" && error.code !== "invalid_job") return error;
  const words = new Set(message.match(/\w+/g));
  const about = [...origins].filter(([key]) => words.has(key)).map(([, { label }]) => label);
  if (about.length === 0) return error;
  return new LeaseError(error.code, `${message} (set by ${about.join(" and ")})`, { cause: error });
}
