/**
 * What there is to complete, from the definitions that command lines are scanned with, so that a completion can't offer
 * what the command refuses. The scripts of the three shells are written from this.
 */

import { type AnyCommand, type Commands } from "../../cli/command.ts";
import type { Completer } from "../../core/values.ts";
import { aliasesOf, flagName, type FlagDef, type FlagsDef } from "../../cli/flags.ts";
import { FRONT_FLAGS } from "../../cli/flags.ts";

/** Where the values come from. `queues`, `tasks` and `ids` are asked of the store; `at_file` is `@FILE`. */
export const SOURCES = ["queues", "tasks", "ids"] as const;
export type NameSource = (typeof SOURCES)[number];

/** What may stand in one place: these words, and what the completer finds. */
export interface Values {
  words: readonly string[];
  completer: Completer;
}

export interface Option {
  /** `--queue`. */
  long: string;
  /** `-q`. */
  short: string | null;
  description: string;
  repeatable: boolean;
  /** Null: it takes no value. */
  value: (Values & { hint: string }) | null;
}

interface Completed {
  name: string;
  description: string;
  options: readonly Option[];
  /** `program`: a command line of its own begins with the first word. */
  operand: Values;
}

export interface Model {
  commands: readonly Completed[];
  /** Before a command's name. */
  front: readonly Option[];
}

const NOTHING: Values = { words: [], completer: "none" };

export async function completionModel(commands: Commands): Promise<Model> {
  const loaded = await Promise.all(
    Object.entries(commands).map(async ([name, { description, load }]) => completed(name, description, await load())),
  );
  const names = loaded.map(({ name }) => name);
  const help = {
    name: "help",
    description: "tell about a command",
    options: [],
    operand: { ...NOTHING, words: names },
  };
  return { commands: [...loaded, help], front: options(FRONT_FLAGS, []) };
}

function completed(name: string, description: string, command: AnyCommand): Completed {
  const { flags, repeat } = command;
  return {
    name,
    description,
    options: options(flags, repeat),
    operand: { ...NOTHING, ...command.operand_values },
  };
}

function options(flags: FlagsDef, repeat: readonly string[]): Option[] {
  return Object.entries(flags).flatMap(([key, flag]) => optionsOf(key, flag, repeat.includes(key)));
}

function optionsOf(key: string, flag: FlagDef, repeatable: boolean): Option[] {
  if (flag.hidden) return [];
  const name = flagName(key);
  const short = aliasesOf(flag).find((alias) => alias.length === 1);
  const option: Option = {
    long: `--${name}`,
    short: short === undefined ? null : `-${short}`,
    description: flag.description ?? "",
    repeatable,
    value: valuesOf(flag),
  };
  if (flag.type !== "boolean" || flag.negativeDescription === undefined) return [option];
  const negative = { ...option, long: `--no-${name}`, short: null, description: flag.negativeDescription };
  return flag.default === true ? [negative] : [option, negative];
}

function valuesOf(flag: FlagDef): Option["value"] {
  if (flag.type === "boolean") return null;
  if (flag.type === "string") return flag.value;
  return { words: flag.options, completer: "none", hint: flag.valueHint ?? "VALUE" };
}
