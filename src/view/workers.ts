/** The list of workers: who is there, what they take, what their slots do, and what they have done so far. */

import { haveTexts } from "../core/resources.ts";
import type { Job } from "../core/job.ts";
import type { WorkerRecord } from "../core/records.ts";
import { slotStates, type SlotStates } from "../core/scaling.ts";
import type { Screen } from "./style.ts";
import { renderList, type Column } from "./table.ts";
import { relative } from "./time.ts";

export interface WorkerRow {
  worker: WorkerRecord;
  /** The jobs whose lease it holds. */
  held: readonly Pick<Job, "id" | "token" | "last_beat_at_ms">[];
}

/** `missing`: it has not ended, and has not been heard of for a while. */
export const WORKER_STATES = ["live", "draining", "missing", "stopped", "dead"] as const;
export type WorkerState = (typeof WORKER_STATES)[number];

const MISSING_AFTER_MS = 60_000;

export function workerState(worker: WorkerRecord, now_ms: number): WorkerState {
  if (worker.stopped_at_ms !== null) return worker.ended === "dead" ? "dead" : "stopped";
  if (now_ms - worker.seen_at_ms > MISSING_AFTER_MS) return "missing";
  return worker.draining ? "draining" : "live";
}

/** `lease run` is a worker for its own job, and serves no queue. */
function isRun({ queues }: WorkerRecord): boolean {
  return queues?.length === 0;
}

export function isEndedRun(worker: WorkerRecord): boolean {
  return isRun(worker) && worker.stopped_at_ms !== null;
}

function queuesCell(worker: WorkerRecord): string {
  return isRun(worker) ? "(lease run)" : (worker.queues?.join(", ") ?? "all");
}

/** A lease may be held for a job that waits for a slot about to be free: never more slots than there are. */
export function slotsOf({ worker, held }: WorkerRow): SlotStates {
  const stopped = worker.stopped_at_ms !== null;
  const busy = stopped ? 0 : Math.min(worker.slots, held.length);
  return slotStates(worker.slots, busy, !stopped && !worker.draining);
}

function slotsText(row: WorkerRow): string {
  if (row.worker.stopped_at_ms !== null) return "";
  const { processing, draining } = slotsOf(row);
  return `${processing + draining} of ${row.worker.slots}`;
}

const JOBS_NAMED = 4;

/** `128 (2s ago), 131 (now)`: jobs, each with its last beat. */
function currentText({ held }: WorkerRow, now_ms: number): string {
  const told = held.slice(0, JOBS_NAMED).map(({ id, last_beat_at_ms: beat_ms }) => {
    return beat_ms === null ? String(id) : `${id} (${relative(beat_ms, now_ms)})`;
  });
  const more = held.length - told.length;
  return told.join(", ") + (more > 0 ? ` and ${more} more` : "");
}

export function workersText(rows: readonly WorkerRow[], screen: Screen): string {
  const { now_ms, paint } = screen;
  const { green, yellow, dim, red } = paint;
  const styles = { live: green, draining: yellow, missing: yellow, stopped: dim, dead: red };
  const stateCell = ({ worker }: WorkerRow) => {
    const state = workerState(worker, now_ms);
    return { text: state, style: styles[state] };
  };
  const countCell = (count: number, style = (text: string) => text) =>
    count === 0 ? null : { text: String(count), style };
  const columns: Column<WorkerRow>[] = [
    { title: "WORKER", cell: ({ worker }) => worker.name ?? worker.id, shrink_to: 8 },
    { title: "STATE", cell: stateCell },
    { title: "HOST", cell: ({ worker }) => worker.host, shrink_to: 6, drop: 3 },
    { title: "PID", cell: ({ worker }) => worker.process.pid, align: "right", drop: 5 },
    { title: "QUEUES", cell: ({ worker }) => queuesCell(worker), shrink_to: 6, drop: 1 },
    { title: "TASK", cell: ({ worker }) => worker.task, optional: true, shrink_to: 6, drop: 3 },
    { title: "HAS", cell: ({ worker }) => haveTexts(worker.have).join(" "), optional: true, shrink_to: 6, drop: 4 },
    { title: "BUSY", cell: slotsText, align: "right" },
    { title: "COMPLETED", short_title: "DONE", cell: ({ worker }) => countCell(worker.completed), align: "right" },
    { title: "FAILED", short_title: "FAIL", cell: ({ worker }) => countCell(worker.failed, red), align: "right" },
    { title: "STARTED", cell: ({ worker }) => relative(worker.started_at_ms, now_ms), align: "right", drop: 4 },
    { title: "SEEN", cell: ({ worker }) => relative(worker.seen_at_ms, now_ms), align: "right", drop: 2 },
    { title: "VERSION", cell: ({ worker }) => worker.version, drop: 6 },
    { title: "JOBS (LAST BEAT)", cell: (row) => currentText(row, now_ms), optional: true, shrink_to: 16 },
  ];
  return renderList(columns, rows, screen, "no workers; start one with: lease worker");
}
