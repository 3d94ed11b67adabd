/** How help is set: headings, paragraphs, and rows of a term and its text, all wrapped to the width of the page. */

import type { Paint } from "../view/style.ts";
import { displayWidth, pad, wrap } from "../view/text.ts";

export interface Page {
  /** Columns that a line may take. */
  width: number;
  paint: Paint;
}

/** A term, its text, and what stands behind the text in a quieter voice. */
export type Row = readonly [term: string, text: string, aside?: string];

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

export function heading(text: string, { paint }: Page): string {
  return paint.bold(text);
}

export function paragraph(text: string, { width }: Page, indent = ""): string[] {
  return wrap(text, width - indent.length).map((line) => indent + line);
}

/** The width of the term column that `rows` share; longer terms get a line for themselves. */
export function termWidth(rows: readonly Row[]): number {
  const fitting = rows.map(([term]) => displayWidth(term)).filter((width) => width <= WIDEST_TERM);
  return Math.max(0, ...fitting);
}

export function rowLines(rows: readonly Row[], term_width: number, page: Page): string[] {
  const room = page.width - INDENT.length - term_width - GAP;
  return rows.flatMap((row) => (room < BESIDE_FROM ? stacked(row, page) : beside(row, term_width, page)));
}

function beside([term, text, aside]: Row, term_width: number, page: Page): string[] {
  const left = " ".repeat(INDENT.length + term_width + GAP);
  const lines = textLines(text, aside, page.width - left.length, page.paint);
  const shown = INDENT + page.paint.cyan(pad(term, term_width));
  const space = " ".repeat(GAP);
  if (displayWidth(term) > term_width) return [shown, ...lines.map((line) => left + line)];
  if (lines.length === 0) return [shown.trimEnd()];
  return lines.map((line, index) => (index === 0 ? shown + space + line : left + line));
}

function stacked([term, text, aside]: Row, page: Page): string[] {
  const left = INDENT.repeat(3);
  const lines = textLines(text, aside, page.width - left.length, page.paint);
  return [INDENT + page.paint.cyan(term.trimStart()), ...lines.map((line) => left + line)];
}

function textLines(text: string, aside: string | undefined, width: number, paint: Paint): string[] {
  if (aside === undefined) return wrap(text, width);
  // A short aside stays on one line; a long one is painted word by word, so that no line ends inside a colour.
  const quiet =
    displayWidth(aside) <= UNBROKEN
      ? paint.dim(aside.replaceAll(" ", GLUE))
      : aside
          .split(" ")
          .map((word) => paint.dim(word))
          .join(" ");
  return wrap(`${text} ${quiet}`, width).map((line) => line.replaceAll(GLUE, " "));
}
