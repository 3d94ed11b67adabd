/**
 * A contest of the league: ours, its peers and what the runtime allows at the most do the same work in the same run, by
 * turns, in an order that rotates. Each turn gives a ratio to each of the others; their median is the figure, and the
 * lowest and highest of them its spread. A ratio above 1 is better for us, whatever is measured.
 */

import { median } from "../harness.ts";

export interface Contestant {
  name: string;
  /** What is still there after a crash of the program, and of the machine. */
  durability: string;
  /** In the unit of the contest. */
  run(): Promise<number>;
  /** What the issue of this row asks for; null: it is only shown. */
  at_least?: number;
}

export interface Contest {
  name: string;
  unit: string;
  less_is_better?: boolean;
  turns: number;
  ours: Contestant;
  others: readonly Contestant[];
}

export interface Result {
  contest: string;
  unit: string;
  durability: string;
  ours: number;
  against: string;
  their_durability: string;
  theirs: number;
  ratio: number;
  low: number;
  high: number;
  turns: number;
  at_least: number | null;
}

/** `settle` waits for the machine to be quiet; a run that only proves that all of it works has no need to. */
export async function hold(contest: Contest, settle: () => Promise<void>): Promise<Result[]> {
  const all = [contest.ours, ...contest.others];
  const figures = new Map<Contestant, number[]>(all.map((one) => [one, []]));
  for (let turn = 0; turn < contest.turns; turn++) {
    for (let place = 0; place < all.length; place++) {
      const one = all[(place + turn) % all.length] as Contestant;
      await settle();
      figures.get(one)?.push(await one.run());
    }
  }
  const ours = figures.get(contest.ours) ?? [];
  return contest.others.map((other) => compare(contest, ours, other, figures.get(other) ?? []));
}

export function compare(
  contest: Contest,
  ours: readonly number[],
  other: Contestant,
  theirs: readonly number[],
): Result {
  const ratios = ours.map((figure, turn) => {
    const their_figure = theirs[turn] ?? Number.NaN;
    return contest.less_is_better === true ? their_figure / figure : figure / their_figure;
  });
  return {
    contest: contest.name,
    unit: contest.unit,
    durability: contest.ours.durability,
    ours: median(ours),
    against: other.name,
    their_durability: other.durability,
    theirs: median(theirs),
    ratio: median(ratios),
    low: Math.min(...ratios),
    high: Math.max(...ratios),
    turns: contest.turns,
    at_least: other.at_least ?? null,
  };
}
