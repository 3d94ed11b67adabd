/**
 * Help: the page of a command, made from the definition that its lines are read by, so that the two can't disagree, and
 * the first page, which knows the commands by name and description only. Set in headings, paragraphs, and rows of a term
 * and its text, all wrapped to the width of the page.
 */

import { COMMAND_SETTINGS } from "../config/command_settings.ts";
import { variableName } from "../config/settings.ts";
import { ansi, plain, type Paint } from "../view/style.ts";
import { displayWidth, pad, wrap } from "../view/text.ts";
import type { AnyCommand, Commands, Note } from "./command.ts";
import { aliasesOf, COLOR_CHOICES, flagName, SHARED_FLAGS, type FlagDef } from "./flags.ts";
import { wantsColor, type Io } from "./io.ts";
import type { ParsedLine } from "./strict.ts";

type Asked = Pick<ParsedLine, "args" | "given">;

/** citty's `showUsage`, in our words. */
export function showUsage(command: AnyCommand, asked: Asked, io: Io): void {
  io.stdout(commandHelp(command, pageOf(asked, io)));
}

export function showFirstPage(commands: Commands, asked: Asked, io: Io, { whole }: { whole: boolean }): void {
  io.stdout(firstPage(commands, pageOf(asked, io), whole));
}

function pageOf({ args, given }: Asked, io: Io): Page {
  // Help is there for those whose settings are wrong, so no file is read for it, and nothing is refused.
  const asked = given.has("color") ? args["color"] : io.env["LEASE_COLOR"];
  const choice = COLOR_CHOICES.find((color) => color === asked) ?? "auto";
  return { width: pageWidth(io.columns), paint: wantsColor(choice, io) ? ansi : plain };
}

/** Headings of flags that have none of their own. */
export const OWN = "Flags";
export const SHARED = "Flags of every command";
/** Longer lists of options stand in the text instead of beside the name. */
const LONGEST_OPTIONS = 27;

export function commandHelp(command: AnyCommand, page: Page): string {
  const { meta, operands, examples, notes } = command;
  const flags = flagTables(command);
  // One column for all of them: the eye runs down a single edge.
  const width = termWidth(flags.flatMap(({ rows }) => rows));
  return pageText([
    paragraph(`${meta.description}.`, page),
    usage(`lease ${meta.name} [FLAGS] ${operands}`.trimEnd(), page),
    ...flags.map((table) => tableLines(table, page, width)),
    ...(examples.length === 0 ? [] : [exampleLines(examples, page)]),
    ...[...settingsNotes(command), ...notes].map((note) => noteLines(note, page)),
  ]);
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

/** The flags under their headings, those without one first. */
export function flagTables({ flags, repeat }: AnyCommand): Table[] {
  const tables = new Map<string, HelpRow[]>([[OWN, []]]);
  for (const [key, flag] of Object.entries(flags)) {
    if (flag.hidden) continue;
    const title = key in SHARED_FLAGS ? SHARED : (flag.section ?? OWN);
    tables.set(title, [...(tables.get(title) ?? []), ...flagRows(key, flag, repeat.includes(key))]);
  }
  return [...tables].map(([title, rows]) => ({ title, rows })).filter(({ rows }) => rows.length > 0);
}

export function flagRows(key: string, flag: FlagDef, repeatable: boolean): HelpRow[] {
  const { description = "" } = flag;
  const short = aliasesOf(flag).find((alias) => alias.length === 1);
  const names = `${short === undefined ? "   " : `-${short},`} --${flagName(key)}`;
  if (flag.type !== "boolean") return [[`${names} ${hint(flag)}`, description, remarks(flag, repeatable)]];
  if (flag.negativeDescription === undefined) return [[names, description, remarks(flag, false)]];
  const negative: HelpRow = [`    --no-${flagName(key)}`, flag.negativeDescription];
  // On by default, the flag itself says nothing new.
  return flag.default === true ? [negative] : [[names, description], negative];
}

function hint(flag: FlagDef): string {
  if (flag.type === "string") return flag.value.hint;
  if (flag.type !== "enum") return "";
  if (flag.valueHint !== undefined) return flag.valueHint;
  const options = flag.options.join("|");
  return options.length <= LONGEST_OPTIONS ? options : "VALUE";
}

function remarks(flag: FlagDef, repeatable: boolean): string {
  const known = flag.type === "boolean" ? undefined : (flag.fallback ?? flag.default);
  const listed = flag.type === "enum" && !hint(flag).includes("|");
  const parts = [
    ...(listed ? [`one of ${flag.options.join(", ")}`] : []),
    ...(repeatable ? ["can be repeated"] : []),
    ...(known === undefined ? [] : [`default: ${known}`]),
  ];
  return parts.length === 0 ? "" : `(${parts.join("; ")})`;
}

function exampleLines(examples: AnyCommand["examples"], page: Page): string[] {
  const lines = examples.flatMap(([text, explanation]) => [
    `  ${page.paint.cyan(text)}`,
    ...paragraph(explanation, page, "      "),
  ]);
  return [page.paint.bold("Examples"), ...lines];
}

function noteLines(note: Note, page: Page): string[] {
  return typeof note === "string" ? paragraph(note, page) : tableLines(note, page);
}

function usage(line: string, page: Page): string[] {
  return [page.paint.bold("Usage"), ...paragraph(line, page, INDENT)];
}

export const WHAT =
  "A durable queue for shell jobs in one executable: each job runs under a lease that lasts while it prints, and goes " +
  "to someone else when it hangs or its worker dies.";

export const FIRST_STEPS: readonly HelpRow[] = [
  ["lease enqueue -- ./build.sh", "queue a command; prints the job's id"],
  ["lease worker -j 4", "run what is queued, four at a time"],
  ["lease inspect", "see what is going on"],
];

export const ENVIRONMENT = {
  title: "Environment",
  rows: [
    ["LEASE_STORE", "the store, like --store; also LEASE_COLOR, LEASE_VERBOSE, LEASE_CONFIG"],
    ["LEASE_WORKER_SLOTS", "-j of lease worker, and so on: LEASE_, the command, the flag"],
    ["NO_COLOR", "no colour, if set to anything"],
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "where to send traces of jobs; other OTEL_* variables as OpenTelemetry has them"],
  ],
} as const;

