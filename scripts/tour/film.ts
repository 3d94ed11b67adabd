/** Screens one after another as an animated SVG: no script, text that can be read, still where motion is not wanted. */

import type { Cell } from "./screen.ts";

export interface Frame {
  rows: readonly (readonly Cell[])[];
  /** How long it is to be seen. */
  for_ms: number;
}

const [CELL_WIDTH, LINE_HEIGHT, FONT_SIZE, PADDING, BAR] = [8.43, 19, 14, 18, 34];
const COLOURS: Readonly<Record<number, string>> = {
  30: "#6e7681",
  31: "#ff7b72",
  32: "#7ee787",
  33: "#e3b341",
  34: "#79c0ff",
  35: "#d2a8ff",
  36: "#76e3ea",
  37: "#e6edf3",
  90: "#8b949e",
  91: "#ffa198",
  92: "#7ee787",
  93: "#f2cc60",
  94: "#a5d6ff",
  95: "#d2a8ff",
  96: "#b3f0ff",
};

const escaped = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

function styleOf(sgr: string): string {
  let [fill, weight, opacity] = ["", "", ""];
  for (const value of sgr.split(";").map(Number)) {
    if (value === 0) [fill, weight, opacity] = ["", "", ""];
    else if (value === 1) weight = ' font-weight="700"';
    else if (value === 2) opacity = ' opacity=".6"';
    else if (value === 22) [weight, opacity] = ["", ""];
    else if (value === 39) fill = "";
    else if (COLOURS[value]) fill = ` fill="${COLOURS[value]}"`;
  }
  return fill + weight + opacity;
}

/** A line as runs of one style, each at its own place: fonts differ in how wide their letters are. */
function lineOf(row: readonly Cell[]): string {
  const runs: { at: number; text: string; style: string }[] = [];
  for (const [at, { text, style }] of row.entries()) {
    const last = runs.at(-1);
    if (last && last.style === style) last.text += text;
    else runs.push({ at, text, style });
  }
  return runs
    .filter(({ text }) => text.trim() !== "")
    .map(({ at, text, style }) => {
      const width = ([...text.trimEnd()].length * CELL_WIDTH).toFixed(1);
      const place = `x="${(at * CELL_WIDTH).toFixed(1)}" textLength="${width}"`;
      return `<text ${place}${styleOf(style)}>${escaped(text.trimEnd())}</text>`;
    })
    .join("");
}

export function film(
  frames: readonly Frame[],
  { columns, rows, title }: { columns: number; rows: number; title: string },
) {
  const [width, height] = [Math.ceil(columns * CELL_WIDTH) + 2 * PADDING, rows * LINE_HEIGHT + BAR + 2 * PADDING];
  // Most lines are the same in most frames: each is drawn once.
  const lines = new Map<string, number>();
  const drawn = frames.map(({ rows: all }, index) => {
    const uses = all.slice(-rows).map((row, at) => {
      const line = lineOf(row);
      if (line === "") return "";
      if (!lines.has(line)) lines.set(line, lines.size);
      return `<use href="#l${lines.get(line)}" y="${(at + 1) * LINE_HEIGHT}"/>`;
    });
    return `<g transform="translate(${index * width})">${uses.join("")}</g>`;
  });
  const total_ms = frames.reduce((sum, { for_ms }) => sum + for_ms, 0);
  let past_ms = 0;
  const steps = frames.map(({ for_ms }, index) => {
    const step = `${((past_ms / total_ms) * 100).toFixed(3)}%{transform:translateX(${-index * width}px)}`;
    past_ms += for_ms;
    return step;
  });
  const last = -(frames.length - 1) * width;
  const dots = ["#ff5f57", "#febc2e", "#28c840"].map(
    (colour, index) => `<circle cx="${20 + index * 20}" cy="17" r="6" fill="${colour}"/>`,
  );
  const defined = [...lines].map(([line, id]) => `<g id="l${id}">${line}</g>`);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
<title>${escaped(title)}</title>
<style>
text{font:${FONT_SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}
.film{transform:translateX(${last}px);animation:film ${(total_ms / 1_000).toFixed(2)}s step-end infinite}
@keyframes film{${steps.join("")}}
@media (prefers-reduced-motion:reduce){.film{animation:none}}
</style>
<rect width="${width}" height="${height}" rx="10" fill="#0d1117"/>${dots.join("")}
<defs>${defined.join("\n")}</defs>
<svg x="${PADDING}" y="${BAR}" width="${width - PADDING}" height="${height - BAR}" viewBox="0 0 ${width - PADDING} ${height - BAR}"><g class="film" fill="#e6edf3">
${drawn.join("\n")}
</g></svg>
</svg>
`;
}
