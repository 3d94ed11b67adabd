/**
 * argv → the one command it names → its exit code. Loads only that command; what is for help and errors waits until
 * it is needed, because every start pays for what stands here.
 *
 * Answers (help, version) go to stdout with code 0. Every error is one line on stderr, `lease: what to do`, and the
 * error's own code; an exception that nobody planned is 125. With --verbose the stack follows. Without a command the
 * short help is printed and the code is that of a usage error, as git does it: `lease $FORGOTTEN` in a script must not
 * look like success.
 */

import { LeaseError } from "../core/errors.ts";
import { wantsColor } from "./color.ts";
import type { Commands, Io } from "./command.ts";
import type { Page } from "./layout.ts";
import { nearest } from "../core/nearest.ts";
import { scan, type Scanned } from "./strict.ts";
import { applySettings, nameOrigin } from "./settings.ts";
import { COLOR_CHOICES, FRONT_FLAGS, SHARED_FLAGS } from "./flags.ts";

const USAGE = 2;
const FAILED = 125;
/** Also in a group with other flags that take no value, `-fv`. */
const VERBOSE = /^(?:--verbose|-[fhv]*v[fhv]*)$/;

export function dispatch(raw: readonly string[], commands: Commands, io: Io): Promise<number> {
  return guarded(raw, io, () => route(raw, commands, io));
}

/** Every error of `work`, the command of this line, as its message and exit code. */
export async function guarded(raw: readonly string[], io: Io, work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (error) {
    // The reader of our output went away: there is nobody left to tell.
    if ((error as { code?: unknown }).code === "EPIPE") throw error;
    return await report(error, raw, io);
  }
}

async function route(raw: readonly string[], commands: Commands, io: Io): Promise<number> {
  // Almost every line begins with its command, and there is nothing before it to look at.
  const [first = ""] = raw;
  if (Object.hasOwn(commands, first)) return run(first, raw.slice(1), commands, io);
  const front = scanOrHelp({ name: "lease", flags: FRONT_FLAGS, repeat: [], rest: "command" }, raw);
  const [name, ...rest] = front.rest;
  if (front.args["version"] === true) return run("version", [], commands, io);
  if (name === "help") return help(rest, front, commands, io);
  if (front.args["help"] === true) return help(name === undefined ? [] : [name], front, commands, io);
  if (name === undefined) {
    const { shortHelp } = await import("./front.ts");
    io.stdout(shortHelp(commands, await page(front, io)));
    return USAGE;
  }
  // Flags before the name belong to the command as well; a `--` there only said that the name comes next.
  const before = raw.slice(0, raw.length - front.rest.length).filter((word) => word !== "--");
  return run(name, [...before, ...rest], commands, io);
}

async function run(name: string, raw: readonly string[], commands: Commands, io: Io): Promise<number> {
  const command = await find(name, commands).load();
  const { flags, repeat, rest } = command;
  const scanned = scanOrHelp({ name: `lease ${name}`, flags, repeat, rest }, raw);
  if (scanned.args["help"] === true) {
    const { commandHelp } = await import("./help.ts");
    io.stdout(commandHelp(command, await page(scanned, io)));
    return 0;
  }
  const origins = await applySettings(command, scanned, io.env);
  try {
    return await command.run({ ...scanned, commands, io });
  } catch (error) {
    throw nameOrigin(error, command, origins);
  }
}

/** Whoever asks for help gets it, even if the rest of the line is wrong. */
function scanOrHelp(grammar: Parameters<typeof scan>[0], raw: readonly string[]): Scanned {
  try {
    return scan(grammar, raw);
  } catch (error) {
    const end = raw.indexOf("--");
    const flags = end === -1 ? raw : raw.slice(0, end);
    if (!flags.includes("--help") && !flags.includes("-h")) throw error;
    return scan(grammar, ["--help"]);
  }
}

async function help(words: readonly string[], front: Scanned, commands: Commands, io: Io): Promise<number> {
  const grammar = { name: "lease help", flags: SHARED_FLAGS, repeat: [], rest: "words" } as const;
  const scanned = scanOrHelp(grammar, words);
  const [name, extra] = scanned.rest;
  if (extra !== undefined) throw new LeaseError("usage", `lease help takes one command, and got ${extra} as well`);
  const asked = scanned.given.has("color") ? scanned : front;
  if (name === undefined || name === "help") {
    const { fullHelp } = await import("./front.ts");
    io.stdout(fullHelp(commands, await page(asked, io)));
  } else {
    const { commandHelp } = await import("./help.ts");
    io.stdout(commandHelp(await find(name, commands).load(), await page(asked, io)));
  }
  return 0;
}

function find(name: string, commands: Commands): Commands[string] {
  const entry = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (entry !== undefined) return entry;
  const names = Object.keys(commands);
  const meant = names.find((other) => commands[other]?.also?.includes(name)) ?? nearest(name, [...names, "help"]);
  const hint = meant === null ? "lease help lists them" : `did you mean ${meant}?`;
  throw new LeaseError("usage", `unknown command ${JSON.stringify(name)}; ${hint}`);
}

async function page({ args, given }: Scanned, io: Io): Promise<Page> {
  const [{ ansi, plain }, { pageWidth }] = await Promise.all([import("../view/style.ts"), import("./layout.ts")]);
  // Help is there for those whose settings are wrong, so no file is read for it, and nothing is refused.
  const asked = given.has("color") ? args["color"] : io.env["LEASE_COLOR"];
  const choice = COLOR_CHOICES.find((color) => color === asked) ?? "auto";
  return { width: pageWidth(io.columns), paint: wantsColor(choice, io) ? ansi : plain };
}

async function report(error: unknown, raw: readonly string[], io: Io): Promise<number> {
  const { visible } = await import("../view/text.ts");
  const planned = error instanceof LeaseError;
  if (isOutput(error)) {
    io.stderr(`lease: stdout can't be written: ${visible(error.message)}; what was asked for may have been done\n`);
    return FAILED;
  }
  const verbose = isVerbose(raw, io);
  const message = visible(error instanceof Error ? error.message : String(error));
  const hint = verbose ? "" : " (--verbose shows where)";
  io.stderr(planned ? `lease: ${message}\n` : `lease: unexpected error: ${message}${hint}\n`);
  if (verbose) for (const line of stackLines(error)) io.stderr(`${visible(line)}\n`);
  return planned ? error.exit_code : FAILED;
}

/** A full disk below stdout, say; of the store's own files the store tells. */
function isOutput(error: unknown): error is Error {
  return error instanceof Error && (error as NodeJS.ErrnoException).syscall === "write";
}

/** Before anything else may be known to be right: a flag that looks like it, or the variable. */
function isVerbose(raw: readonly string[], { env }: Io): boolean {
  const end = raw.indexOf("--");
  if ((end === -1 ? raw : raw.slice(0, end)).some((word) => VERBOSE.test(word))) return true;
  return /^(?:1|true|yes|on)$/i.test(env["LEASE_VERBOSE"] ?? "");
}

/** Where it happened, and what it was caused by. */
function stackLines(error: unknown): string[] {
  const lines: string[] = [];
  for (let next = error; next instanceof Error; next = next.cause) {
    if (next !== error) lines.push(`caused by ${next.name}: ${next.message}`);
    lines.push(...(next.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line)));
  }
  return lines;
}
