/** The lists of jobs (with the reason why each is where it is), of leases and of checkpoints; the attempts of one job. */

import { formatDuration } from "../core/duration.ts";
import { bytesWording } from "../core/job_fields.ts";
import { DEFAULT_QUEUE, isFinished, shownState, type Job } from "../core/job.ts";
import type { AttemptRecord, Checkpoint } from "../core/records.ts";
import { paintCause, paintState, type Screen } from "./style.ts";
import { failureText } from "./reason.ts";
import { renderList, type Cell, type Column } from "./table.ts";
import { commandText, outputLine } from "./text.ts";
import { relative } from "./time.ts";

export interface JobRow {
  job: Job;
  /** From `reasonOf`. */
  reason: string | null;
  /** Of one that failed, what it said last. */
  last_line?: string | null;
}

/** When the job got into its state, or will leave it. */
function moment(job: Job): number {
  if (isFinished(job.state)) return job.state.finished_at_ms;
  if (job.state.name === "scheduled") return job.state.run_at_ms;
  return job.state.name === "running" ? (job.started_at_ms ?? job.created_at_ms) : job.created_at_ms;
}

/** How long its newest run took, or takes; null while it waits. */
export function runtimeOf({ state, started_at_ms }: Job, now_ms: number): number | null {
  const end_ms = state.name === "running" ? now_ms : isFinished(state) ? state.finished_at_ms : null;
  return started_at_ms === null || end_ms === null ? null : Math.max(0, end_ms - started_at_ms);
}

function runtimeText(job: Job, now_ms: number): string {
  const ran_ms = runtimeOf(job, now_ms);
  return ran_ms === null ? "" : formatDuration(ran_ms);
}

function reasonText({ job, reason, last_line = null }: JobRow): string | null {
  return last_line !== null && reason === job.result.error ? failureText({ job, last_line }) : reason;
}

export function jobsText(rows: readonly JobRow[], screen: Screen): string {
  const { now_ms, paint } = screen;
  const inQueue = ({ job }: JobRow) => job.queue !== DEFAULT_QUEUE;
  const priority = ({ job }: JobRow) => (job.priority === 0 ? null : job.priority);
  const columns: Column<JobRow>[] = [
    { title: "ID", cell: ({ job }) => job.id, align: "right" },
    { title: "STATE", cell: ({ job }) => ({ text: shownState(job), style: paintState(paint, shownState(job)) }) },
    { title: "QUEUE", cell: ({ job }) => job.queue, optional: inQueue, shrink_to: 6, drop: 1 },
    { title: "TASK", cell: ({ job }) => job.task, optional: true, shrink_to: 6, drop: 4 },
    { title: "KEY", cell: ({ job }) => job.key, optional: true, shrink_to: 6, drop: 6 },
    { title: "PRIORITY", short_title: "PRI", cell: priority, align: "right", optional: true, drop: 5 },
    { title: "RUNS", cell: ({ job }) => (job.token > 1 ? job.token : null), align: "right", optional: true, drop: 3 },
    { title: "WHEN", cell: ({ job }) => relative(moment(job), now_ms), align: "right" },
    { title: "TOOK", cell: ({ job }) => runtimeText(job, now_ms), align: "right", optional: true, drop: 2 },
    { title: "COMMAND", cell: ({ job }) => commandText(job), shrink_to: 16 },
    { title: "REASON", cell: reasonText, optional: true, shrink_to: 28 },
  ];
  return renderList(columns, rows, screen, "no jobs match");
}

/** Over, and nobody has recovered the job yet. */
export function isStale({ state }: Pick<Job, "state">, now_ms: number): boolean {
  return state.name === "running" && state.expires_at_ms < now_ms;
}

function expiryCell(job: Job, { now_ms, paint }: Screen): Cell | null {
  if (job.state.name !== "running") return null;
  const text = relative(job.state.expires_at_ms, now_ms);
  return isStale(job, now_ms) ? { text: `stale, ${text}`, style: paint.red } : { text };
}

