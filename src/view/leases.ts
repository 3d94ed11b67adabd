/** The list of leases: running jobs by who holds them, how fresh their last beat is and when the lease ends. */

import type { Job } from "../core/job.ts";
import { commandText } from "./quote.ts";
import type { Screen } from "./style.ts";
import { renderTable, renderTsv, type Cell, type Column } from "./table.ts";
import { relative, rfc3339 } from "./time.ts";

const expiry = (job: Job): number | null => (job.state.name === "running" ? job.state.expires_at_ms : null);
const time = (at_ms: number | null): string => (at_ms === null ? "" : rfc3339(at_ms));

function expiryCell(job: Job, { now_ms, paint }: Screen): Cell {
  const at_ms = expiry(job);
  if (at_ms === null) return { text: "" };
  return at_ms < now_ms ? { text: relative(at_ms, now_ms), style: paint.red } : { text: relative(at_ms, now_ms) };
}

function columns(screen: Screen): Column<Job>[] {
  return [
    { title: "ID", cell: (job) => String(job.id), align: "right" },
    { title: "QUEUE", cell: (job) => job.queue, shrink_to: 6, drop: 1 },
    { title: "TOKEN", cell: (job) => String(job.token), align: "right", drop: 2 },
    { title: "HOLDER", cell: (job) => (job.state.name === "running" ? job.state.holder : ""), shrink_to: 8 },
    {
      title: "BEAT",
      cell: (job) => (job.last_beat_at_ms === null ? "" : relative(job.last_beat_at_ms, screen.now_ms)),
      tsv: (job) => time(job.last_beat_at_ms),
      align: "right",
    },
    {
      title: "ENDS",
      cell: (job) => expiryCell(job, screen),
      tsv: (job) => time(expiry(job)),
      align: "right",
    },
    { title: "COMMAND", cell: (job) => commandText(job), shrink_to: 14 },
  ];
}

/** `jobs` are running. */
export function leasesText(jobs: readonly Job[], screen: Screen): string {
  return jobs.length === 0 ? "no leases held\n" : `${renderTable(columns(screen), jobs, screen)}\n`;
}

/** Columns: id, queue, token, holder, last beat, end, command. */
export function leasesTsv(jobs: readonly Job[], screen: Screen): string {
  return renderTsv(columns(screen), jobs);
}
