/** The list of jobs, with the reason why each is where it is. */

import { DEFAULT_QUEUE, isFinished, shownState, type Job } from "../core/job.ts";
import { formatDuration } from "../core/duration.ts";
import { commandText } from "./quote.ts";
import { paintState, type Screen } from "./style.ts";
import { renderTable, type Column } from "./table.ts";
import { relative } from "./time.ts";

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
    { title: "REASON", cell: ({ reason }) => reason, optional: true, shrink_to: 28 },
  ];
}

export function jobsText(rows: readonly JobRow[], screen: Screen): string {
  return rows.length === 0 ? "no jobs match\n" : `${renderTable(columns(screen), rows, screen)}\n`;
}
