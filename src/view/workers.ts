/** The list of workers: who is there, what they take, and how busy they are. */

import type { WorkerRecord } from "../core/records.ts";
import type { Paint, Screen } from "./style.ts";
import { renderTable, renderTsv, type Column } from "./table.ts";
import { relative, rfc3339 } from "./time.ts";

export interface WorkerRow {
  worker: WorkerRecord;
  /** Slots that run a job now. */
  busy: number;
}

/** `missing`: it has not ended, and has not been heard of for a while. */
export type WorkerState = "live" | "missing" | "stopped" | "dead";

const MISSING_AFTER_MS = 60_000;

export function workerState(worker: WorkerRecord, now_ms: number): WorkerState {
  if (worker.stopped_at_ms !== null) return worker.ended === "dead" ? "dead" : "stopped";
  return now_ms - worker.seen_at_ms > MISSING_AFTER_MS ? "missing" : "live";
}

function paintWorker(paint: Paint, state: WorkerState): (text: string) => string {
  const styles = { live: paint.green, missing: paint.yellow, stopped: paint.dim, dead: paint.red };
  return styles[state];
}

function columns({ now_ms, paint }: Pick<Screen, "now_ms" | "paint">): Column<WorkerRow>[] {
  return [
    { title: "WORKER", cell: ({ worker }) => worker.name ?? worker.id, tsv: ({ worker }) => worker.id, shrink_to: 8 },
    {
      title: "STATE",
      cell: ({ worker }) => {
        const state = workerState(worker, now_ms);
        return { text: state, style: paintWorker(paint, state) };
      },
    },
    { title: "HOST", cell: ({ worker }) => worker.host, shrink_to: 6, drop: 1 },
    { title: "PID", cell: ({ worker }) => String(worker.process.pid), align: "right", drop: 3 },
    { title: "QUEUES", cell: ({ worker }) => worker.queues?.join(", ") ?? "all", shrink_to: 8 },
    {
      title: "BUSY",
      cell: ({ worker, busy }) => (worker.stopped_at_ms === null ? `${busy} of ${worker.slots}` : null),
      tsv: ({ worker, busy }) => `${busy}/${worker.slots}`,
      align: "right",
    },
    {
      title: "STARTED",
      cell: ({ worker }) => relative(worker.started_at_ms, now_ms),
      tsv: ({ worker }) => rfc3339(worker.started_at_ms),
      drop: 2,
    },
    {
      title: "SEEN",
      cell: ({ worker }) => relative(worker.seen_at_ms, now_ms),
      tsv: ({ worker }) => rfc3339(worker.seen_at_ms),
    },
    { title: "VERSION", cell: ({ worker }) => worker.version, drop: 4 },
  ];
}

export function workersText(rows: readonly WorkerRow[], screen: Screen): string {
  if (rows.length === 0) return "no workers; start one with: lease worker\n";
  return `${renderTable(columns(screen), rows, screen)}\n`;
}

/** Columns: worker id, state, host, pid, queues, busy/slots, started, seen, version. */
export function workersTsv(rows: readonly WorkerRow[], screen: Pick<Screen, "now_ms" | "paint">): string {
  return renderTsv(columns(screen), rows);
}
