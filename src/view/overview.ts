/** What is going on: queues by state, leases, workers, retries, recovery, and what failed last. */

import { isFinished, type Job, type StateName } from "../core/job.ts";
import type { QueueCount, RecoveryTotals } from "../core/records.ts";
import { commandText } from "./quote.ts";
import { paintState, type Screen } from "./style.ts";
import { renderPairs, renderTable, renderTsv, type Column } from "./table.ts";
import { relative } from "./time.ts";
import { workersText, workerState, type WorkerRow } from "./workers.ts";

export interface QueueSummary {
  queue: string;
  paused: boolean;
  counts: Readonly<Record<StateName, number>>;
}

export interface Overview {
  queues: readonly QueueSummary[];
  workers: readonly WorkerRow[];
  leases: {
    held: number;
    /** Of these, ended and not recovered yet. */
    stale: number;
    next_expires_at_ms: number | null;
  };
  /** How many finished jobs needed how many retries. */
  retries: readonly { retries: number; jobs: number }[];
  /** Null: nothing has ever had to be recovered. */
  recovery: RecoveryTotals | null;
  /** The latest first. */
  failures: readonly Job[];
}

/** Queues that hold a job or are paused, by name. */
export function summarizeQueues(counts: readonly QueueCount[], paused: readonly string[]): QueueSummary[] {
  const names = [...new Set([...counts.map(({ queue }) => queue), ...paused])].toSorted();
  return names.map((queue) => {
    const totals = { blocked: 0, scheduled: 0, pending: 0, running: 0, completed: 0, failed: 0, cancelled: 0 };
    for (const entry of counts) if (entry.queue === queue) totals[entry.state] += entry.count;
    return { queue, paused: paused.includes(queue), counts: totals };
  });
}

/** What waits and runs first, what is over last. */
const COLUMN_ORDER: readonly (readonly [StateName, short_title: string])[] = [
  ["running", "RUN"],
  ["pending", "PEND"],
  ["scheduled", "SCHED"],
  ["blocked", "BLOCK"],
  ["completed", "DONE"],
  ["failed", "FAIL"],
  ["cancelled", "CANC"],
];

function queueColumns({ paint }: Screen): Column<QueueSummary>[] {
  const states = COLUMN_ORDER.map(([state, short_title]): Column<QueueSummary> => ({
    title: state.toUpperCase(),
    short_title,
    cell: ({ counts }) =>
      counts[state] === 0 ? null : { text: String(counts[state]), style: paintState(paint, state) },
    tsv: ({ counts }) => String(counts[state]),
    align: "right",
  }));
  return [
    {
      title: "QUEUE",
      cell: ({ queue, paused }) => (paused ? { text: `${queue} (paused)`, style: paint.yellow } : queue),
      tsv: ({ queue }) => queue,
      shrink_to: 10,
    },
    ...states,
  ];
}

export function queuesText(queues: readonly QueueSummary[], screen: Screen): string {
  if (queues.length === 0) return "no jobs yet; queue one with: lease enqueue -- COMMAND\n";
  return `${renderTable(queueColumns(screen), queues, screen)}\n`;
}

/** Columns: queue, paused or active, then running, pending, scheduled, blocked, completed, failed, cancelled. */
export function queuesTsv(queues: readonly QueueSummary[], screen: Screen): string {
  const [queue, ...states] = queueColumns(screen);
  const paused: Column<QueueSummary> = { title: "PAUSED", cell: (row) => (row.paused ? "paused" : "active") };
  return renderTsv([...(queue ? [queue] : []), paused, ...states], queues);
}

export function overviewText(overview: Overview, screen: Screen): string {
  const { paint } = screen;
  const pairs: [string, string][] = [
    ["Leases", leasesLine(overview, screen)],
    ["Workers", workersLine(overview, screen)],
    ["Retries", retriesLine(overview)],
    ["Recovery", recoveryLine(overview, screen)],
  ];
  const parts = [
    queuesText(overview.queues, screen),
    `${renderPairs(
      pairs.filter(([, text]) => text !== ""),
      screen,
    )}\n`,
  ];
  const present = overview.workers.filter(({ worker }) => worker.stopped_at_ms === null);
  if (present.length > 0) parts.push(workersText(present, screen));
  if (overview.failures.length > 0) {
    const table = renderTable(failureColumns(screen), overview.failures, screen);
    parts.push(`${paint.bold("Latest failures")}\n${table}\n`);
  }
  return parts.join("\n");
}

function leasesLine({ leases }: Overview, { now_ms, paint }: Screen): string {
  if (leases.held === 0) return "none held";
  const stale = leases.stale > 0 ? [paint.red(`${leases.stale} stale`)] : [];
  const next = leases.next_expires_at_ms;
  const ends = next === null || next < now_ms ? [] : [`next ends ${relative(next, now_ms)}`];
  return [`${leases.held} held`, ...stale, ...ends].join(", ");
}

function workersLine({ workers }: Overview, { now_ms, paint }: Screen): string {
  const live = workers.filter(({ worker }) => workerState(worker, now_ms) === "live");
  const missing = workers.filter(({ worker }) => workerState(worker, now_ms) === "missing").length;
  const unheard = missing > 0 ? `, ${paint.yellow(`${missing} missing`)}` : "";
  if (live.length === 0) return `${paint.yellow("none live")}${unheard}`;
  const slots = live.reduce((sum, { worker }) => sum + worker.slots, 0);
  const busy = live.reduce((sum, row) => sum + row.busy, 0);
  return `${live.length} live, ${busy} of ${slots} slots busy${unheard}`;
}

function retriesLine({ retries }: Overview): string {
  const used = retries.filter(({ jobs }) => jobs > 0);
  return used
    .map(({ retries: count, jobs }) => (count === 0 ? `${jobs} without` : `${jobs} after ${count}`))
    .join(", ");
}

function recoveryLine({ recovery }: Overview, { now_ms }: Screen): string {
  if (recovery === null) return "nothing so far";
  const { expired_found, recovered, failed, cancelled, orphans_killed, errors, last_at_ms } = recovery;
  const counts: [number, string][] = [
    [expired_found, "found"],
    [recovered, "recovered"],
    [failed, "failed"],
    [cancelled, "cancelled"],
    [orphans_killed, orphans_killed === 1 ? "orphan killed" : "orphans killed"],
    [errors, errors === 1 ? "error" : "errors"],
  ];
  const told = counts.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`);
  const last = last_at_ms === null ? "" : `; last ${relative(last_at_ms, now_ms)}`;
  return (told.length > 0 ? told.join(", ") : "nothing") + last;
}

function failureColumns({ now_ms, paint }: Screen): Column<Job>[] {
  return [
    { title: "ID", cell: (job) => String(job.id), align: "right" },
    {
      title: "WHEN",
      cell: (job) => (isFinished(job.state) ? relative(job.state.finished_at_ms, now_ms) : ""),
      align: "right",
    },
    { title: "COMMAND", cell: commandText, shrink_to: 14 },
    {
      title: "ERROR",
      cell: ({ result }) => ({ text: result.error ?? result.cause ?? "", style: paint.red }),
      shrink_to: 14,
    },
  ];
}
