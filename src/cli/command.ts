/**
 * What a command is: its flags as citty defines arguments, what its words are, its help, and `run`.
 *
 * Flag names are snake_case here and kebab-case on the command line (`scale_up_at`, `--scale-up-at`). A boolean has the
 * form `--no-x` only when it has a `negativeDescription`. `default` is applied; `fallback` is only shown, for a value
 * that comes from the environment or the configuration when the flag is not given.
 */

import type { BooleanArgDef, EnumArgDef, StringArgDef } from "citty";
import { SHARED_FLAGS } from "./flags.ts";

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
    | (BooleanArgDef & { type: "boolean" })
    | (StringArgDef & { type: "string" })
    | (Omit<EnumArgDef, "options"> & { type: "enum"; options: readonly string[] })
  );

export type FlagsDef = Readonly<Record<string, FlagDef>>;

/**
 * `command`: flags end at the first word, which begins a command line. `words`: words and flags in any order.
 * `none`: no words. `--` ends the flags in all three.
 */
export type RestMode = "command" | "words" | "none";

/** A paragraph, or a titled table. */
export type Note = string | { title: string; rows: readonly (readonly [term: string, text: string])[] };

/** Where a command's answers and complaints go, and what it knows of its surroundings. */
export interface Io {
  stdout: (text: string) => void;
  /** For what is not ours, and perhaps not text. */
  stdoutBytes: (bytes: Uint8Array) => void;
  stderr: (text: string) => void;
  env: Readonly<Record<string, string | undefined>>;
  /** Whether stdout is a terminal. */
  is_tty: boolean;
  /** Null: not known. */
  columns: number | null;
}

type Missing<F> = F extends { default: string } | { required: true } ? never : undefined;
type One<F> = F extends { type: "enum"; options: readonly (infer Option)[] } ? Option : string;
type Value<F> = F extends { type: "boolean" } ? boolean : One<F> | Missing<F>;

/** A boolean is always there; a string or enum is undefined unless given, required or with a default. */
type FlagValues<A, R extends PropertyKey> = { [K in Exclude<keyof A, R>]: Value<A[K]> };
type FlagLists<A, R extends keyof A> = { [K in R]: One<A[K]>[] };

interface RunContext<A, R extends keyof A> {
  args: FlagValues<A & typeof SHARED_FLAGS, R>;
  /** Values of repeatable flags, in the order given. */
  lists: FlagLists<A, R>;
  rest: string[];
  /** The flags that were on the command line, so that a default can be told from a choice. */
  given: ReadonlySet<string>;
  /** All commands that there are, for one that tells about the others. */
  commands: Commands;
  io: Io;
}

interface Described {
  meta: { name: string; description: string };
  rest: RestMode;
  /** How the words appear in the usage line, for example `ID…`. */
  operands?: string;
  examples?: readonly (readonly [text: string, explanation: string])[];
  notes?: readonly Note[];
  /** lease.toml is not read for it: it needs none, or has to work when the file is broken. */
  ignores_config?: boolean;
}

interface CommandDef<A extends FlagsDef, R extends keyof A> extends Described {
  args: A;
  /** Flags that may be given more than once. An enum among them also takes lists: `--status failed,running`. */
  repeat?: readonly R[];
  /** Groups of flags of which one makes the other pointless: a flag wins against a setting, a variable against the file. */
  rivals?: readonly (readonly (keyof A)[])[];
  /** Resolves to the exit code. */
  run: (context: RunContext<A, R>) => Promise<number>;
}

/** A command whose flags are known only at run time: what dispatch and help work with. */
export interface AnyCommand extends Required<Described> {
  flags: FlagsDef;
  repeat: readonly string[];
  rivals: readonly (readonly string[])[];
  run: (context: RunContext<FlagsDef, string>) => Promise<number>;
}

interface CommandEntry {
  description: string;
  group: string;
  /** What people of other queues would type instead; leads to a hint, not to the command. */
  also?: readonly string[];
  load: () => Promise<AnyCommand>;
}

/** In the order in which help lists them. */
export type Commands = Readonly<Record<string, CommandEntry>>;

const OPERANDS: Readonly<Record<RestMode, string>> = {
  command: "[--] COMMAND [ARG…]",
  words: "[WORD…]",
  none: "",
};

export function command<const A extends FlagsDef, const R extends keyof A = never>(def: CommandDef<A, R>): AnyCommand {
  return {
    meta: def.meta,
    rest: def.rest,
    operands: def.operands ?? OPERANDS[def.rest],
    examples: def.examples ?? [],
    notes: def.notes ?? [],
    ignores_config: def.ignores_config ?? false,
    flags: { ...def.args, ...SHARED_FLAGS },
    repeat: (def.repeat ?? []) as readonly string[],
    rivals: (def.rivals ?? []) as readonly (readonly string[])[],
    // The scanner checked the values against exactly these flags: the types that were erased here hold again in `run`.
    run: def.run as unknown as AnyCommand["run"],
  };
}

/** `scale_up_at` → `scale-up-at`. */
export function flagName(key: string): string {
  return key.replaceAll("_", "-");
}

export function aliasesOf(flag: FlagDef): readonly string[] {
  return typeof flag.alias === "string" ? [flag.alias] : (flag.alias ?? []);
}
