/**
 * Text on a terminal: how wide it is, how to cut and wrap it, and how to show what jobs wrote without obeying it.
 *
 * Everything that comes from a job or a user passes `visible` or `outputLine` before it is printed: no escape sequence,
 * no second line and no reordering of what stands next to it gets through.
 */

/** Control characters, line separators, half surrogates, and marks that are invisible or turn the direction of text. */
const HIDDEN = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}\u00ad\u200b\u2060-\u2064\ufeff\ufff9-\ufffb]/u;
const ALL_HIDDEN = new RegExp(HIDDEN, "gu");
const NAMED: Readonly<Record<string, string>> = { "\n": String.raw`\n`, "\r": String.raw`\r`, "\t": String.raw`\t` };

export function hasHidden(text: string): boolean {
  return HIDDEN.test(text);
}

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

/** Blocks of wide characters (East Asian Width W and F), without the pictures, as from–to pairs. */
const WIDE: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x2329, 0x232a],
  [0x2e80, 0x303e],
  [0x3041, 0x4dbf],
  [0x4e00, 0xa4cf],
  [0xa960, 0xa97f],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe10, 0xfe19],
  [0xfe30, 0xfe6f],
  [0xff01, 0xff60],
  [0xffe0, 0xffe6],
  [0x16fe0, 0x18cff],
  [0x1b000, 0x1b2ff],
  [0x1f200, 0x1f265],
  [0x20000, 0x3fffd],
];

function graphemeWidth(grapheme: string): number {
  const code = grapheme.codePointAt(0) ?? 0;
  if (code < 0x300 && grapheme.length === 1) return ZERO_WIDTH.test(grapheme) ? 0 : 1;
  if (ZERO_WIDTH.test(grapheme)) return 0;
  if (PICTURE.test(grapheme)) return 2;
  return WIDE.some(([from, to]) => code >= from && code <= to) ? 2 : 1;
}

/** A store's location to be shown. A password may hold `@` and `:`; it ends before the host. */
export function withoutPassword(location: string): string {
  return location.replace(/^([a-z][a-z\d+.-]*:\/\/[^:@/]*):[^/]*@/i, "$1:…@");
}
