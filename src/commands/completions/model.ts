/**
 * What there is to complete, from the definitions that command lines are scanned with, so that a completion can't offer
 * what the command refuses; and what the scripts of the three shells, which are written from it, have in common.
 */

import type { AnyCommand, Commands } from "../../cli/command.ts";
import { aliasesOf, flagName, FRONT_FLAGS, type FlagDef } from "../../cli/flags.ts";
import { NAME_SOURCES, type Completer, type NameSource, type Value } from "../../core/values.ts";

/** What may stand in one place: these words, and what the completer finds; `list`: several words with commas between. */
export type Values = Pick<Value<unknown>, "words" | "completer"> & { list?: boolean };

export interface Option {
  /** `--queue`. */
  long: string;
  /** With the short one, `-q`, if there is one. */
  names: readonly string[];
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
    Object.entries(commands).map(async ([name, { description, short = {}, load }]): Promise<Completed[]> => {
      const command = await load();
      const own = { name, description, options: options(command), operand: { ...NOTHING, ...command.operand_values } };
      const others = Object.entries(short);
      return [
        own,
        ...others.map(([other, words]) => ({ ...own, name: other, description: `lease ${words.join(" ")}` })),
      ];
    }),
  ).then((all) => all.flat());
  const operand = { ...NOTHING, words: loaded.map(({ name }) => name) };
  const help = { name: "help", description: "tell about a command", options: [], operand };
  return { commands: [...loaded, help], front: options({ flags: FRONT_FLAGS, repeat: [] }) };
}

function options({ flags, repeat }: Pick<AnyCommand, "flags" | "repeat">): Option[] {
  return Object.entries(flags).flatMap(([key, flag]) => optionsOf(key, flag, repeat.includes(key)));
}

function optionsOf(key: string, flag: FlagDef, repeatable: boolean): Option[] {
  if (flag.hidden) return [];
  const long = `--${flagName(key)}`;
  const short = aliasesOf(flag).find((alias) => alias.length === 1);
  const names = short === undefined ? [long] : [long, `-${short}`];
  const option = { long, names, description: flag.description ?? "", repeatable, value: valuesOf(flag, repeatable) };
  if (flag.type !== "boolean" || flag.negativeDescription === undefined) return [option];
  const no = `--no-${flagName(key)}`;
  const negative = { ...option, long: no, names: [no], description: flag.negativeDescription };
  return flag.default === true ? [negative] : [option, negative];
}

function valuesOf(flag: FlagDef, repeatable: boolean): Option["value"] {
  if (flag.type === "boolean") return null;
  if (flag.type === "string") return flag.value;
  return { words: flag.options, completer: "none", list: repeatable, hint: flag.valueHint ?? "VALUE" };
}

/** Its source, if the completer asks the store; null: it does not. */
export function sourceOf(completer: Completer): NameSource | null {
  return NAME_SOURCES.find((source) => source === completer) ?? null;
}

/** In single quotes, for bash and zsh. */
export function singleQuoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** The script with these lines where the template says `@NAME@`; it writes `$\{` where the shell has braces of its own. */
export function filledIn(template: string, parts: Readonly<Record<string, string>>): string {
  return template.replaceAll(String.raw`$\{`, "${").replaceAll(/@([A-Z]+)@/g, (_, name: string) => parts[name] ?? "");
}
