/**
 * One picture of a live view: text that fits the terminal, and the few sequences that draw it over the last one without
 * scrolling or flicker. Nothing is erased that is drawn again.
 */

import type { Paint } from "./style.ts";
import { paintedWidth, truncatePainted } from "./text.ts";

const CSI = "\u001b[";
/** A screen of its own, no cursor, and lines that end where the terminal does, should one be measured wrong. */
export const ENTER = `${CSI}?1049h${CSI}?25l${CSI}?7l${CSI}2J`;
export const LEAVE = `${CSI}?7h${CSI}?25h${CSI}?1049l`;
const HOME = `${CSI}H`;
const REST_OF_LINE = `${CSI}K`;
const REST_OF_SCREEN = `${CSI}J`;
/** The terminal shows what is between these two at once, where it can. */
const TOGETHER = `${CSI}?2026h`;
const SHOW = `${CSI}?2026l`;

export interface Size {
  columns: number;
  rows: number;
}

/** With fewer rows than this the head would take the room of what it is about. */
const HEAD_FROM_ROWS = 6;

/** The lines that fit; a last one tells how many did not. */
export function fitLines(text: string, head: string, { columns, rows }: Size, paint: Paint): string[] {
  const body = text.replace(/\n+$/, "").split("\n");
  const lines = rows < HEAD_FROM_ROWS ? body : [head, "", ...body];
  const shown = lines.length <= rows ? lines : lines.slice(0, Math.max(0, rows - 1));
  const more = lines.length - shown.length;
  const last = more > 0 ? [paint.dim(`… ${more} more`)] : [];
  return [...shown, ...last].map((line) => truncatePainted(line, columns));
}

/** To be written in one piece. */
export function drawLines(lines: readonly string[], { columns, rows }: Size): string {
  // Behind a line that reaches the edge, erasing would take its last character.
  const drawn = lines.map((line) => (paintedWidth(line) < columns ? line + REST_OF_LINE : line));
  const below = lines.length < rows ? `\r\n${REST_OF_SCREEN}` : "";
  return TOGETHER + HOME + drawn.join("\r\n") + below + SHOW;
}
