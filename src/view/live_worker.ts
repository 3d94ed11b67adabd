/** A worker as it works: what it serves, a line per job that runs, and how far it is. */

import { progressLine, type WorkProgress } from "./progress.ts";
import type { Paint } from "./style.ts";
import { displayWidth, outputLine, pad, truncate, visible, type Size } from "./text.ts";
import { formatDuration } from "../core/duration.ts";

export interface ShownJob {
  id: number;
  command: string;
  elapsed_ms: number;
  progress: number | null;
  message: string | null;
  last_line: string | null;
  /** Since it last proved that it works, and how much of that is too much. */
  silent_ms: number;
  lease_ms: number;
  stopping: boolean;
}

/** Silence is worth a word when it has used up so much of the lease, and is not just a moment. */
const SILENT_SHARE = 1 / 4;
const SILENT_FROM_MS = 5_000;
const MOST_JOBS = 12;
/** Rows that are left to what stands above. */
const ROWS_ABOVE = 6;
const COMMAND_SHARE = 0.4;

export function workerPicture(jobs: readonly ShownJob[], progress: WorkProgress, size: Size, paint: Paint): string[] {
  const { columns, rows } = size;
  const room = Math.max(1, Math.min(MOST_JOBS, rows - ROWS_ABOVE));
  const shown = jobs.length <= room ? jobs : jobs.slice(0, room - 1);
  const id_width = Math.max(0, ...shown.map(({ id }) => String(id).length));
  const command_width = commandWidth(shown, columns);
  const more = jobs.length - shown.length;
  return [
    ...shown.map((job) => jobRow(job, id_width, command_width, paint)),
    ...(more > 0 ? [paint.dim(`… and ${more} more`)] : []),
    progressLine(progress, columns, paint),
  ];
}

function commandWidth(jobs: readonly ShownJob[], columns: number): number {
  const widest = Math.max(0, ...jobs.map(({ command }) => displayWidth(visible(command))));
  return Math.min(widest, Math.max(12, Math.floor(columns * COMMAND_SHARE)));
}

function jobRow(job: ShownJob, id_width: number, command_width: number, paint: Paint): string {
  const id = paint.cyan(String(job.id).padStart(id_width));
  const command = pad(truncate(visible(job.command), command_width), command_width);
  return `${id}  ${command}  ${elapsedText(job.elapsed_ms).padStart(6)}  ${noteOf(job, paint)}`.trimEnd();
}

/** To the second; less is noise in a line that is drawn a few times a second. */
function elapsedText(ms: number): string {
  return ms < 1_000 ? "0s" : formatDuration(Math.floor(ms / 1_000) * 1_000);
}

function noteOf(job: ShownJob, paint: Paint): string {
  const { progress, message, last_line, silent_ms, lease_ms, stopping } = job;
  if (stopping) return paint.yellow("stopping");
  const told = [...(progress === null ? [] : [`${progress} %`]), ...(message === null ? [] : [outputLine(message)])];
  const line = told.length > 0 ? told.join(" ") : outputLine(last_line ?? "");
  if (silent_ms < Math.max(SILENT_FROM_MS, lease_ms * SILENT_SHARE)) return line;
  const silent = paint.yellow(`silent ${elapsedText(silent_ms)} of ${formatDuration(lease_ms)}`);
  return line === "" ? silent : `${silent}  ${paint.dim(line)}`;
}