/** Running jobs by who holds them, how fresh their last beat is and when the lease ends. */
export function leasesText(jobs: readonly Job[], screen: Screen): string {
  const beat = (at_ms: number | null) => (at_ms === null ? null : relative(at_ms, screen.now_ms));
  const columns: Column<Job>[] = [
    { title: "ID", cell: ({ id }) => id, align: "right" },
    { title: "QUEUE", cell: ({ queue }) => queue, shrink_to: 6, drop: 1 },
    { title: "TASK", cell: ({ task }) => task, optional: true, shrink_to: 6, drop: 3 },
    { title: "TOKEN", cell: ({ token }) => token, align: "right", drop: 2 },
    { title: "HOLDER", cell: ({ state }) => (state.name === "running" ? state.holder : null), shrink_to: 8 },
    { title: "BEAT", cell: ({ last_beat_at_ms }) => beat(last_beat_at_ms), align: "right" },
    { title: "ENDS", cell: (job) => expiryCell(job, screen), align: "right" },
    { title: "COMMAND", cell: commandText, shrink_to: 14 },
  ];
  return renderList(columns, jobs, screen, "no leases held");
}

/** What went wrong, and how far jobs said they were; `of_one_job` leaves out what would be the same on every line. */
export function checkpointColumns({ now_ms, paint }: Screen, of_one_job: boolean): Column<Checkpoint>[] {
  const whose: Column<Checkpoint>[] = [
    { title: "JOB", cell: ({ job }) => job, align: "right" },
    { title: "TASK", cell: ({ task }) => task, optional: true, shrink_to: 6, drop: 1 },
  ];
  return [
    ...(of_one_job ? [] : whose),
    { title: "WHEN", cell: ({ at_ms }) => relative(at_ms, now_ms), align: "right" },
    { title: "KIND", cell: ({ kind }) => ({ text: kind, style: kind === "error" ? paint.red : paint.green }) },
    { title: "TOKEN", cell: ({ token }) => token, align: "right", drop: 2 },
    { title: "TEXT", cell: (checkpoint) => outputLine(summary(checkpoint)), shrink_to: 20 },
  ];
}

/** An error checkpoint is a record; people read its cause, what was said about it, and where it happened. */
function summary({ kind, text }: Checkpoint): string {
  const note = kind === "error" ? parsed(text) : null;
  if (note === null) return text;
  const where = note["host"] === undefined ? null : `on ${String(note["host"])}`;
  const said = [note["error"], where].filter(Boolean).join(", ");
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
  return renderList(checkpointColumns(screen, false), checkpoints, screen, "no checkpoints");
}

/** The cause, in the words of whoever saw it where they say more: `silent 5m02s of 5m`. */
function causeText({ end }: AttemptRecord): string {
  if (end === null) return "running";
  return end.error?.startsWith(end.cause) && end.cause !== "exit" ? end.error : end.cause;
}

function formatted(value: number | null, format: (value: number) => string): string | null {
  return value === null ? null : format(value);
}

/** A timeline: when each attempt began, how long it took, how it ended, where, and its last line. */
export function attemptColumns({ now_ms, paint }: Screen): Column<AttemptRecord>[] {
  const took = ({ started_at_ms, ended_at_ms }: AttemptRecord) => Math.max(0, (ended_at_ms ?? now_ms) - started_at_ms);
  const cause = (attempt: AttemptRecord) => ({
    text: causeText(attempt),
    style: paintCause(paint, attempt.end?.cause ?? null),
  });
  return [
    { title: "#", cell: ({ attempt }) => attempt, align: "right" },
    { title: "STARTED", cell: ({ started_at_ms }) => relative(started_at_ms, now_ms), align: "right" },
    { title: "TOOK", cell: (attempt) => formatDuration(took(attempt)), align: "right" },
    { title: "END", cell: cause, shrink_to: 8 },
    {
      title: "EXIT",
      cell: ({ end }) => end?.signal ?? end?.exit_code ?? null,
      optional: true,
      align: "right",
      drop: 1,
    },
    { title: "CPU", cell: ({ cpu_ms }) => formatted(cpu_ms, formatDuration), optional: true, align: "right", drop: 4 },
    {
      title: "MEMORY",
      cell: ({ memory_bytes }) => formatted(memory_bytes, bytesWording),
      optional: true,
      align: "right",
      drop: 5,
    },
    { title: "HOST", cell: ({ host }) => host, shrink_to: 6, drop: 2 },
    { title: "BEATS", cell: ({ beats }) => beats, align: "right", drop: 3 },
    { title: "LAST LINE", cell: ({ end }) => outputLine(end?.last_line ?? ""), optional: true, shrink_to: 12 },
  ];
}
