/** Queues by the states of their jobs, whether they are paused, and how many workers serve them. */

import type { ShownState } from "../core/job.ts";
import type { QueueCount } from "../core/records.ts";
import { paintState, type Screen } from "./style.ts";
import { renderList, type Column } from "./table.ts";

/** What runs and waits first, what is over last; with the titles for narrow terminals. */
const SHORT_TITLES = {
  running: "RUN",
  cancelling: "CLING",
  pending: "PEND",
  scheduled: "SCHED",
  retrying: "RETRY",
  blocked: "BLOCK",
  completed: "DONE",
  failed: "FAIL",
  cancelled: "CANC",
} as const satisfies Record<ShownState, string>;

export const QUEUE_STATES = Object.keys(SHORT_TITLES) as ShownState[];

export function countStates(count: (state: ShownState) => number): Record<ShownState, number> {
  return Object.fromEntries(QUEUE_STATES.map((state) => [state, count(state)])) as Record<ShownState, number>;
}

export interface QueueSummary {
  queue: string;
  paused: boolean;
  /** Live workers that take from it. */
  workers: number;
  /** As shown: jobs that are cancelling or retrying are not counted as running or scheduled. */
  counts: Readonly<Record<ShownState, number>>;
}

interface AroundQueues {
  counts: readonly QueueCount[];
  paused: readonly string[];
  /** Which queues each live worker takes from; null: all. */
  served: readonly (readonly string[] | null)[];
  /** Of the running and scheduled jobs, how many show as cancelling and retrying. */
  cancelling?: ReadonlyMap<string, number>;
  retrying?: ReadonlyMap<string, number>;
}

/** Queues that hold a job or are paused, by name. */
export function summarizeQueues(around: AroundQueues): QueueSummary[] {
  const { counts, paused, served } = around;
  const queues = new Map<string, Record<ShownState, number>>();
  const of = (queue: string) => {
    const known = queues.get(queue) ?? countStates(() => 0);
    queues.set(queue, known);
    return known;
  };
  for (const { queue, state, count } of counts) of(queue)[state] += count;
  for (const queue of paused) of(queue);
  for (const [queue, totals] of queues) {
    // Counted a moment later than the rest: never more than there are.
    totals.cancelling = Math.min(totals.running, around.cancelling?.get(queue) ?? 0);
    totals.retrying = Math.min(totals.scheduled, around.retrying?.get(queue) ?? 0);
    totals.running -= totals.cancelling;
    totals.scheduled -= totals.retrying;
  }
  const is_paused = new Set(paused);
  const serving = (queue: string) => served.filter((taken) => taken === null || taken.includes(queue)).length;
  return [...queues.keys()]
    .toSorted()
    .map((queue) => ({ queue, paused: is_paused.has(queue), workers: serving(queue), counts: of(queue) }));
}

const RARE: ReadonlySet<ShownState> = new Set(["cancelling", "retrying"]);

export function queuesText(queues: readonly QueueSummary[], screen: Screen): string {
  const { paint } = screen;
  const nameCell = ({ queue, paused }: QueueSummary) =>
    paused ? { text: `${queue} (paused)`, style: paint.yellow } : queue;
  const states = QUEUE_STATES.map((state): Column<QueueSummary> => ({
    title: state.toUpperCase(),
    short_title: SHORT_TITLES[state],
    cell: ({ counts }) =>
      counts[state] === 0 ? null : { text: String(counts[state]), style: paintState(paint, state) },
    align: "right",
    ...(RARE.has(state) ? { optional: true } : {}),
  }));
  const workersCell = ({ workers }: QueueSummary) => (workers === 0 ? null : workers);
  const columns: Column<QueueSummary>[] = [
    { title: "QUEUE", cell: nameCell, shrink_to: 10 },
    ...states,
    { title: "WORKERS", short_title: "WORK", cell: workersCell, align: "right", drop: 1 },
  ];
  return renderList(columns, queues, screen, "no jobs yet; queue one with: lease enqueue -- COMMAND");
}

/** The same with a line for all of them together, where there are several. */
export function queuesWithTotal(queues: readonly QueueSummary[], live_workers: number): QueueSummary[] {
  if (queues.length < 2) return [...queues];
  const counts = countStates((state) => queues.reduce((sum, queue) => sum + queue.counts[state], 0));
  return [...queues, { queue: "all queues", paused: false, workers: live_workers, counts }];
}
