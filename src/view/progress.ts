/** How far something is: a bar, and a line about a worker that works off its queues. */

import { formatDuration } from "../core/duration.ts";
import type { Paint } from "./style.ts";
import { outputLine, visible } from "./text.ts";
import { coarse } from "./time.ts";

/** `━━━━━━━━────────`, `width` columns wide; a fraction outside 0…1 counts as its nearest end. */
export function bar(fraction: number, width: number, paint: Paint): string {
  const done = Math.round(Math.min(1, Math.max(0, fraction)) * width);
  return paint.green("━".repeat(done)) + paint.dim("─".repeat(width - done));
}

export interface WorkProgress {
  completed: number;
  failed: number;
  running: number;
  /** Not begun yet. */
  left: number;
  cancelled?: number;
  /** Of those that have ended, how many had when the time began; they say nothing about the speed. */
  before?: number;
  elapsed_ms: number;
  /** The one job that all of this is about, where it is one. */
  job?: JobProgress | null;
}

/** What a job tells about itself while it runs. */
export interface JobProgress {
  id: number;
  command: string;
  /** Of 100, where it says so. */
  progress: number | null;
  message: string | null;
  state: string;
}

const BAR_COLUMNS = 20;

/** `━━━━──── 812 done, 3 failed, 4 running, 185 left, 154/s, 1s to go`; without the bar where there is no room for it. */
export function progressLine(progress: WorkProgress, width: number | null, paint: Paint): string {
  if (progress.job) return jobLine(progress.job, progress.elapsed_ms, width, paint);
  const { completed, failed, cancelled = 0, running, left, before = 0, elapsed_ms } = progress;
  const ended = completed + failed + cancelled;
  const all = ended + running + left;
  const per_second = elapsed_ms < 500 ? 0 : ((ended - before) * 1_000) / elapsed_ms;
  const rate = per_second >= 10 ? Math.round(per_second) : per_second.toFixed(1);
  const parts = [
    paint.green(`${completed} done`),
    ...(failed > 0 ? [paint.red(`${failed} failed`)] : []),
    ...(cancelled > 0 ? [paint.magenta(`${cancelled} cancelled`)] : []),
    ...(running > 0 ? [`${running} running`] : []),
    ...(left > 0 ? [`${left} left`] : []),
    ...(per_second > 0 ? [`${rate}/s`] : []),
    ...(per_second > 0 && left > 0 ? [`${formatDuration((left * 1_000) / per_second)} to go`] : []),
  ];
  const text = parts.join(", ");
  if (width === null || all === 0 || width < 80) return text;
  return `${bar(ended / all, BAR_COLUMNS, paint)} ${text}`;
}

/** `━━━━──── 40 % linking  job 7 running 2m: make test`. */
function jobLine(job: JobProgress, elapsed_ms: number, width: number | null, paint: Paint): string {
  const { id, command, progress, message, state } = job;
  const share = progress === null ? [] : [`${progress} %`];
  const told = [...share, ...(message === null ? [] : [outputLine(message)])].join(" ");
  const about = `job ${id} ${state} ${coarse(elapsed_ms)}: ${visible(command)}`;
  const shown = progress === null || width === null || width < 80 ? "" : `${bar(progress / 100, BAR_COLUMNS, paint)} `;
  return told === "" ? about : `${shown}${paint.green(told)}  ${about}`;
}

/** What it comes to at the end. */
export function progressSummary({ completed, failed, elapsed_ms }: WorkProgress): string {
  const failures = failed > 0 ? `, ${failed} failed` : "";
  return `${completed} done${failures} in ${formatDuration(elapsed_ms)}`;
}
