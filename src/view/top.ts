/** `lease top`: a screen of jobs with one of them chosen, or the log of one. Data in, lines out. */

import { isFinished, shownState, type Job, type ShownState } from "../core/job.ts";
import { paintState, type Screen } from "./style.ts";
import { commandText, displayWidth, outputLine, pad, truncate, visible, type Size } from "./text.ts";
import { coarse } from "./time.ts";

export interface TopRow {
  job: Job;
  /** What it printed last, what it tells about itself, or why it does not run. */
  note: string | null;
}

export interface TopFacts {
  counts: Readonly<Partial<Record<ShownState, number>>>;
  workers: number;
  tabs: readonly string[];
  tab: number;
  sort: string;
  filter: string;
  rows: readonly TopRow[];
  chosen: number;
  /** What is asked or was answered last; else the keys are shown. */
  message: string | null;
}

const HEAD_ROWS = 3;
const FOOT_ROWS = 1;
const COUNTED = ["running", "pending", "scheduled", "blocked", "completed", "failed", "cancelled"] as const;
/** As many as fit; the last always do. */
const KEYS = [
  "↑↓ choose  enter log  c cancel  r retry  p pause  + - priority  / filter  s sort  tab view  q quit",
  "↑↓ enter log  c cancel  r retry  p pause  +- priority  / find  s sort  tab  q",
  "enter log  c cancel  r retry  / find  q quit",
  "enter log  c cancel  r retry  q quit",
];
/** With less room the queue is left out, then the note. */
const QUEUE_FROM_COLUMNS = 70;
const NOTE_FROM_COLUMNS = 50;

/** How many jobs fit. */
function topRoom({ rows }: Size): number {
  return Math.max(1, rows - HEAD_ROWS - FOOT_ROWS);
}

export function topLines(facts: TopFacts, size: Size, screen: Screen): string[] {
  const { paint } = screen;
  const room = topRoom(size);
  const first = Math.max(0, Math.min(facts.chosen - room + 1, facts.rows.length - room));
  const shown = facts.rows.slice(first, first + room);
  const widths = roomFor(size.columns, facts.rows);
  const lines = shown.map((row, index) => jobLine(row, first + index === facts.chosen, widths, screen));
  const empty = facts.rows.length === 0 ? [paint.dim(facts.filter === "" ? "no jobs here" : "no job matches")] : [];
  const filler = Array.from({ length: Math.max(0, room - lines.length - empty.length) }, () => "");
  const keys = KEYS.find((line) => displayWidth(line) <= size.columns) ?? KEYS.at(-1) ?? "";
  const foot = facts.message ?? keys;
  return [
    headLine(facts, screen),
    tabLine(facts, screen),
    titleLine(widths, screen),
    ...lines,
    ...empty,
    ...filler,
  ].concat(facts.message === null ? paint.dim(foot) : paint.yellow(visible(foot)));
}

function headLine({ counts, workers }: TopFacts, { paint }: Screen): string {
  const parts = COUNTED.flatMap((state) => {
    const count = counts[state] ?? 0;
    return count === 0 ? [] : [paintState(paint, state)(`${count} ${state}`)];
  });
  const all = parts.length === 0 ? "nothing queued" : parts.join("  ");
  return `${paint.bold("lease top")}  ${all}  ${paint.dim(workers === 1 ? "1 worker" : `${workers} workers`)}`;
}

function tabLine({ tabs, tab, sort, filter }: TopFacts, { paint }: Screen): string {
  const names = tabs.map((name, index) => (index === tab ? paint.bold(`[${name}]`) : paint.dim(` ${name} `)));
  const match = filter === "" ? "" : `  ${paint.cyan(`/${visible(filter)}`)}`;
  return `${names.join("")}  ${paint.dim(`by ${sort}`)}${match}`;
}

const STATE = 10;
const QUEUE = 12;
const TIME = 5;

interface Widths {
  id: number;
  queue: boolean;
  command: number;
  note: number;
}

/** The ids have what they need; what is left is for the command and the note together. */
function roomFor(columns: number, rows: readonly TopRow[]): Widths {
  const queue = columns >= QUEUE_FROM_COLUMNS;
  const id = rows.reduce((widest, { job }) => Math.max(widest, String(job.id).length), "ID".length);
  const left = columns - 2 - id - 1 - STATE - 1 - (queue ? QUEUE + 1 : 0) - TIME - 2;
  if (columns < NOTE_FROM_COLUMNS) return { id, queue, command: Math.max(4, left), note: 0 };
  const command = Math.max(10, Math.floor(left * 0.5));
  return { id, queue, command, note: Math.max(0, left - command - 2) };
}

function titleLine({ id, queue, command, note }: Widths, { paint }: Screen): string {
  const titles = [pad("ID", id, "right"), pad("STATE", STATE), ...(queue ? [pad("QUEUE", QUEUE)] : [])];
  const rest = `${pad("FOR", TIME, "right")}  ${pad("COMMAND", command)}${note > 0 ? "  LAST LINE" : ""}`;
  return paint.dim(`  ${titles.join(" ")} ${rest}`.trimEnd());
}

function jobLine({ job, note }: TopRow, chosen: boolean, room: Widths, { paint, now_ms }: Screen): string {
  const state = shownState(job);
  const cell = (text: string, width: number) => pad(truncate(visible(text), width), width);
  const parts = [
    pad(String(job.id), room.id, "right"),
    paintState(paint, state)(cell(state, STATE)),
    ...(room.queue ? [cell(job.queue, QUEUE)] : []),
    pad(coarse(Math.max(0, now_ms - sinceOf(job))), TIME, "right"),
  ];
  const said = room.note > 0 ? `  ${paint.dim(truncate(outputLine(note ?? ""), room.note))}` : "";
  const line = `${parts.join(" ")}  ${cell(commandText(job), room.command)}${said}`.trimEnd();
  return chosen ? `${paint.bold(paint.cyan("▸"))} ${line}` : `  ${line}`;
}

/** Since when it is what it is. */
function sinceOf({ state, created_at_ms, started_at_ms }: Job): number {
  if ("finished_at_ms" in state) return state.finished_at_ms;
  return state.name === "running" ? (started_at_ms ?? created_at_ms) : created_at_ms;
}

/** The log of one job, its end last, under what it is about. */
export function topLogLines(job: Job, lines: readonly string[], size: Size, { paint }: Screen): string[] {
  const state = shownState(job);
  const head = `${paint.bold(`job ${job.id}`)} ${paintState(paint, state)(state)}  ${visible(commandText(job))}`;
  const room = Math.max(1, size.rows - 2);
  const nothing = paint.dim(isFinished(job.state) ? "it printed nothing" : "it has printed nothing so far");
  const shown = lines.length === 0 ? [nothing] : lines.slice(-room).map((line) => outputLine(line));
  const filler = Array.from({ length: room - shown.length }, () => "");
  return [head, ...shown, ...filler, paint.dim("esc back  c cancel  r retry  q quit")];
}
