/**
 * The colours of a terminal as words, and nothing else of what a job prints: every other escape sequence is dropped, and
 * text stays text. Colours are the sixteen that a theme can make readable; others become the nearest of them.
 */

export interface Style {
  color: number | null;
  background: number | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
}

export interface Span {
  text: string;
  /** Class names; empty for plain text. */
  style: string;
}

export const PLAIN: Style = {
  color: null,
  background: null,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
};

// Control sequences (colours end with m), strings that a terminal keeps to itself, and single characters behind escape.
const ESCAPES =
  // oxlint-disable-next-line no-control-regex
  /\u001b\[([0-?]*)[ -/]*([@-~])|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\|$)|\u001b[ -/]*[0-~]?|\u009b[0-?]*[ -/]*[@-~]/g;
// oxlint-disable-next-line no-control-regex
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;
/** What turns the direction of text would put it where it is not. */
const TURNING = /[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]/g;

/** The spans of one line, and the style that the next one begins with. */
export function spansOf(line: string, before: Style = PLAIN): { spans: Span[]; after: Style } {
  const spans: Span[] = [];
  let style = before;
  let at = 0;
  const add = (raw: string) => {
    const text = raw.replaceAll(CONTROLS, "�").replaceAll(TURNING, "�");
    if (text === "") return;
    const name = classOf(style);
    const last = spans.at(-1);
    if (last?.style === name) last.text += text;
    else spans.push({ text, style: name });
  };
  for (const match of line.matchAll(ESCAPES)) {
    add(line.slice(at, match.index));
    at = match.index + match[0].length;
    if (match[2] === "m") style = turned(style, (match[1] ?? "").split(/[;:]/).map(Number));
  }
  add(line.slice(at));
  return { spans, after: style };
}

/** Without any colours. */
export function plainText(line: string): string {
  return spansOf(line)
    .spans.map(({ text }) => text)
    .join("");
}

function classOf({ color, background, bold, dim, italic, underline }: Style): string {
  const names = [
    color === null ? "" : `c${color}`,
    background === null ? "" : `b${background}`,
    bold ? "bold" : "",
    dim ? "dim" : "",
    italic ? "italic" : "",
    underline ? "underline" : "",
  ];
  return names.filter(Boolean).join(" ");
}

const SWITCHES: Readonly<Record<number, Partial<Style>>> = {
  0: PLAIN,
  1: { bold: true },
  2: { dim: true },
  3: { italic: true },
  4: { underline: true },
  22: { bold: false, dim: false },
  23: { italic: false },
  24: { underline: false },
  39: { color: null },
  49: { background: null },
};

function turned(style: Style, codes: readonly number[]): Style {
  const now = { ...style };
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i] ?? 0;
    if (code === 38 || code === 48) {
      const [color, used] = extended(codes.slice(i + 1));
      now[code === 38 ? "color" : "background"] = color;
      i += used;
    } else if (SWITCHES[code] !== undefined) Object.assign(now, SWITCHES[code]);
    else if (code >= 30 && code <= 37) now.color = code - 30;
    else if (code >= 90 && code <= 97) now.color = code - 82;
    else if (code >= 40 && code <= 47) now.background = code - 40;
    else if (code >= 100 && code <= 107) now.background = code - 92;
  }
  return now;
}

/** `5;N` of 256 colours, `2;R;G;B`: the nearest of sixteen, and how many codes it took. */
function extended(codes: readonly number[]): [color: number | null, used: number] {
  const [kind, a = 0, b = 0, c = 0] = codes;
  if (kind === 2) return [nearestColor(a, b, c), 4];
  if (kind !== 5) return [null, 0];
  if (a < 16) return [a, 2];
  if (a >= 232) return [nearestColor(8 + (a - 232) * 10, 8 + (a - 232) * 10, 8 + (a - 232) * 10), 2];
  const cube = a - 16;
  const level = (step: number) => (step === 0 ? 0 : 55 + step * 40);
  return [nearestColor(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)), 2];
}

function nearestColor(red: number, green: number, blue: number): number {
  const most = Math.max(red, green, blue);
  const least = Math.min(red, green, blue);
  if (most - least < 40) return most < 64 ? 0 : most < 128 ? 8 : most < 208 ? 7 : 15;
  const half = (most + least) / 2;
  const hue = (red > half ? 1 : 0) + (green > half ? 2 : 0) + (blue > half ? 4 : 0);
  return most > 215 ? hue + 8 : hue;
}
