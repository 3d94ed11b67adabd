/** What people read about the jobs of a worker: of a silent one the warning in time and the reason, and how each ended. */

import { formatDuration } from "../core/duration.ts";
import { errorText } from "../core/errors.ts";
import { elapsed } from "../core/history.ts";
import type { Beat } from "../core/job.ts";
import { aboutJob, hears, type EventFields, type Level, type Report } from "../core/report.ts";
import type { AttemptEnd } from "../core/transition.ts";
import { FAILURES_REPORTED } from "../leasing/extender.ts";
import type { Lease } from "../leasing/lease.ts";
import type { Release } from "../leasing/manager.ts";
import type { SilenceWatch } from "../leasing/silence_watch.ts";
import { NOT_STARTED } from "./acquire_ahead.ts";

/** What it lacks, by what counts as a beat. */
const SILENT = {
  output: "silent",
  stdout: "silent on stdout, which is all that counts with --beat stdout,",
  timer: "silent",
  manual: "without `lease beat`, which is all that counts with --beat manual,",
} as const satisfies Record<Beat, string>;

/** How long it may be silent. */
type Budget = Pick<SilenceWatch, "budget_ms">;

/** Of a program, or (null) of a handler. Names the flags that would change it, because most silent jobs are healthy ones that were not described well. */
export function silenceWarning({ job }: Lease, { budget_ms }: Budget, silent_ms: number, beat: Beat | null): string {
  const of = `${formatDuration(silent_ms)} of ${formatDuration(budget_ms)}`;
  if (beat === null) {
    const ways = 'a longer lease, beat: "timer", or beat() where a piece of work is done';
    return `silent for ${of}, then it is stopped. If that is normal for it: ${ways}`;
  }
  // Most programs print into a pipe only when they have a few kilobytes together.
  const buffered = job.settings.pty || beat === "manual" ? "" : "--pty if its output is buffered, ";
  const stderr = beat === "stdout" ? "--beat output if it prints on stderr, " : "";
  const ways = `a longer --lease, ${stderr}${buffered}--beat timer, or \`lease beat\` in the job`;
  return `${SILENT[beat]} for ${of}, then it is stopped. If that is normal for it: ${ways}`;
}

/** Why the silence watch had it stopped. */
export function stoppedText(
  cause: "silent" | "timeout",
  { job }: Lease,
  { budget_ms }: Budget,
  silent_ms: number,
  last_line: string | null,
  beat: Beat,
): string {
  if (cause === "timeout") return `timeout after ${formatDuration(job.settings.timeout_ms ?? 0)}`;
  const said = last_line === null ? "nothing was printed" : `last line "${last_line}"`;
  return `${SILENT[beat]} ${formatDuration(silent_ms)} of ${formatDuration(budget_ms)}, ${said}`;
}

export function extensionText(error: unknown, in_a_row: number): [Level, string] {
  const often = in_a_row >= FAILURES_REPORTED;
  const row = often ? `, ${in_a_row} times in a row` : "";
  return [often ? "error" : "warn", `its lease could not be extended${row}: ${errorText(error)}`];
}

/** How an attempt ended; null when somebody else has said it already. */
export function settledText(lease: Lease, release: Release): [Level, string] | null {
  if (release.status !== "applied") return null;
  const { state, ended, result } = release.change;
  const job = `job ${lease.job.id}`;
  switch (state.name) {
    case "completed":
      return ["debug", `${job}: completed`];
    case "failed":
      return ["warn", `${job}: failed for good: ${result.error}${lastLine(ended)}`];
    case "cancelled":
      return ["info", `${job}: cancelled`];
    case "scheduled": {
      const pause_ms = Math.max(0, state.run_at_ms - release.decided_at_ms);
      const again = pause_ms === 0 ? "at once" : `in ${formatDuration(pause_ms)}`;
      return ["warn", `${job}: attempt ${lease.token} failed: ${ended?.error}${lastLine(ended)}; again ${again}`];
    }
    default:
      // What was only acquired ahead is nothing that happened to it.
      return [ended?.error === NOT_STARTED.error ? "debug" : "info", `${job}: back in the queue${whyBack(ended)}`];
  }
}

/** Beyond that it is there. */
function whyBack({ error }: AttemptEnd): string {
  return error === null || error === "returned to the queue" ? "" : `: ${error}`;
}

/** The same for programs. */
export function aboutEnd({ job }: Lease, release: Release): EventFields {
  if (release.status !== "applied") return aboutJob(job);
  const { state, ended } = release.change;
  const started_at_ms = job.started_at_ms ?? release.decided_at_ms;
  return {
    event: "ended",
    ...aboutJob(job),
    state: state.name,
    cause: ended.cause,
    exit_code: ended.exit_code,
    error: ended.error,
    beats: ended.beats,
    run_ms: elapsed(started_at_ms, release.decided_at_ms),
  };
}

export function tellGrant(report: Report, { job }: Lease): void {
  if (!hears(report, "debug")) return;
  const wait_ms = job.token === 1 ? elapsed(job.run_at_ms, job.started_at_ms ?? job.run_at_ms) : null;
  report("debug", `job ${job.id}: acquired`, { event: "acquired", ...aboutJob(job), wait_ms });
}

export function workerEvent(
  event: "worker_started" | "worker_stopped",
  worker: string,
  more: EventFields,
): LoggedEvent {
  const what = event === "worker_started" ? "serves" : "has ended";
  return ["debug", `worker ${worker} ${what}`, { event, worker, ...more }];
}

type LoggedEvent = [Level, string, EventFields];

/** What a program that failed said last is most often why; a stop of ours has it in its reason already. */
function lastLine(ended: AttemptEnd): string {
  const { cause, last_line } = ended;
  return (cause === "exit" || cause === "signal") && last_line !== null ? ` (${outputText(last_line)})` : "";
}

const LONGEST_LINE = 200;

function outputText(line: string): string {
  return line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line;
}
