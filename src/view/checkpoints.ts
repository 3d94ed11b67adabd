/** The list of checkpoints: what went wrong, and how far jobs said they were. */

import type { Checkpoint } from "../core/records.ts";
import type { Screen } from "./style.ts";
import { renderTable, type Column } from "./table.ts";
import { outputLine } from "./text.ts";
import { relative } from "./time.ts";

/** `of_one_job` leaves out what would be the same on every line. */
export function checkpointColumns({ now_ms, paint }: Screen, of_one_job: boolean): Column<Checkpoint>[] {
  const whose: Column<Checkpoint>[] = [
    { title: "JOB", cell: (checkpoint) => String(checkpoint.job), align: "right" },
    { title: "TASK", cell: (checkpoint) => checkpoint.task, optional: true, shrink_to: 6, drop: 1 },
  ];
  return [
    ...(of_one_job ? [] : whose),
    {
      title: "WHEN",
      cell: (checkpoint) => relative(checkpoint.at_ms, now_ms),
      align: "right",
    },
    {
      title: "KIND",
      cell: ({ kind }) => ({ text: kind, style: kind === "error" ? paint.red : paint.green }),
    },
    { title: "TOKEN", cell: (checkpoint) => String(checkpoint.token), align: "right", drop: 2 },
    { title: "TEXT", cell: (checkpoint) => outputLine(summary(checkpoint)), shrink_to: 20 },
  ];
}

/** An error checkpoint is a record; people read its cause, what was said about it, and where it happened. */
function summary({ kind, text }: Checkpoint): string {
  const note = kind === "error" ? parsed(text) : null;
  if (note === null) return text;
  const said = [note["error"], note["host"] === undefined ? null : `on ${String(note["host"])}`]
    .filter(Boolean)
    .join(", ");
  return said === "" ? String(note["cause"]) : `${String(note["cause"])}: ${said}`;
}

function parsed(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && "cause" in value ? { ...value } : null;
  } catch {
    return null;
  }
}

export function checkpointsText(checkpoints: readonly Checkpoint[], screen: Screen): string {
  if (checkpoints.length === 0) return "no checkpoints\n";
  return `${renderTable(checkpointColumns(screen, false), checkpoints, screen)}\n`;
}
