/** What is going on: queues by state, leases, workers, retries, recovery, and what failed last. */

import { isFinished, type Job } from "../core/job.ts";
import type { RecoveryTotals } from "../core/records.ts";
import { queuesText, queuesWithTotal, type QueueSummary } from "./queues.ts";
import { failureText } from "./reason.ts";
import { commandText } from "./text.ts";
import type { Screen } from "./style.ts";
import { renderPairs, renderTable, type Column } from "./table.ts";
import { relative, sentenceRelative } from "./time.ts";
import { slotsOf, workersText, workerState, type WorkerRow } from "./workers.ts";

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
  /** The latest first, each with what it said last. */
  failures: readonly { job: Job; last_line: string | null }[];
}

const WORKERS_SHOWN = 10;

export function overviewText(overview: Overview, screen: Screen): string {
  const { paint } = screen;
  const lines: [string, string][] = [
    ["Leases", leasesLine(overview, screen)],
    ["Workers", workersLine(overview, screen)],
    ["Retries", retriesLine(overview)],
    ["Recovery", recoveryLine(overview, screen)],
  ];
  const pairs = lines.filter(([, text]) => text !== "");
  const present = overview.workers.filter(({ worker }) => worker.stopped_at_ms === null);
  const live = present.filter(({ worker }) => workerState(worker, screen.now_ms) !== "missing");
  const parts = [queuesText(queuesWithTotal(overview.queues, live.length), screen), `${renderPairs(pairs, screen)}\n`];
  if (present.length > 0) {
    const more = present.length - WORKERS_SHOWN;
    const rest = more > 0 ? `${paint.dim(`and ${more} more: lease inspect workers`)}\n` : "";
    parts.push(workersText(present.slice(0, WORKERS_SHOWN), screen) + rest);
  }
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
  const states = workers.map((row) => ({ row, state: workerState(row.worker, now_ms) }));
  const there = states.filter(({ state }) => state === "live" || state === "draining").map(({ row }) => row);
  const draining = states.filter(({ state }) => state === "draining").length;
  const missing = states.filter(({ state }) => state === "missing").length;
  const marks = [
    ...(draining > 0 ? [paint.yellow(`${draining} draining`)] : []),
    ...(missing > 0 ? [paint.yellow(`${missing} missing`)] : []),
  ];
  if (there.length === 0) return [paint.yellow("none live"), ...marks].join(", ");
  const sum = (valueOf: (row: WorkerRow) => number) => there.reduce((total, row) => total + valueOf(row), 0);
  const busy = sum((row) => slotsOf(row).processing + slotsOf(row).draining);
  const failed = sum(({ worker }) => worker.failed);
  const done = [`${sum(({ worker }) => worker.completed)} completed`, ...(failed > 0 ? [`${failed} failed`] : [])];
  const slots = `${busy} of ${sum(({ worker }) => worker.slots)} slots busy`;
  return [`${there.length} live`, slots, ...marks, ...done].join(", ");
}

function retriesLine({ retries }: Overview): string {
  return retries
    .filter(({ jobs }) => jobs > 0)
    .map(({ retries: count, jobs }) => (count === 0 ? `${jobs} ended without one` : `${jobs} after ${count}`))
    .join(", ");
}

function recoveryLine({ recovery }: Overview, { now_ms }: Screen): string {
  if (recovery === null || recovery.last_at_ms === null) return "nothing so far";
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
  const rate = recoveryRate(recovery);
  // Rounded down: 100 % means every one.
  const share = rate === null ? "" : ` (${Math.floor(rate * 100)} % saved)`;
  return `${told.length > 0 ? told.join(", ") : "nothing"}${share}; last ${sentenceRelative(last_at_ms ?? now_ms, now_ms)}`;
}

/** Of the jobs whose lease ran out or whose holder died, the part that got another try; null: there was none. */
export function recoveryRate({ recovered, failed }: RecoveryTotals): number | null {
  return recovered + failed === 0 ? null : recovered / (recovered + failed);
}

function failureColumns({ now_ms, paint }: Screen): Column<Overview["failures"][number]>[] {
  const ended = ({ state }: Job) => (isFinished(state) ? relative(state.finished_at_ms, now_ms) : null);
  return [
    { title: "ID", cell: ({ job }) => job.id, align: "right" },
    { title: "WHEN", cell: ({ job }) => ended(job), align: "right" },
    { title: "COMMAND", cell: ({ job }) => commandText(job), shrink_to: 14 },
    { title: "ERROR", cell: (failure) => ({ text: failureText(failure), style: paint.red }), shrink_to: 14 },
  ];
}