export const FILES = {
  title: "Files",
  rows: [
    ["lease.toml", "settings for flags that are not given: here, or in $XDG_CONFIG_HOME/lease (~/.config/lease)"],
    ["lease.db", "the store, in $XDG_STATE_HOME/lease (~/.local/state/lease)"],
  ],
} as const;

export const IN_A_JOB = {
  title: "Environment of a job",
  rows: [
    ["LEASE_JOB_ID", "its id; also LEASE_QUEUE, LEASE_TASK, LEASE_KEY"],
    ["LEASE_ATTEMPT", "which run of the job this is, from 1"],
    ["LEASE_TOKEN", "the fence: higher with every run"],
    ["LEASE_CHECKPOINT", "what the job's last lease checkpoint said"],
    ["LEASE_ARRAY_INDEX", "which number of an --array it is"],
    ["LEASE_FAILED_JOB", "of an --on-failed: what failed; also LEASE_FAILED_ATTEMPT, _CAUSE, _ERROR, _LAST_LINES"],
    ["LEASE_OUTPUT", "a file; what the job writes there is its result"],
    ["LEASE_STORE", "where lease beat and lease checkpoint write; also LEASE_WORKER_ID"],
    ["LEASE_INTERVAL", "at most one extension of its lease per; LEASE_EXTENSION is what a beat adds"],
    ["TRACEPARENT", "its place in a trace: its attempt where that is traced, else that of whoever enqueued it"],
  ],
} as const;

export const EXIT_STATUS = {
  title: "Exit codes",
  rows: [
    ["0", "fine"],
    ["1", "the answer is no: a job failed, nothing matched"],
    ["2", "usage: unknown flag, missing value, settings that contradict each other"],
    ["3, 4", "lease beat: cancel was requested, the lease is lost"],
    ["124", "a job's timeout"],
    ["125", "lease itself failed"],
    ["126, 127", "the command is not executable, is not found"],
    ["128+n", "ended by signal n"],
    ["other", "lease run and lease wait: the job's own code"],
  ],
} as const;

/** Not `whole`, for `lease` alone: enough to go on with. */
function firstPage(commands: Commands, page: Page, whole: boolean): string {
  const groups = Map.groupBy(Object.entries(commands), ([, { group }]) => group);
  const rowsOf = (group: [string, Commands[string]][]) =>
    group.map(([name, { description, short }]) => [name, description, shortNames(short)] as const);
  const width = termWidth(rowsOf(Object.entries(commands)));
  const notes = whole ? [ENVIRONMENT, FILES, IN_A_JOB, EXIT_STATUS] : [];
  const more = whole ? " and its flags." : ", lease help about all of them.";
  return pageText([
    paragraph(WHAT, page),
    ...(whole ? [usage("lease COMMAND [FLAGS] …", page)] : []),
    tableLines({ title: "First steps", rows: FIRST_STEPS }, page),
    ...[...groups]
      .slice(0, whole ? groups.size : 1)
      .map(([title, group]) => tableLines({ title, rows: rowsOf(group) }, page, width)),
    ...(whole ? [] : [othersLines([...groups].slice(1), page)]),
    ...notes.map((note) => tableLines(note, page)),
    paragraph(`lease COMMAND --help tells about a command${more}`, page),
  ]);
}

