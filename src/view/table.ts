/**
 * Tables: a header, one rule, rows. Columns are as wide as their content; where the terminal is narrower, titles are
 * shortened first, then empty columns and those that may go are left out, then those that may shrink are cut with an
 * ellipsis.
 */

import type { Screen } from "./style.ts";
import { displayWidth, pad, truncate, visible, wrap } from "./text.ts";

export interface Cell {
  text: string;
  style?: (text: string) => string;
}

export interface Column<Row> {
  title: string;
  /** Used instead where the terminal is narrow. */
  short_title?: string;
  /** Null or an empty text: nothing to show. */
  cell: (row: Row) => Cell | string | number | null;
  align?: "left" | "right";
  /** Appears only when a row has something in it, or something that this calls worth a column. */
  optional?: true | ((row: Row) => boolean);
  /** May be cut down to this width. */
  shrink_to?: number;
  /** May be left out; the highest goes first. */
  drop?: number;
}

interface Drawn extends Omit<Column<never>, "cell" | "optional"> {
  cells: Cell[];
  width: number;
}

const GAP = "  ";
const NOTHING = "·";
const NARROWEST = 2;

/** Ends without a newline. */
export function renderTable<Row>(columns: readonly Column<Row>[], rows: readonly Row[], screen: Screen): string {
  const drawn = columns.filter((column) => isUsed(column, rows)).map((column) => draw(column, rows));
  const shown = screen.width === null ? drawn : fit(drawn, screen.width);
  const { paint } = screen;
  const header = line(shown, (column) => ({ text: column.title, style: paint.bold }));
  const rule = paint.dim("─".repeat(total(shown, (column) => column.width)));
  const body = rows.map((_, index) =>
    line(shown, (column) => {
      const cell = column.cells[index] ?? { text: "" };
      return cell.text === "" ? { text: NOTHING, style: paint.dim } : cell;
    }),
  );
  return [header, rule, ...body].join("\n");
}

/** The same with a newline, or what to say where there is nothing to list. */
export function renderList<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  screen: Screen,
  nothing: string,
): string {
  return `${rows.length === 0 ? nothing : renderTable(columns, rows, screen)}\n`;
}

function cellOf<Row>(column: Column<Row>, row: Row): Cell {
  const cell = column.cell(row) ?? "";
  return typeof cell === "object" ? cell : { text: String(cell) };
}

function isUsed<Row>(column: Column<Row>, rows: readonly Row[]): boolean {
  const { optional } = column;
  if (optional === undefined) return true;
  return rows.some(optional === true ? (row) => cellOf(column, row).text !== "" : optional);
}

function draw<Row>(column: Column<Row>, rows: readonly Row[]): Drawn {
  const cells = rows.map((row) => {
    const cell = cellOf(column, row);
    return { ...cell, text: visible(cell.text) };
  });
  const { cell: _cell, optional: _optional, ...shape } = column;
  return { ...shape, cells, width: naturalWidth(column.title, cells) };
}

function naturalWidth(title: string, cells: readonly Cell[]): number {
  return cells.reduce((widest, { text }) => Math.max(widest, displayWidth(text)), displayWidth(title));
}

function fit(columns: readonly Drawn[], width: number): Drawn[] {
  let shown = [...columns];
  const least = (column: Drawn): number => Math.min(column.width, column.shrink_to ?? column.width);
  if (total(shown, (column) => column.width) > width) {
    shown = shown.map((column) => {
      const title = column.short_title ?? column.title;
      return { ...column, title, width: naturalWidth(title, column.cells) };
    });
  }
  while (total(shown, least) > width) {
    const empty = shown.findLast(({ cells }) => cells.every(({ text }) => text === ""));
    const next = empty ?? shown.reduce<Drawn | null>((a, b) => ((b.drop ?? -1) > (a?.drop ?? -1) ? b : a), null);
    if (next === null) break;
    shown = shown.filter((column) => column !== next);
  }
  const cut = shrink(shown, width);
  // Narrower than the columns were made for: unreadable in any case, but lines that wrap would be worse.
  const cuttable = (column: Drawn) => ({ ...column, shrink_to: Math.min(column.width, NARROWEST) });
  // What a row is about, such as its id, is of no use when it is cut: it goes last.
  const but_first = cut.map((column, index) => (index === 0 ? column : cuttable(column)));
  return shrink(shrink(but_first, width).map(cuttable), width);
}

/** Takes from the widest first, so that what has to be cut is cut evenly. */
function shrink(columns: readonly Drawn[], width: number): Drawn[] {
  const shown = columns.map((column) =>
    column.shrink_to === undefined
      ? column
      : { ...column, width: Math.min(column.width, Math.max(width, column.shrink_to)) },
  );
  while (total(shown, (column) => column.width) > width) {
    const widest = shown
      .filter(({ width: own_width, shrink_to = own_width }) => own_width > shrink_to)
      .reduce<Drawn | null>((a, b) => (a === null || b.width > a.width ? b : a), null);
    if (widest === null) break;
    widest.width -= 1;
  }
  return shown;
}

function total(columns: readonly Drawn[], widthOf: (column: Drawn) => number): number {
  return columns.reduce((sum, column) => sum + widthOf(column), 0) + GAP.length * Math.max(0, columns.length - 1);
}

function line(columns: readonly Drawn[], cellFor: (column: Drawn) => Cell): string {
  const cells = columns.map((column, index) => {
    const { text, style = (same: string) => same } = cellFor(column);
    const cut = truncate(text, column.width);
    const space = " ".repeat(Math.max(0, column.width - displayWidth(cut)));
    if (column.align === "right") return space + style(cut);
    // Painted without its padding, and the last one without any: nothing trails behind a line.
    return index === columns.length - 1 ? style(cut) : style(cut) + space;
  });
  return cells.join(GAP);
}

/** Rows of a label and a text, the labels in one column, the texts wrapped beside them; ends without a newline. */
export function renderPairs(pairs: readonly (readonly [label: string, text: string])[], screen: Screen): string {
  const width = pairs.reduce((widest, [label]) => Math.max(widest, displayWidth(label)), 0);
  const indent = " ".repeat(width) + GAP;
  const room = screen.width === null ? Number.POSITIVE_INFINITY : Math.max(1, screen.width - indent.length);
  return pairs
    .map(([label, text]) => screen.paint.dim(pad(label, width)) + GAP + wrap(text, room).join(`\n${indent}`))
    .join("\n");
}
