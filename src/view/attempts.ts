/** A job's attempts as a timeline: when each began, how long it took, how it ended, where, and its last line. */

import { formatDuration } from "../core/duration.ts";
import type { AttemptRecord } from "../core/records.ts";
import { paintCause, type Screen } from "./style.ts";
import type { Column } from "./table.ts";
import { outputLine } from "./text.ts";
import { relative } from "./time.ts";

/** The cause, in the words of whoever saw it where they say more: `silent 5m02s of 5m`. */
function ending({ end }: AttemptRecord): string {
  if (end === null) return "running";
  return end.error?.startsWith(end.cause) && end.cause !== "exit" ? end.error : end.cause;
}

function exit({ end }: AttemptRecord): string {
  return end?.signal ?? (end?.exit_code === null || end === null ? "" : String(end.exit_code));
}

export function attemptColumns({ now_ms, paint }: Screen): Column<AttemptRecord>[] {
  return [
    { title: "#", cell: (attempt) => String(attempt.attempt), align: "right" },
    { title: "STARTED", cell: (attempt) => relative(attempt.started_at_ms, now_ms), align: "right" },
    {
      title: "TOOK",
      cell: ({ started_at_ms, ended_at_ms }) => formatDuration(Math.max(0, (ended_at_ms ?? now_ms) - started_at_ms)),
      align: "right",
    },
    {
      title: "END",
      cell: (attempt) => ({ text: ending(attempt), style: paintCause(paint, attempt.end?.cause ?? null) }),
      shrink_to: 8,
    },
    { title: "EXIT", cell: exit, optional: true, align: "right", drop: 1 },
    { title: "HOST", cell: (attempt) => attempt.host, shrink_to: 6, drop: 2 },
    { title: "BEATS", cell: (attempt) => String(attempt.beats), align: "right", drop: 3 },
    {
      title: "LAST LINE",
      cell: (attempt) => outputLine(attempt.end?.last_line ?? ""),
      optional: true,
      shrink_to: 12,
    },
  ];
}
