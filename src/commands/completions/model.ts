/**
 * What there is to complete, from the definitions that command lines are scanned with, so that a completion can't offer
 * what the command refuses. The scripts of the three shells are written from this.
 */

import { type AnyCommand, type Commands } from "../../cli/command.ts";
import { aliasesOf, flagName, type FlagDef, type FlagsDef } from "../../cli/flags.ts";
import { FRONT_FLAGS } from "../../cli/flags.ts";

/** Where the values come from. `queues`, `tasks` and `ids` are asked of the store; `at_file` is `@FILE`. */
export const SOURCES = ["queues", "tasks", "ids"] as const;
export type Source = (typeof SOURCES)[number];
type Completer = "none" | "files" | "folders" | "at_file" | "program" | Source;

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
    operand: operandOf(command),
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
    value: flag.type === "boolean" ? null : { ...valuesOf(key, flag), hint: flag.valueHint ?? "VALUE" },
  };
  if (flag.type !== "boolean" || flag.negativeDescription === undefined) return [option];
  const negative = { ...option, long: `--no-${name}`, short: null, description: flag.negativeDescription };
  return flag.default === true ? [negative] : [option, negative];
}

function valuesOf(key: string, flag: FlagDef): Values {
  if (flag.type === "enum") return { words: flag.options, completer: "none" };
  const hint = flag.valueHint ?? "";
  if (key === "queue") return { words: [], completer: "queues" };
  if (key === "task") return { words: [], completer: "tasks" };
  if (/\bIDS?\b/.test(hint)) return { words: [], completer: "ids" };
  if (hint.includes("@FILE")) return { words: [], completer: "at_file" };
  if (/\b(?:FILE|PATH)\b/.test(hint)) return { words: [], completer: "files" };
  return hint.includes("FOLDER") ? { words: [], completer: "folders" } : { words: words(hint), completer: "none" };
}

/** What stands in small letters is to be typed as it is: `TIME|never`, `[jobs|queues] [ID…]`. */
function words(hint: string): string[] {
  return hint.match(/(?<![\w-])[a-z]+(?![\w-])/g) ?? [];
}

function operandOf({ rest, operands }: AnyCommand): Values {
  if (rest === "command") return { words: [], completer: "program" };
  if (rest === "none") return NOTHING;
  if (/\bID/.test(operands)) return { words: words(operands), completer: "ids" };
  return { words: words(operands), completer: /\bQUEUE/.test(operands) ? "queues" : "none" };
}
