/**
 * Text on a terminal: how wide it is, how to cut and wrap it, how to show what jobs wrote without obeying it, a job's
 * command as a line that can be pasted into a shell, and the pictures of a live view.
 *
 * Everything that comes from a job or a user passes `visible` or `outputLine` before it is printed: no escape sequence,
 * no second line and no reordering of what stands next to it gets through.
 */

import type { Job } from "../core/job.ts";
import type { Paint } from "./style.ts";

/** Control characters, line separators, half surrogates, and marks that are invisible or turn the direction of text. */
const HIDDEN = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}\u00ad\u200b\u2060-\u2064\ufeff\ufff9-\ufffb]/u;
const ALL_HIDDEN = new RegExp(HIDDEN, "gu");
const NAMED: Readonly<Record<string, string>> = { "\n": String.raw`\n`, "\r": String.raw`\r`, "\t": String.raw`\t` };

/** Hidden characters as escapes (`\n`, `\x1b`, `\u202e`); the rest as it is. The answer is one harmless line. */
export function visible(text: string): string {
  return HIDDEN.test(text) ? text.replaceAll(ALL_HIDDEN, escapeOf) : text;
}

/** The same for text that is JSON already, where every escape must be a JSON one. */
export function visibleJson(text: string): string {
  return HIDDEN.test(text) ? text.replaceAll(ALL_HIDDEN, (character) => `\\u${hexOf(character, 4)}`) : text;
}

function escapeOf(character: string): string {
  const short = character.charCodeAt(0) < 0x80;
  return NAMED[character] ?? (short ? `\\x${hexOf(character, 2)}` : `\\u${hexOf(character, 4)}`);
}

function hexOf(character: string, digits: number): string {
  return character.charCodeAt(0).toString(16).padStart(digits, "0");
}

/** Colours are what programs print most; shown as escapes they would bury the text. */
const COLOUR = /\p{Cc}\[[\d;:]*m/gu;
const PAINTED = new RegExp(`(${COLOUR.source})`, "u");

/** A line that a job printed: colours gone, tabs as spaces, all other hidden characters visible. */
export function outputLine(text: string): string {
  return visible(text.replaceAll(COLOUR, "").replaceAll("\t", "    ").trimEnd());
}

const PLAIN = /^[ -~]*$/;

/** Columns that the text takes. Counts what a person sees as one character once; wide ones take two. */
export function displayWidth(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemes(text)) width += graphemeWidth(segment);
  return width;
}

/** At most `width` columns; what was cut leaves an ellipsis. */
export function truncate(text: string, width: number): string {
  if (width <= 0) return "";
  return displayWidth(text) <= width ? text : `${clip(text, width - 1)}…`;
}

/** The same for text that is painted already: colours count nothing, and all of them stay. */
export function truncatePainted(text: string, width: number): string {
  if (paintedWidth(text) <= width) return text;
  let room = Math.max(0, width - 1);
  let kept = "";
  let cut = false;
  for (const part of text.split(PAINTED)) {
    if (PAINTED.test(part)) kept += part;
    else if (!cut) {
      const piece = clip(part, room);
      cut = piece !== part;
      kept += cut && width > 0 ? `${piece}…` : piece;
      room -= displayWidth(piece);
    }
  }
  return kept;
}

export function paintedWidth(text: string): number {
  return displayWidth(text.replaceAll(COLOUR, ""));
}

function clip(text: string, width: number): string {
  if (PLAIN.test(text)) return text.slice(0, width);
  let kept = "";
  let used = 0;
  for (const { segment } of graphemes(text)) {
    used += graphemeWidth(segment);
    if (used > width) break;
    kept += segment;
  }
  return kept;
}

export function pad(text: string, width: number, align: "left" | "right" = "left"): string {
  const space = " ".repeat(Math.max(0, width - displayWidth(text)));
  return align === "right" ? space + text : text + space;
}

/** Lines of at most `width` columns, broken between words; a longer word has a line for itself, colours count nothing. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ").filter((part) => part !== "")) {
    if (line === "") line = word;
    else if (paintedWidth(`${line} ${word}`) <= width) line += ` ${word}`;
    else {
      lines.push(line);
      line = word;
    }
  }
  return line === "" ? lines : [...lines, line];
}

let segmenter: Intl.Segmenter | undefined;

function graphemes(text: string): Intl.Segments {
  // Made when first needed: most runs print plain ASCII and should not pay for it.
  segmenter ??= new Intl.Segmenter("en", { granularity: "grapheme" });
  return segmenter.segment(text);
}

const ZERO_WIDTH = /^[\p{Mn}\p{Me}\p{Cf}\p{Cc}]/u;
/** Shown as a picture by default, or because a variation selector asks for it. */
const PICTURE = /^\p{Emoji_Presentation}|\ufe0f/u;

