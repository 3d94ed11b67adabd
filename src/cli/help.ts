/**
 * The help of one command, made from the definition that is scanned with, so that the two can't disagree: what it does,
 * how it is called, its flags by section, examples, notes.
 */

import { COMMAND_SETTINGS, variableName } from "../config/settings.ts";
import { aliasesOf, flagName, type AnyCommand, type FlagDef, type Note } from "./command.ts";
import { heading, paragraph, rowLines, termWidth, type Page, type Row } from "./layout.ts";
import { SHARED_FLAGS } from "./flags.ts";

const OWN = "Flags";
const SHARED = "Flags of every command";
/** Longer lists of options stand in the text instead of beside the name. */
const LONGEST_OPTIONS = 27;

export function commandHelp(command: AnyCommand, page: Page): string {
  const { meta, notes, examples } = command;
  const lines = [
    ...paragraph(`${meta.description}.`, page),
    "",
    ...usage(command, page),
    ...flagLines(command, page),
    ...exampleLines(examples, page),
    ...settingsNotes(command).flatMap((note) => ["", ...noteLines(note, page)]),
    ...notes.flatMap((note) => ["", ...noteLines(note, page)]),
  ];
  return `${lines.join("\n")}\n`;
}

/** How flags can be set without being given. */
export function settingsNotes({ meta, flags }: AnyCommand): Note[] {
  const keys = Object.keys(COMMAND_SETTINGS[meta.name] ?? {}).filter((key) => Object.hasOwn(flags, key));
  const [first] = keys;
  if (first === undefined) return [];
  return [
    `Flags that are not given are taken from the environment (${variableName(meta.name, first)}) or from [${meta.name}] in ` +
      `lease.toml (${first} = …): ${keys.join(", ")}.`,
  ];
}

function usage({ meta, operands }: AnyCommand, page: Page): string[] {
  const text = `lease ${meta.name} [FLAGS]${operands === "" ? "" : ` ${operands}`}`;
  return [heading("Usage", page), ...paragraph(text, page, "  ")];
}

function flagLines({ flags, repeat }: AnyCommand, page: Page): string[] {
  const sections = new Map<string, Row[]>([[OWN, []]]);
  for (const [key, flag] of Object.entries(flags)) {
    if (flag.hidden) continue;
    const title = key in SHARED_FLAGS ? SHARED : (flag.section ?? OWN);
    sections.set(title, [...(sections.get(title) ?? []), ...flagRows(key, flag, repeat.includes(key))]);
  }
  const shown = [...sections].filter(([, rows]) => rows.length > 0);
  // One column for all sections: the eye runs down a single edge.
  const width = termWidth(shown.flatMap(([, rows]) => rows));
  return shown.flatMap(([title, rows]) => ["", heading(title, page), ...rowLines(rows, width, page)]);
}

export function flagRows(key: string, flag: FlagDef, repeatable: boolean): Row[] {
  const name = flagName(key);
  if (flag.type !== "boolean")
    return [[`${names(name, flag)} ${hint(flag)}`, flag.description ?? "", aside(flag, repeatable)]];
  const negative: Row = [`    --no-${name}`, flag.negativeDescription ?? ""];
  if (flag.negativeDescription === undefined) return [[names(name, flag), flag.description ?? "", aside(flag, false)]];
  // On by default, the flag itself says nothing new.
  return flag.default === true ? [negative] : [[names(name, flag), flag.description ?? ""], negative];
}

function names(name: string, flag: FlagDef): string {
  const short = aliasesOf(flag).find((alias) => alias.length === 1);
  return `${short === undefined ? "   " : `-${short},`} --${name}`;
}

function hint(flag: FlagDef): string {
  if (flag.valueHint !== undefined) return flag.valueHint;
  if (flag.type !== "enum") return "VALUE";
  const options = flag.options.join("|");
  return options.length <= LONGEST_OPTIONS ? options : "VALUE";
}

function aside(flag: FlagDef, repeatable: boolean): string {
  const known = flag.type === "boolean" ? undefined : (flag.fallback ?? flag.default);
  const listed = flag.type === "enum" && !hint(flag).includes("|");
  const parts = [
    ...(listed ? [`one of ${flag.options.join(", ")}`] : []),
    ...(flag.required ? ["required"] : []),
    ...(repeatable ? ["can be repeated"] : []),
    ...(known === undefined ? [] : [`default: ${known}`]),
  ];
  return parts.length === 0 ? "" : `(${parts.join("; ")})`;
}

function exampleLines(examples: AnyCommand["examples"], page: Page): string[] {
  if (examples.length === 0) return [];
  const shown = examples.flatMap(([text, explanation]) => [
    `  ${page.paint.cyan(text)}`,
    ...paragraph(explanation, page, "      "),
  ]);
  return ["", heading("Examples", page), ...shown];
}

export function noteLines(note: Note, page: Page): string[] {
  if (typeof note === "string") return paragraph(note, page);
  const rows = note.rows.map(([term, text]): Row => [term, text]);
  return [heading(note.title, page), ...rowLines(rows, termWidth(rows), page)];
}
