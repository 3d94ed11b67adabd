/** What people read about a silent job: the warning in time, and the reason afterwards. */

import { formatDuration } from "../core/duration.ts";
import type { Beat } from "../core/job.ts";
import type { Lease } from "../leasing/lease.ts";

/** What it lacks, by what counts as a beat. */
const SILENT = {
  output: "silent",
  stdout: "silent on stdout, which is all that counts with --beat stdout,",
  timer: "silent",
  manual: "without `lease beat`, which is all that counts with --beat manual,",
} as const satisfies Record<Beat, string>;

/** Names the flags that would change it, because most silent jobs are healthy ones that were not described well. */
export function silenceWarning({ lease_ms, job }: Lease, silent_ms: number, beat: Beat): string {
  // Most programs print into a pipe only when they have a few kilobytes together.
  const buffered = job.settings.pty || beat === "manual" ? "" : "--pty if its output is buffered, ";
  return (
    `${SILENT[beat]} for ${formatDuration(silent_ms)} of ${formatDuration(lease_ms)}, then it is stopped. ` +
    `If that is normal for it: a longer --lease, ${buffered}--beat timer, or \`lease beat\` in the job`
  );
}

export function silenceText({ lease_ms }: Lease, silent_ms: number, last_line: string | null, beat: Beat): string {
  const said = last_line === null ? "nothing was printed" : `last line "${last_line}"`;
  return `${SILENT[beat]} ${formatDuration(silent_ms)} of ${formatDuration(lease_ms)}, ${said}`;
}
