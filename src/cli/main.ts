/**
 * A command line → the command that citty routes it to → its exit code. Loads only that command; what is for help and
 * errors waits until it is needed, because every start pays for what stands here.
 *
 * Answers (help, version) go to stdout with code 0. Every error is one line on stderr, `lease: what to do`, and the
 * error's own code; an exception that nobody planned is 125. With --verbose the stack follows. Without a command the
 * short help is printed and the code is that of a usage error, as git does it: `lease $FORGOTTEN` in a script must not
 * look like success.
 */

import process from "node:process";
import { defineCommand, runCommand, type CommandDef, type SubCommandsDef } from "citty";
import { LeaseError } from "../core/errors.ts";
import { nearest } from "../core/nearest.ts";
import type { QuickAnswer } from "../quick/quick.ts";
import type { AnyCommand, Commands, Invocation } from "./command.ts";
import { COMMANDS } from "./commands.ts";
import { FRONT_FLAGS, SHARED_FLAGS } from "./flags.ts";
import { processIo, type Io } from "./io.ts";
import { parseOrHelp, type ParsedLine } from "./strict.ts";

const USAGE = 2;
const FAILED = 125;
/** As if the signal had ended us: that is what a shell expects of a program whose reader went away. */
const PIPE_CLOSED = 128 + 13;
/** Also in a group with other flags that take no value, `-fv`. */
const VERBOSE = /^(?:--verbose|-[fhv]*v[fhv]*)$/;

/** `answer`: what the quick enqueue of this line has come to; null when it has done nothing. */
export async function runLine(words: readonly string[], answer: QuickAnswer | null): Promise<number> {
  try {
    if (process.platform !== "linux") (await import("../platform/system.ts")).refuseSystem(process.platform);
    if (answer === null) return await dispatch(words, COMMANDS, processIo);
    if ("message" in answer) return await report(new LeaseError(answer.code, answer.message), words, processIo);
    processIo.stdout(answer.text);
    return 0;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EPIPE") return PIPE_CLOSED;
    return report(error, words, processIo);
  }
}

export async function dispatch(raw: readonly string[], commands: Commands, io: Io): Promise<number> {
  try {
    const route = routeOf(raw, commands);
    if ("words" in route) {
      const [name = "", ...words] = route.words;
      const invocation: Invocation = { io, commands, words, exit_code: 0 };
      // The name alone: citty would read the words first, and some of them break it.
      await runCommand(rootCommand(invocation), { rawArgs: [name] });
      return invocation.exit_code;
    }
    const { showFirstPage } = await import("./help.ts");
    showFirstPage(commands, route.asked, io, route);
    return route.whole ? 0 : USAGE;
  } catch (error) {
    // The reader of our output went away: there is nobody left to tell.
    if ((error as { code?: unknown }).code === "EPIPE") throw error;
    return await report(error, raw, io);
  }
}

function rootCommand(invocation: Invocation): CommandDef {
  // citty looks with `in`: no name may be found that nobody gave.
  const subCommands: SubCommandsDef = Object.create(null);
  for (const [name, { load }] of Object.entries(invocation.commands)) {
    subCommands[name] = async () => boundTo(invocation, await load());
  }
  return defineCommand({ meta: { name: "lease" }, subCommands });
}

/** Without `args`, which citty would read by itself: that is for the plugin to do. */
function boundTo(invocation: Invocation, command: AnyCommand): AnyCommand {
  const setup = (context: { rawArgs: string[]; data?: Invocation }) => {
    context.rawArgs = [...invocation.words];
    context.data = invocation;
  };
  const join = { name: "invocation", setup };
  return { ...command, args: {}, plugins: [join, ...(command.plugins ?? [])] };
}

/** The command's name and what is for it, or the first page: the whole, or the beginning for who named no command. */
type Route = { words: string[] } | { asked: ParsedLine; whole: boolean };

function routeOf(raw: readonly string[], commands: Commands): Route {
  // Almost every line begins with its command, and there is nothing before it to look at.
  const [first = ""] = raw;
  if (Object.hasOwn(commands, first)) return { words: [...raw] };
  const front = parseOrHelp({ meta: { name: "lease" }, flags: FRONT_FLAGS, repeat: [], rest: "command" }, raw);
  const [name, ...rest] = front.rest;
  // Flags before the name belong to the command as well; a `--` there only said that the name comes next.
  const before = raw.slice(0, raw.length - front.rest.length).filter((word) => word !== "--");
  if (front.args["version"] === true) return { words: ["version"] };
  if (name === "help") return helpRoute(before, rest, commands);
  if (name === undefined) return { asked: front, whole: front.args["help"] === true };
  return { words: [...commandNamed(name, commands), ...before, ...rest] };
}

/** `lease help NAME` is `lease NAME --help`. */
function helpRoute(before: readonly string[], words: readonly string[], commands: Commands): Route {
  const grammar = { meta: { name: "lease help" }, flags: SHARED_FLAGS, repeat: [], rest: "words" } as const;
  const asked = parseOrHelp(grammar, [...before, ...words]);
  const [name, extra] = asked.rest;
  if (extra !== undefined) throw new LeaseError("usage", `lease help takes one command, and got ${extra} as well`);
  if (name === undefined || name === "help") return { asked, whole: true };
  const [meant = name] = commandNamed(name, commands);
  return { words: [meant, "--help", ...(asked.given.has("color") ? [`--color=${asked.args["color"]}`] : [])] };
}

/** The words that a name stands for: most are a command's own, `ls` is `inspect jobs`. */
function commandNamed(name: string, commands: Commands): readonly string[] {
  if (Object.hasOwn(commands, name)) return [name];
  const among = (kind: "short" | "also") => {
    const names = Object.values(commands).find((entry) => Object.hasOwn(entry[kind] ?? {}, name))?.[kind];
    return names?.[name];
  };
  const short = among("short");
  if (short !== undefined) return short;
  const known = Object.entries(commands).flatMap(([own, entry]) => [own, ...Object.keys(entry.short ?? {})]);
  const meant = among("also")?.join(" ") ?? nearest(name, [...known, "help"]);
  const hint = meant === null ? "lease help lists them" : `did you mean lease ${meant}?`;
  throw new LeaseError("usage", `unknown command ${JSON.stringify(name)}; ${hint}`);
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
