/**
 * Colour. Every view takes a `Paint` and never asks whether there is a terminal: `plain` leaves text as it is, `ansi`
 * colours it. What is painted has been measured, cut and padded before.
 */

import type { Cause, ShownState } from "../core/job.ts";

type Style = (text: string) => string;

const SGR = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, magenta: 35, cyan: 36 } as const;

export type Paint = Readonly<Record<keyof typeof SGR, Style>>;

/** How a view is shown: the moment that "now" means, the terminal's width (null: as wide as needed), colour or not. */
export interface Screen {
  now_ms: number;
  width: number | null;
  paint: Paint;
}

const same: Style = (text) => text;

export const plain: Paint = paintWith(() => same);

export const ansi: Paint = paintWith((code) => (text) => (text === "" ? "" : `\u001b[${code}m${text}\u001b[0m`));

function paintWith(style: (code: number) => Style): Paint {
  return Object.fromEntries(Object.entries(SGR).map(([name, code]) => [name, style(code)])) as Paint;
}

const STATE_STYLES: Readonly<Record<ShownState, keyof Paint | null>> = {
  blocked: "dim",
  scheduled: "dim",
  pending: null,
  retrying: "yellow",
  running: "cyan",
  cancelling: "yellow",
  completed: "green",
  failed: "red",
  cancelled: "magenta",
};

export function paintState(paint: Paint, state: ShownState): Style {
  const style = STATE_STYLES[state];
  return style === null ? same : paint[style];
}

export function paintCause(paint: Paint, cause: Cause | null): Style {
  if (cause === null) return paint.cyan;
  if (cause === "success") return paint.green;
  return cause === "cancelled" || cause === "returned" ? paint.magenta : paint.red;
}
