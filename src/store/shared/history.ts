/** The figures of a queue's history, as both engines write and read them. */

import type { HistoryPoint, QueueTotal } from "../../core/history.ts";
import type { QueueCount } from "../../core/records.ts";
import type { SqlRow } from "../../platform/platform.ts";
import { RowTable, natural, string, wordOf } from "./cells.ts";
import { bounded } from "./columns.ts";

export type Figure = Exclude<keyof HistoryPoint, "at_ms" | "queue">;

/** In the order of their columns. */
export const FIGURES: readonly Figure[] = [
  "completed",
  "failed",
  "cancelled",
  "retried",
  "recovered",
  "ended",
  "run_ms",
  "run_max_ms",
  "first_ended",
  "wait_ms",
  "wait_max_ms",
];

export const FIGURE_COLUMNS = FIGURES.join(", ");

const isMaximum = (figure: Figure) => figure.endsWith("_max_ms");

/** As an aggregate over points; `as` is a cast of the engine. */
export const aggregated = (as: (sql: string) => string = (sql) => sql): string =>
  FIGURES.map((figure) => `${as(`${isMaximum(figure) ? "max" : "sum"}(${figure})`)} AS ${figure}`).join(", ");

/** What a point that is there becomes by one more. `greater` is how the engine calls the greater of two. */
export const added = (greater: "max" | "greatest"): string =>
  FIGURES.map((figure) => {
    const [before, more] = [`history.${figure}`, `excluded.${figure}`];
    return `${figure} = ${isMaximum(figure) ? `${greater}(${before}, ${more})` : `${bounded(before, greater)} + ${more}`}`;
  }).join(", ");

export function emptyPoint(at_ms: number, queue: string): HistoryPoint {
  const none = Object.fromEntries(FIGURES.map((figure) => [figure, 0])) as Record<Figure, number>;
  return { at_ms, queue, ...none };
}

export function toPoint(row: SqlRow): HistoryPoint {
  const point = emptyPoint(row["at_ms"] as number, row["queue"] as string);
  for (const figure of FIGURES) point[figure] = row[figure] as number;
  return point;
}

/** So many priorities of a queue are looked at for its oldest job: where each job has its own, that must not take for ever. */
export const MOST_PRIORITIES = 1_000;

export function toQueueCount(row: SqlRow): QueueCount {
  const { retrying, ...count } = row as unknown as Required<QueueCount>;
  return retrying > 0 ? { ...count, retrying } : count;
}

const TOTAL = new RowTable({
  queue: string,
  name: wordOf(["wait", "run", "end"], "wait"),
  label: string,
  count: natural,
  sum_ms: natural,
});

/** What can't be counted is nothing: a monitor is told of counters, and these never fall. */
export const toTotal = (row: SqlRow): QueueTotal => TOTAL.read(row).values;
