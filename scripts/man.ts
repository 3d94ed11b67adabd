// Writes the man page from the definitions that command lines are scanned with, so that it can't fall behind them.
//
//   bun scripts/man.ts                  → dist/lease.1; read it with `man -l dist/lease.1`
//   bun scripts/man.ts --outfile PATH   → PATH instead

import { mkdirSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { parseArgs } from "node:util";
import manifest from "../package.json" with { type: "json" };
import { COMMANDS } from "../src/cli/commands.ts";
import type { AnyCommand, Note } from "../src/cli/command.ts";
import { FRONT_FLAGS } from "../src/cli/flags.ts";
import { ENVIRONMENT, EXIT_STATUS, FILES, FIRST_STEPS, IN_A_JOB, WHAT } from "../src/cli/help.ts";
import { flagRows, flagTables, OWN, settingsNotes, SHARED } from "../src/cli/help.ts";

/** Text as roff shows it: nothing in it is an order, and dashes can be copied. */
function roff(text: string): string {
  const escaped = text
    .replaceAll("\\", String.raw`\e`)
    .replaceAll("-", String.raw`\-`)
    .replaceAll("'", String.raw`\(aq`)
    .replaceAll("`", String.raw`\(ga`)
    .replaceAll("^", String.raw`\(ha`)
    .replaceAll("~", String.raw`\(ti`)
    // What a plain terminal has no sign for would be left out.
    .replaceAll("…", "...")
    .replaceAll("↑", "Up")
    .replaceAll("↓", "Down")
    .replaceAll(/[^\n -~]/gu, (character) => {
      return String.raw`\[u${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}]`;
    });
  return escaped.replaceAll(/^\./gm, String.raw`\&.`);
}

/** An argument of a macro. */
function argument(text: string): string {
  return `"${roff(text).replaceAll('"', String.raw`\(dq`)}"`;
}

const section = (title: string): string => `.SH ${argument(title.toUpperCase())}`;
const bold = (text: string): string => String.raw`\fB${roff(text)}\fR`;

function terms(rows: readonly (readonly [term: string, text: string, aside?: string])[]): string[] {
  return rows.flatMap(([term, text, aside]) => {
    const told = [text, aside ?? ""].filter((part) => part !== "").join(" ");
    return [".TP", bold(term.trim()), roff(told)];
  });
}

function noteLines(note: Note): string[] {
  if (typeof note === "string") return [".PP", roff(note)];
  return [".PP", roff(`${note.title}:`), ".RS", ...terms(note.rows), ".RE"];
}

/** Under their headings, those of every command left out. */
function flagLines(command: AnyCommand): string[] {
  return flagTables(command).flatMap(({ title, rows }) => {
    if (title === SHARED) return [];
    return title === OWN ? terms(rows) : [".PP", roff(`${title}:`), ...terms(rows)];
  });
}

function commandLines(name: string, command: AnyCommand): string[] {
  return [
    `.SS ${argument(`lease ${name}`)}`,
    `${bold(`lease ${name}`)}${roff(` [FLAGS] ${command.operands}`.trimEnd())}`,
    ".PP",
    roff(`${command.meta.description}.`),
    ...flagLines(command),
    ...(command.examples.length === 0 ? [] : noteLines({ title: "Examples", rows: command.examples })),
    ...[...settingsNotes(command), ...command.notes].flatMap(noteLines),
  ];
}

/** Builds that must come out the same say when they are from. */
const epoch_s = process.env["SOURCE_DATE_EPOCH"];
const date = new Date(epoch_s === undefined ? Date.now() : Number(epoch_s) * 1_000).toISOString().slice(0, 10);

async function manPage(): Promise<string> {
  const commands = await Promise.all(
    Object.entries(COMMANDS).map(async ([name, entry]) => commandLines(name, await entry.load())),
  );
  const lines = [
    `.TH LEASE 1 ${date} ${argument(`lease ${manifest.version}`)} "User Commands"`,
    section("Name"),
    `lease \\- ${roff(manifest.description.replace(/^A /, "a "))}`,
    section("Synopsis"),
    `${bold("lease")} ${roff("COMMAND [FLAGS] …")}`,
    section("Description"),
    roff(WHAT),
    ...terms(FIRST_STEPS),
    section("Commands"),
    ...commands.flat(),
    section("Flags of every command"),
    "They may also stand before the command.",
    ...terms(Object.entries(FRONT_FLAGS).flatMap(([key, flag]) => flagRows(key, flag, false))),
    ...[ENVIRONMENT, FILES, IN_A_JOB, { ...EXIT_STATUS, title: "Exit status" }].flatMap(({ title, rows }) => [
      section(title),
      ...terms(rows),
    ]),
    section("See also"),
    `${roff("timeout(1), nohup(1), xargs(1), cron(8), systemd.timer(5)")}`,
  ];
  return `${lines.join("\n")}\n`;
}

const { values } = parseArgs({ options: { outfile: { type: "string" } } });
const outfile = values.outfile ?? join(import.meta.dir, "../dist/lease.1");
mkdirSync(dirname(outfile), { recursive: true });
await Bun.write(outfile, await manPage());
console.log(relative(process.cwd(), outfile) || outfile);
