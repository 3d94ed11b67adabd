/**
 * What a command is: citty's, with plugins for what citty leaves open (strict flags, settings from outside, values) and
 * what its help, its man page and its completions are made of. `run` gets typed values and resolves to the exit code.
 */

import { defineCommand, type ArgsDef, type CommandContext, type CommandDef as CittyCommand } from "citty";
import { SHARED_FLAGS, type FlagsDef } from "./flags.ts";
import type { Io } from "./io.ts";
import type { Completer, Value } from "../core/values.ts";
import { nameOrigin, settingsFromOutside, type Origins } from "./settings.ts";
import { strictFlags, type ParsedLine } from "./strict.ts";

/**
 * `command`: flags end at the first word, which begins a command line. `handler`: a command line, behind `--` only.
 * `words`: words and flags in any order. `none`: no words. `--` ends the flags in all of them.
 */
export type RestMode = "command" | "handler" | "words" | "none";

/** A paragraph, or a titled table. */
export type Note = string | { title: string; rows: NoteRows };
type NoteRows = readonly (readonly [term: string, text: string])[];

type Missing<F> = F extends { default: string } ? never : undefined;
type One<F> = F extends { type: "enum"; options: readonly (infer Option)[] } ? Option : string;
type Single<F> = F extends { type: "boolean" } ? boolean : Read<F> | Missing<F>;
/** What a text was read as. */
type Read<F> = F extends { value: Value<infer T> } ? T : One<F>;

/** A boolean is always there; a string or enum is undefined unless given or with a default. */
export type FlagValues<A, R extends PropertyKey> = { [K in Exclude<keyof A, R>]: Single<A[K]> };
type FlagLists<A, R extends keyof A> = { [K in R]: One<A[K]>[] };

interface RunContext<A, R extends keyof A> {
  args: FlagValues<A & typeof SHARED_FLAGS, R>;
  /** The texts of repeatable flags, in the order given. */
  lists: FlagLists<A, R>;
  rest: string[];
  /** How many of these stand before `--`; null: there is none. */
  before_dashes: number | null;
  /** The flags that were on the command line, so that a default can be told from a choice. */
  given: ReadonlyMap<string, string>;
  /** All commands that there are, for one that tells about the others. */
  commands: Commands;
  io: Io;
}

interface Described {
  /** `flags_of`: what stands behind its `--` are flags of that command. */
  meta: { name: string; description: string; flags_of?: string };
  rest: RestMode;
  /** How the words appear in the usage line, for example `ID…`. */
  operands?: string;
  /** What a shell can offer for them; nothing is known of the words of a command line. */
  operand_values?: { completer?: Completer; words?: readonly string[] };
  examples?: NoteRows;
  notes?: readonly Note[];
  /** lease.toml is not read for it: it needs none, or has to work when the file is broken. */
  ignores_config?: boolean;
  /** Whose settings hold for it, where they are not its own. */
  settings_of?: string;
}

interface CommandDef<A extends FlagsDef, R extends keyof A> extends Described {
  args: A;
  /** Flags that may be given more than once. An enum among them also takes lists: `--status failed,running`. */
  repeat?: readonly R[];
  /** Groups of flags of which one makes the other pointless: a flag wins against a setting, a variable against the file. */
  rivals?: readonly (readonly (keyof A)[])[];
  /** Those that mean something of their own; they are the last of its notes. */
  exit_codes?: NoteRows;
  /** Resolves to the exit code. */
  run: (context: RunContext<A, R>) => Promise<number>;
}

/** A command whose flags are known only at run time: what citty runs, and what help, man page and completions read. */
export interface AnyCommand extends CittyCommand, Required<Described> {
  meta: Described["meta"];
  flags: FlagsDef;
  repeat: readonly string[];
  rivals: readonly (readonly string[])[];
}

type OtherNames = Readonly<Record<string, readonly string[]>>;

interface CommandEntry {
  description: string;
  group: string;
  /** Other names it goes by, each with the words that it stands for. */
  short?: OtherNames;
  /** What people of other queues would type instead; leads to a hint, not to the command. */
  also?: OtherNames;
  load: () => Promise<AnyCommand>;
}

/** In the order in which help lists them. */
export type Commands = Readonly<Record<string, CommandEntry>>;

/** One command line while it is carried out: citty hands nothing down to a sub-command, and no result back. */
export interface Invocation {
  io: Io;
  commands: Commands;
  /** What stands behind the command's name. */
  words: readonly string[];
  exit_code: number;
}

/** What citty's context holds once the plugins have been at it. */
export type PluginContext = CommandContext & ParsedLine & { cmd: AnyCommand; data: Invocation; origins: Origins };

const OPERANDS: Readonly<Record<RestMode, string>> = {
  command: "[--] COMMAND [ARG…]",
  handler: "[-- HANDLER [ARG…]]",
  words: "[WORD…]",
  none: "",
};

export function command<const A extends FlagsDef, const R extends keyof A = never>(def: CommandDef<A, R>): AnyCommand {
  const flags: FlagsDef = { ...def.args, ...SHARED_FLAGS };
  const citty = defineCommand({
    args: flags as ArgsDef,
    plugins: [strictFlags, settingsFromOutside],
    // The plugins checked the values against exactly these flags: the types that citty does not know hold in `run`.
    run: (context) => run(context as unknown as PluginContext, def.run as unknown as Run),
  });
  return {
    ...citty,
    meta: def.meta,
    rest: def.rest,
    operands: def.operands ?? OPERANDS[def.rest],
    operand_values:
      def.operand_values ?? (def.rest === "command" || def.rest === "handler" ? { completer: "program" } : {}),
    examples: def.examples ?? [],
    notes: [...(def.notes ?? []), ...(def.exit_codes ? [{ title: "Exit codes", rows: def.exit_codes }] : [])],
    ignores_config: def.ignores_config ?? false,
    settings_of: def.settings_of ?? def.meta.name,
    flags,
    repeat: (def.repeat ?? []) as readonly string[],
    rivals: (def.rivals ?? []) as readonly (readonly string[])[],
  };
}

type Run = (context: RunContext<FlagsDef, string>) => Promise<number>;

async function run(context: PluginContext, work: Run): Promise<void> {
  const { cmd, args, lists, rest, before_dashes, given, origins, data: invocation } = context;
  const { io, commands } = invocation;
  if (args["help"] === true) {
    const { showUsage } = await import("./help.ts");
    return showUsage(cmd, context, io);
  }
  try {
    invocation.exit_code = await work({ args: args as never, lists, rest, before_dashes, given, commands, io });
  } catch (error) {
    throw nameOrigin(error, cmd, origins);
  }
}
