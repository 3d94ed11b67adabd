/** The list of jobs, with the reason why each is where it is. */

import { DEFAULT_QUEUE, isFinished, shownState, type Job } from "../core/job.ts";
import { formatDuration } from "../core/duration.ts";
import { commandText } from "./quote.ts";
import { paintState, type Screen } from "./style.ts";
import { renderTable, renderTsv, type Column } from "./table.ts";
import { relative, rfc3339 } from "./time.ts";

export interface JobRow {
  job: Job;
  /** From `reasonOf`. */
  reason: string | null;
}

/** When the job got into its state, or will leave it. */
function moment(job: Job): number {
  if (isFinished(job.state)) return job.state.finished_at_ms;
  if (job.state.name === "scheduled") return job.state.run_at_ms;
  return job.state.name === "running" ? (job.started_at_ms ?? job.created_at_ms) : job.created_at_ms;
}

function took(job: Job, now_ms: number): number | null {
  if (job.started_at_ms === null) return null;
  if (job.state.name === "running") return Math.max(0, now_ms - job.started_at_ms);
  return isFinished(job.state) ? Math.max(0, job.state.finished_at_ms - job.started_at_ms) : null;
}

const finished = (job: Job): number | null => (isFinished(job.state) ? job.state.finished_at_ms : null);
const time = (at_ms: number | null): string => (at_ms === null ? "" : rfc3339(at_ms));
const number = (value: number | null): string => (value === null ? "" : String(value));

function columns({ now_ms, paint }: Screen): Column<JobRow>[] {
  return [
    { title: "ID", cell: ({ job }) => String(job.id), align: "right" },
    {
      title: "STATE",
      cell: ({ job }) => ({ text: shownState(job), style: paintState(paint, shownState(job)) }),
    },
    {
      title: "QUEUE",
      cell: ({ job }) => job.queue,
      optional: ({ job }) => job.queue !== DEFAULT_QUEUE,
      shrink_to: 6,
      drop: 1,
    },
    { title: "TASK", cell: ({ job }) => job.task, optional: true, shrink_to: 6, drop: 4 },
    { title: "KEY", cell: ({ job }) => job.key, optional: true, shrink_to: 6, drop: 6 },
    {
      title: "PRIORITY",
      short_title: "PRI",
      cell: ({ job }) => (job.priority === 0 ? "" : String(job.priority)),
      align: "right",
      optional: true,
      drop: 5,
    },
    {
      title: "RUNS",
      cell: ({ job }) => (job.token > 1 ? String(job.token) : ""),
      align: "right",
      optional: true,
      drop: 3,
    },
    { title: "WHEN", cell: ({ job }) => relative(moment(job), now_ms), align: "right" },
    {
      title: "TOOK",
      cell: ({ job }) => {
        const took_ms = took(job, now_ms);
        return took_ms === null ? "" : formatDuration(took_ms);
      },
      align: "right",
      optional: true,
      drop: 2,
    },
    { title: "COMMAND", cell: ({ job }) => commandText(job), shrink_to: 16 },
    { title: "REASON", cell: ({ reason }) => reason, optional: true, shrink_to: 16 },
  ];
}

/** For pipes: no column depends on what else is in the list. */
const TSV_COLUMNS: readonly Column<JobRow>[] = [
  { title: "id", cell: ({ job }) => String(job.id) },
  { title: "state", cell: ({ job }) => shownState(job) },
  { title: "queue", cell: ({ job }) => job.queue },
  { title: "task", cell: ({ job }) => job.task },
  { title: "key", cell: ({ job }) => job.key },
  { title: "priority", cell: ({ job }) => String(job.priority) },
  { title: "attempts", cell: ({ job }) => String(job.token) },
  { title: "created_at", cell: ({ job }) => time(job.created_at_ms) },
  { title: "started_at", cell: ({ job }) => time(job.started_at_ms) },
  { title: "finished_at", cell: ({ job }) => time(finished(job)) },
  { title: "exit_code", cell: ({ job }) => number(job.result.exit_code) },
  { title: "cause", cell: ({ job }) => job.result.cause },
  { title: "reason", cell: ({ reason }) => reason },
  { title: "command", cell: ({ job }) => commandText(job) },
];

export const JOBS_TSV_NAMES: readonly string[] = TSV_COLUMNS.map(({ title }) => title);

export function jobsText(rows: readonly JobRow[], screen: Screen): string {
  return rows.length === 0 ? "no jobs match\n" : `${renderTable(columns(screen), rows, screen)}\n`;
}

export function jobsTsv(rows: readonly JobRow[]): string {
  return renderTsv(TSV_COLUMNS, rows);
}
