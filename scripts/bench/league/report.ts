/** What the league says: a table for a terminal, one for the README, lines of JSON, and what has become worse since. */

import type { Result } from "./contest.ts";

/** A run of the league, as it is kept. */
export interface Kept {
  at: string;
  commit: string;
  /** Ratios of one kind of machine are compared with no other's. */
  machine: string;
  results: Result[];
}

const HEAD = ["contest", "ours", "kept by us", "against", "theirs", "kept by them", "ratio", "spread"];

export function textTable(results: readonly Result[]): string {
  const rows = [HEAD, ...results.map(cells)];
  const widths = HEAD.map((_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

export function markdownTable(results: readonly Result[]): string {
  const line = (row: readonly string[]) => `| ${row.join(" | ")} |`;
  return [line(HEAD), line(HEAD.map(() => "---")), ...results.map((result) => line(cells(result)))].join("\n");
}

function cells(result: Result): string[] {
  const { contest, unit, ours, durability, against, theirs, their_durability, ratio, low, high } = result;
  const figures = [show(ours, unit), durability, against, show(theirs, unit), their_durability];
  return [contest, ...figures, `${ratio.toFixed(2)}×`, `${low.toFixed(2)}–${high.toFixed(2)}`];
}

function show(value: number, unit: string): string {
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${Number(value.toFixed(digits)).toLocaleString("en-US")} ${unit}`;
}

/** So many runs before are what a figure is held against. */
const REMEMBERED = 5;
/** Below the worst of them by more than this: the machine alone does not do that. */
const NOISE = 0.1;

/** Ratios that are clearly below all that was seen on such a machine before, in words. */
export function regressions(results: readonly Result[], machine: string, history: readonly Kept[]): string[] {
  const before = history.filter((kept) => kept.machine === machine).slice(-REMEMBERED);
  return results.flatMap(({ contest, against, ratio }) => {
    const same = (other: Result) => other.contest === contest && other.against === against;
    const ratios = before.flatMap((kept) => kept.results.filter(same).map((other) => other.ratio));
    const worst = Math.min(...ratios);
    if (ratios.length === 0 || ratio >= worst * (1 - NOISE)) return [];
    return [
      `${contest} / ${against}: ${ratio.toFixed(2)}×, and never below ${worst.toFixed(2)}× in ${ratios.length} runs`,
    ];
  });
}

/** Of every contest and peer the figure of the last run that had it, in the order in which they came up first. */
export function newest(history: readonly Kept[], machine: string): Result[] {
  const found = new Map<string, Result>();
  for (const kept of history.filter((one) => one.machine === machine)) {
    for (const result of kept.results) found.set(`${result.contest} / ${result.against}`, result);
  }
  return [...found.values()];
}

/** Targets that were not reached, in words. */
export function misses(results: readonly Result[]): string[] {
  return results.flatMap(({ contest, against, ratio, at_least }) =>
    at_least === null || ratio >= at_least ? [] : [`${contest} / ${against}: ${ratio.toFixed(2)}× (≥ ${at_least})`],
  );
}

const [BEGIN, END] = ["<!-- league:begin -->", "<!-- league:end -->"];

/** The page with what is between the markers replaced. */
export function intoPage(page: string, { at, machine, results }: Omit<Kept, "commit">): string {
  const [from, to] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (from < 0 || to < from) throw new Error(`the page has no ${BEGIN} … ${END}`);
  const text = `
Ours, our peers and the bare runtime do the same work by turns in one run; the ratio is the median of the turns (above 1
is better for us), the spread their lowest and highest. Machines differ: compare ratios, not seconds, and mind what is
kept: **synced** is there after a power failure, *memory* is gone when the program is. Measured ${at.slice(0, 10)} on
${machine}; again with \`scripts/bench/run.sh\`, which also tells what has become slower since.

${markdownTable(results)}

`;
  return page.slice(0, from + BEGIN.length) + `\n${text}` + page.slice(to);
}
