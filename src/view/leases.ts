/** The list of leases: running jobs by who holds them, how fresh their last beat is and when the lease ends. */

import type { Job } from "../core/job.ts";
import { commandText } from "./quote.ts";
import type { Screen } from "./style.ts";
import { renderTable, type Cell, type Column } from "./table.ts";
import { relative } from "./time.ts";

/** Over, and nobody has recovered the job yet. */
export function isStale({ state }: Pick<Job, "state">, now_ms: number): boolean {
  return state.name === "running" && state.expires_at_ms < now_ms;
}

function expiryCell(job: Job, { now_ms, paint }: Screen): Cell {
  if (job.state.name !== "running") return { text: "" };
  const text = relative(job.state.expires_at_ms, now_ms);
  return isStale(job, now_ms) ? { text: `stale, ${text}`, style: paint.red } : { text };
}

function columns(screen: Screen): Column<Job>[] {
  return [
    { title: "ID", cell: (job) => String(job.id), align: "right" },
    { title: "QUEUE", cell: (job) => job.queue, shrink_to: 6, drop: 1 },
    { title: "TASK", cell: (job) => job.task, optional: true, shrink_to: 6, drop: 3 },
    { title: "TOKEN", cell: (job) => String(job.token), align: "right", drop: 2 },
    { title: "HOLDER", cell: (job) => (job.state.name === "running" ? job.state.holder : ""), shrink_to: 8 },
    {
      title: "BEAT",
      cell: (job) => (job.last_beat_at_ms === null ? "" : relative(job.last_beat_at_ms, screen.now_ms)),
      align: "right",
    },
    { title: "ENDS", cell: (job) => expiryCell(job, screen), align: "right" },
    { title: "COMMAND", cell: (job) => commandText(job), shrink_to: 14 },
  ];
}

/** `jobs` are running. */
export function leasesText(jobs: readonly Job[], screen: Screen): string {
  return jobs.length === 0 ? "no leases held\n" : `${renderTable(columns(screen), jobs, screen)}\n`;
}
