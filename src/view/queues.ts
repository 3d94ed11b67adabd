/** Queues by the states of their jobs, whether they are paused, and how many workers serve them. */

import type { ShownState } from "../core/job.ts";
import type { QueueCount } from "../core/records.ts";
import { paintState, type Screen } from "./style.ts";
import { renderTable, type Column } from "./table.ts";

/** What runs and waits first, what is over last. */
export const QUEUE_STATES = [
  "running",
  "cancelling",
  "pending",
  "scheduled",
  "retrying",
  "blocked",
  "completed",
  "failed",
  "cancelled",
] as const satisfies readonly ShownState[];

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
  const none = { running: 0, cancelling: 0, pending: 0, scheduled: 0, retrying: 0, blocked: 0 };
  const of = (queue: string) => {
    const known = queues.get(queue) ?? { ...none, completed: 0, failed: 0, cancelled: 0 };
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
  const names = [...queues.keys()].toSorted();
  return names.map((queue) => ({
    queue,
    paused: is_paused.has(queue),
    workers: served.filter((taken) => taken === null || taken.includes(queue)).length,
    counts: of(queue),
  }));
}

const SHORT: Readonly<Record<(typeof QUEUE_STATES)[number], string>> = {
  running: "RUN",
  cancelling: "CLING",
  pending: "PEND",
  scheduled: "SCHED",
  retrying: "RETRY",
  blocked: "BLOCK",
  completed: "DONE",
  failed: "FAIL",
  cancelled: "CANC",
};

const RARE: ReadonlySet<ShownState> = new Set(["cancelling", "retrying"]);
const ALL = "all queues";

function columns({ paint }: Screen): Column<QueueSummary>[] {
  const states = QUEUE_STATES.map((state): Column<QueueSummary> => {
    const column: Column<QueueSummary> = {
      title: state.toUpperCase(),
      short_title: SHORT[state],
      cell: ({ counts }) =>
        counts[state] === 0 ? null : { text: String(counts[state]), style: paintState(paint, state) },
      align: "right",
    };
    return RARE.has(state) ? { ...column, optional: true } : column;
  });
  return [
    {
      title: "QUEUE",
      cell: ({ queue, paused }) => (paused ? { text: `${queue} (paused)`, style: paint.yellow } : queue),
      shrink_to: 10,
    },
    ...states,
    {
      title: "WORKERS",
      short_title: "WORK",
      cell: ({ workers }) => (workers === 0 ? null : String(workers)),
      align: "right",
      drop: 1,
    },
  ];
}

export function queuesText(queues: readonly QueueSummary[], screen: Screen): string {
  if (queues.length === 0) return "no jobs yet; queue one with: lease enqueue -- COMMAND\n";
  return `${renderTable(columns(screen), queues, screen)}\n`;
}

/** The same with a line for all of them together, where there are several. */
export function queuesWithTotal(queues: readonly QueueSummary[], live_workers: number): QueueSummary[] {
  if (queues.length < 2) return [...queues];
  const counts = Object.fromEntries(
    QUEUE_STATES.map((state) => [state, queues.reduce((sum, queue) => sum + queue.counts[state], 0)]),
  ) as Record<ShownState, number>;
  return [...queues, { queue: ALL, paused: false, workers: live_workers, counts }];
}