/** So that the beginning of the page is still on the screen at its end. */
function othersLines(groups: readonly (readonly [string, [string, Commands[string]][]])[], page: Page): string[] {
  const rows = groups.map(([title, group]) => [title, group.map(([name]) => name).join(", ")] as const);
  return tableLines({ title: "Others", rows }, page);
}

/** `(ls = inspect jobs, status)`: a name that stands for more than the command says for what. */
function shortNames(short: Commands[string]["short"] = {}): string {
  const names = Object.entries(short).map(([name, words]) =>
    words.length > 1 ? `${name} = ${words.join(" ")}` : name,
  );
  return names.length === 0 ? "" : `(${names.join(", ")})`;
}

interface Page {
  /** Columns that a line may take. */
  width: number;
  paint: Paint;
}

/** A term, its text, and what stands behind the text in a quieter voice. */
type HelpRow = readonly [term: string, text: string, aside?: string];

interface Table {
  title: string;
  rows: readonly HelpRow[];
}

const INDENT = "  ";
const GAP = 3;
/** With less room than this, a text beside its term would be a tower of single words. */
const BESIDE_FROM = 24;
/** A space that `wrap` does not break at. */
const GLUE = "\u00a0";
const UNBROKEN = 22;
const LONGEST_LINE = 110;
const WIDEST_TERM = 30;

/** Null for a terminal of unknown width; lines longer than a person reads with ease help nobody. */
export function pageWidth(columns: number | null): number {
  return Math.max(20, Math.min(columns ?? 80, LONGEST_LINE));
}

/** What stands apart has an empty line between. */
function pageText(blocks: readonly (readonly string[])[]): string {
  return `${blocks.map((lines) => lines.join("\n")).join("\n\n")}\n`;
}

function paragraph(text: string, { width }: Page, indent = ""): string[] {
  return wrap(text, width - indent.length).map((line) => indent + line);
}

/** The width of the term column that `rows` share; longer terms get a line for themselves. */
function termWidth(rows: readonly HelpRow[]): number {
  const fitting = rows.map(([term]) => displayWidth(term)).filter((width) => width <= WIDEST_TERM);
  return Math.max(0, ...fitting);
}

function tableLines({ title, rows }: Table, page: Page, term_width = termWidth(rows)): string[] {
  const room = page.width - INDENT.length - term_width - GAP;
  const lines = rows.flatMap((row) => (room < BESIDE_FROM ? stacked(row, page) : beside(row, term_width, page)));
  return [page.paint.bold(title), ...lines];
}

function beside([term, text, aside]: HelpRow, term_width: number, page: Page): string[] {
  const left = " ".repeat(INDENT.length + term_width + GAP);
  const lines = textLines(text, aside, page.width - left.length, page.paint);
  const shown = INDENT + page.paint.cyan(pad(term, term_width));
  const space = " ".repeat(GAP);
  if (displayWidth(term) > term_width) return [shown, ...lines.map((line) => left + line)];
  if (lines.length === 0) return [shown.trimEnd()];
  return lines.map((line, index) => (index === 0 ? shown + space + line : left + line));
}

function stacked([term, text, aside]: HelpRow, page: Page): string[] {
  const left = INDENT.repeat(3);
  const lines = textLines(text, aside, page.width - left.length, page.paint);
  return [INDENT + page.paint.cyan(term.trimStart()), ...lines.map((line) => left + line)];
}

function textLines(text: string, aside: string | undefined, width: number, paint: Paint): string[] {
  if (aside === undefined) return wrap(text, width);
  // A short aside stays on one line; a long one is painted word by word, so that no line ends inside a colour.
  const unbroken = displayWidth(aside) <= UNBROKEN ? aside.replaceAll(" ", GLUE) : aside;
  const quiet = unbroken.split(" ").map(paint.dim).join(" ");
  return wrap(`${text} ${quiet}`, width).map((line) => line.replaceAll(GLUE, " "));
}