/** Where wide characters (East Asian Width W and F) begin and are over, in turn, without the pictures. */
const WIDE = [
  0x1100, 0x1160, 0x2329, 0x232b, 0x2e80, 0x303f, 0x3041, 0x4dc0, 0x4e00, 0xa4d0, 0xa960, 0xa980, 0xac00, 0xd7a4,
  0xf900, 0xfb00, 0xfe10, 0xfe1a, 0xfe30, 0xfe70, 0xff01, 0xff61, 0xffe0, 0xffe7, 0x16fe0, 0x18d00, 0x1b000, 0x1b300,
  0x1f200, 0x1f266, 0x20000, 0x3fffe,
];

function graphemeWidth(grapheme: string): number {
  const code = grapheme.codePointAt(0) ?? 0;
  if (code < 0x300 && grapheme.length === 1) return ZERO_WIDTH.test(grapheme) ? 0 : 1;
  if (ZERO_WIDTH.test(grapheme)) return 0;
  if (PICTURE.test(grapheme)) return 2;
  return WIDE.findLastIndex((edge) => code >= edge) % 2 === 0 ? 2 : 1;
}

/** A store's location to be shown. A name may hold `@`, a password that and `:`; it ends before the host. */
export function withoutPassword(location: string): string {
  return location.replace(/^([a-z][a-z\d+.-]*:\/\/[^:/]*):[^/]*@/i, "$1:…@");
}

const BARE = /^[\p{L}\p{N}_@%+=:,./-]+$/u;

/** Quotes stand only where the shell needs them; hidden characters become `$'…'` escapes, safe to print. */
export function quote(word: string): string {
  if (HIDDEN.test(word)) return `$'${visible(word.replaceAll(/[\\']/g, String.raw`\$&`))}'`;
  if (BARE.test(word)) return word;
  if (!word.includes("'")) return `'${word}'`;
  if (!/["$`\\!]/.test(word)) return `"${word}"`;
  return `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

export function quoteArgv(argv: readonly string[]): string {
  const words = argv.map(quote);
  const first = words[0] ?? "";
  // Bare, a first word with `=` would be an assignment.
  if (first === argv[0] && first.includes("=")) words[0] = `'${first}'`;
  return words.join(" ");
}

/** More than any terminal shows, and little enough to measure. */
const INPUT_SHOWN_BYTES = 512;

/** As it was typed, `-c` lines as they are. A job without a command is its input, for the handler of whoever runs it. */
export function commandText(job: Pick<Job, "argv" | "input">): string {
  const [program, flag, line, ...more] = job.argv;
  if (program === "sh" && flag === "-c" && line !== undefined && more.length === 0) return visible(line);
  if (job.argv.length > 0) return quoteArgv(job.argv);
  return job.input === null ? "" : `< ${inputText(job.input)}`;
}

/** The beginning of an input as one line. */
export function inputText(input: Uint8Array): string {
  const text = visible(new TextDecoder().decode(input.subarray(0, INPUT_SHOWN_BYTES)).trimEnd());
  return input.length > INPUT_SHOWN_BYTES ? `${text}…` : text;
}

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

/** Of a terminal that does not tell. */
export const USUAL_SIZE: Size = { columns: 80, rows: 24 };

/** With fewer rows than this the head would take the room of what it is about. */
const HEAD_FROM_ROWS = 6;

/** The lines that fit; a last one tells how many did not, and with them what the text has no lines for. */
export function fitLines(text: string, head: string, { columns, rows }: Size, paint: Paint, unseen = 0): string[] {
  const body = text.replace(/\n+$/, "").split("\n");
  const lines = rows < HEAD_FROM_ROWS ? body : [head, "", ...body];
  const shown = lines.length <= rows ? lines : lines.slice(0, Math.max(0, rows - 1));
  const cut = lines.length - shown.length;
  // A text that has no lines for all says so in its last one, which is none of them.
  const more = unseen > 0 ? cut - 1 + unseen : cut;
  const last = cut > 0 ? [paint.dim(`… ${more.toLocaleString("en")} more`)] : [];
  return [...shown, ...last].map((line) => truncatePainted(line, columns));
}

/** To be written in one piece. */
export function drawLines(lines: readonly string[], { columns, rows }: Size): string {
  // Behind a line that reaches the edge, erasing would take its last character.
  const drawn = lines.map((line) => (paintedWidth(line) < columns ? line + REST_OF_LINE : line));
  const below = lines.length < rows ? `\r\n${REST_OF_SCREEN}` : "";
  return TOGETHER + HOME + drawn.join("\r\n") + below + SHOW;
}
