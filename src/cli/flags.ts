/**
 * What a flag is, in citty's terms, and the flags that commands have in common: SHARED_FLAGS on every command, the
 * others where a command lists them.
 *
 * Flag names are snake_case here and kebab-case on the command line (`scale_up_at`, `--scale-up-at`). A boolean has the
 * form `--no-x` only when it has a `negativeDescription`. `default` is applied; `fallback` is only shown, for a value
 * that comes from the environment or the configuration when the flag is not given.
 */

import type { BooleanArgDef, EnumArgDef, StringArgDef } from "citty";
import { FILE, LOCATION, type Value } from "../core/values.ts";

interface ForHelp {
  /** Heading that the flag stands under; flags without one come first. */
  section?: string;
  /** What holds when the flag is not given. */
  fallback?: string;
  /** For our own scripts: not in help, the man page and completions. */
  hidden?: boolean;
}

export type FlagDef = ForHelp &
  (
    | (Omit<BooleanArgDef, "required"> & { type: "boolean" })
    | (Omit<StringArgDef, "required" | "valueHint"> & { type: "string"; value: Value<unknown> })
    | (Omit<EnumArgDef, "required" | "options"> & { type: "enum"; options: readonly string[] })
  );

export type FlagsDef = Readonly<Record<string, FlagDef>>;

/** Flags under a heading of their own. */
export function section<const F extends FlagsDef>(title: string, flags: F): F {
  return Object.fromEntries(Object.entries(flags).map(([key, flag]) => [key, { ...flag, section: title }])) as F;
}

/** A flag that takes a value. */
export function valueFlag<V extends Value<unknown>>(
  value: V,
  description: string,
  more: { alias?: string; fallback?: string } = {},
) {
  return { type: "string", value, description, ...more } as const;
}

/** States by name; to be repeated, so that a list by commas will do. */
export function statesFlag<const S extends string>(options: readonly S[], description: string, fallback?: string) {
  const more = fallback === undefined ? {} : { fallback };
  return { type: "enum", options, valueHint: "STATES", description, ...more } as const;
}

/** `scale_up_at` → `scale-up-at`. */
export function flagName(key: string): string {
  return key.replaceAll("_", "-");
}

export function aliasesOf(flag: FlagDef): readonly string[] {
  return typeof flag.alias === "string" ? [flag.alias] : (flag.alias ?? []);
}

export const COLOR_CHOICES = ["auto", "always", "never"] as const;

export const SHARED_FLAGS = {
  store: {
    type: "string",
    value: LOCATION,
    description: "Where the jobs are: an SQLite file, or postgres://…",
    fallback: "$LEASE_STORE, or lease/lease.db in $XDG_STATE_HOME",
  },
  trust_store: {
    type: "boolean",
    description: "Use the store even if others can write to it; it decides what gets executed",
  },
  config: {
    type: "string",
    value: FILE,
    description: "Settings for flags that are not given",
    fallback: "$LEASE_CONFIG, lease.toml here, or lease/lease.toml in $XDG_CONFIG_HOME",
  },
  color: {
    type: "enum",
    options: COLOR_CHOICES,
    default: "auto",
    description: "Colour the output; auto: on a terminal, unless NO_COLOR is set",
  },
  verbose: { type: "boolean", alias: "v", description: "Say more about what happens, on stderr" },
  help: { type: "boolean", alias: "h", description: "Show this help" },
} as const;

/** What may stand before the command's name. */
export const FRONT_FLAGS = {
  ...SHARED_FLAGS,
  version: { type: "boolean", alias: "V", description: "Show the version" },
} as const;

/** For a command that prints something a script may want. */
export const JSON_FLAG = { type: "boolean", description: "Print JSON" } as const;

/** For a role that logs. */
export const LOG_FORMAT_FLAG = {
  type: "enum",
  options: ["pretty", "json"],
  default: "pretty",
  description: "The log on stderr: for people (in a pipe, plain lines), or an object per line",
} as const;
