/**
 * What scripts read. JSON: flat objects, snake_case, RFC 3339 times in UTC, absent values null. The names are a promise:
 * adding one is fine, changing or removing one needs a new SCHEMA.
 *
 * Lists for pipes as TSV: a header, then one line per row, values between tabs. The names are those of the JSON, the
 * columns never depend on what is in the list, and `cut -f1` is a list of ids.
 */

import { formatDuration, parseDuration } from "../core/duration.ts";
import { JOB_FIELD_NAMES, jobField } from "../core/job_fields.ts";
import { isFinished, retriesLeft, shownState, type Job, type JobSettings } from "../core/job.ts";
import type { AttemptRecord, Checkpoint, RecoveryTotals } from "../core/records.ts";
import { haveTexts, needTexts } from "../core/resources.ts";
import type { JobPage } from "./job.ts";
import { isStale, runtimeOf, type JobRow } from "./lists.ts";
import type { GraphPage } from "./graph.ts";
import { recoveryRate, type Overview } from "./overview.ts";
import { countStates, type QueueSummary } from "./queues.ts";
import { ownReason } from "./reason.ts";
import { commandText, visible, visibleJson } from "./text.ts";
import { rfc3339 } from "./time.ts";
import { slotsOf, workerState, type WorkerRow } from "./workers.ts";

const SCHEMA = 1;

/** `reason` is what `reasonOf` found, where somebody looked; else what the job itself carries. */
export function jobJson(job: Job, reason: string | null = ownReason(job)) {
  const { state } = job;
  const running = state.name === "running" ? state : null;
  const waiting = state.name === "scheduled" || state.name === "pending" ? state : job;
  return {
    schema: SCHEMA,
    id: job.id,
    state: shownState(job),
    queue: job.queue,
    task: job.task,
    key: job.key,
    priority: job.priority,
    argv: job.argv,
    input: job.input === null ? null : bytesText(job.input),
    cwd: job.cwd,
    retries: job.settings.retries,
    attempts: job.token,
    retries_left: retriesLeft(job),
    token: job.token,
    holder: running?.holder ?? null,
    expires_at: time(running?.expires_at_ms),
    last_beat_at: time(job.last_beat_at_ms),
    progress: job.progress,
    message: job.message,
    exit_code: job.result.exit_code,
    cause: job.result.cause,
    error: job.result.error,
    output: job.result.output,
    reason,
    created_at: time(job.created_at_ms),
    run_at: time(waiting.run_at_ms),
    started_at: time(job.started_at_ms),
    finished_at: time(isFinished(state) ? state.finished_at_ms : null),
    limit: job.limits,
    need: needTexts(job.needs),
  };
}

export function attemptJson({ attempt, token, worker, host, process, beats, end, ...when }: AttemptRecord) {
  const { cause = null, exit_code = null, signal = null, error = null, last_line = null } = end ?? {};
  const times = { started_at: time(when.started_at_ms), ended_at: time(when.ended_at_ms) };
  const pid = process?.pid ?? null;
  const usage = { fence: when.fence, cpu_ms: when.cpu_ms, memory_bytes: when.memory_bytes };
  const counts = extensionNames(when.extensions);
  return {
    attempt,
    token,
    worker,
    host,
    pid,
    ...times,
    cause,
    exit_code,
    signal,
    last_line,
    beats,
    ...counts,
    error,
    ...usage,
  };
}

export function checkpointJson({ id, job, task, kind, token, at_ms, text }: Checkpoint) {
  const noted = kind === "error" ? noteJson(text) : null;
  return { id, job, task, kind, token, at: time(at_ms), text, error: noted };
}

/** What an error checkpoint says, with its times as everybody's; null where it is not one of ours. */
function noteJson(text: string): Record<string, unknown> | null {
  let said: unknown;
  try {
    said = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof said !== "object" || said === null || Array.isArray(said)) return null;
  return Object.fromEntries(
    Object.entries(said).map(([name, value]) =>
      name.endsWith("_at_ms") ? [name.slice(0, -"_ms".length), time(value as number | null)] : [name, value],
    ),
  );
}

export function workerJson(row: WorkerRow, now_ms: number) {
  const { worker, held } = row;
  const { id, name, host, process, version, queues, task, slots, have, completed, failed } = worker;
  const { idle, processing, draining, stopped } = slotsOf(row);
  const current = held.map(({ id: job, token, last_beat_at_ms }) => {
    return { job, attempt: token, last_beat_at: time(last_beat_at_ms) };
  });
  const about = { id, name, state: workerState(worker, now_ms), host, pid: process.pid, version, queues, task, slots };
  const busy = { slots_idle: idle, slots_processing: processing, slots_draining: draining, slots_stopped: stopped };
  const [started_at, seen_at] = [time(worker.started_at_ms), time(worker.seen_at_ms)];
  const stopped_at = time(worker.stopped_at_ms);
  return { ...about, ...busy, completed, failed, current, started_at, seen_at, stopped_at, have: haveTexts(have) };
}

export function queueJson({ queue, paused, workers, counts }: QueueSummary) {
  return { queue, paused, workers, ...countStates((state) => counts[state]) };
}

/** What `inspect TASK --json` prints. */
export function graphJson({ task, jobs, links, critical }: GraphPage) {
  const path = { critical_path: critical.ids, critical_path_ms: critical.took_ms };
  return { schema: SCHEMA, task, ...path, dependencies: links, jobs: jobs.map((job) => jobJson(job)) };
}

/** `job` must be running. */
export function leaseJson(job: Job, now_ms: number) {
  const { id, state, queue, task, token, holder, expires_at, last_beat_at, started_at } = jobJson(job);
  const stale = isStale(job, now_ms);
  const expires_at_ms = stale && job.state.name === "running" ? job.state.expires_at_ms : null;
  const since = {
    minutes_since_beat: minutesSince(job.last_beat_at_ms, now_ms),
    minutes_since_expiry: minutesSince(expires_at_ms, now_ms),
  };
  return { id, state, queue, task, token, holder, stale, expires_at, last_beat_at, ...since, started_at };
}

function minutesSince(at_ms: number | null, now_ms: number): number | null {
  return at_ms === null ? null : Math.round(Math.max(0, now_ms - at_ms) / 600) / 100;
}

type Detail = Pick<JobPage, "parents" | "reason" | "learned" | "attempts" | "checkpoints" | "show_env">;

function extensionNames({ attempts, failures, refusals }: AttemptRecord["extensions"]) {
  return { extensions: attempts, extension_failures: failures, extension_refusals: refusals };
}

/** By the names by which they are asked for, times as text. */
function settingsJson(settings: JobSettings): Record<string, unknown> {
  const told: Record<string, unknown> = {};
  for (const name of JOB_FIELD_NAMES) {
    const { setting } = jobField(name);
    if (setting === undefined) continue;
    const value = settings[setting.name];
    told[name] = typeof value === "number" && setting.name.endsWith("_ms") ? exactDuration(value) : value;
  }
  return { ...told, hook: settings.hook, aged: settings.aged };
}

function exactDuration(ms: number): string {
  const text = formatDuration(ms);
  return parseDuration(text, "a setting") === ms ? text : `${ms}ms`;
}

/** Of all attempts together. */
export function extensionsOf(attempts: readonly AttemptRecord[]): AttemptRecord["extensions"] {
  const sum = { attempts: 0, failures: 0, refusals: 0 };
  for (const { extensions } of attempts) {
    sum.attempts += extensions.attempts;
    sum.failures += extensions.failures;
    sum.refusals += extensions.refusals;
  }
  return sum;
}

/** What `inspect ID --json` prints. */
export function jobDetailJson(job: Job, page: Detail) {
  const { reason, learned, attempts, checkpoints, parents, show_env } = page;
  const { runs, gap_ms, lease_ms } = learned ?? {};
  return {
    ...jobJson(job, reason),
    ...(show_env ? { env: job.env } : {}),
    ...(learned === null ? {} : { learned: { runs, gap_ms, lease_ms } }),
    settings: settingsJson(job.settings),
    depends_on: parents.map(({ id, state }) => ({ id, state })),
    ...extensionNames(extensionsOf(attempts)),
    history: attempts.map(attemptJson),
    checkpoints: checkpoints.map(checkpointJson),
  };
}

/** What `inspect --json` prints. */
export function overviewJson({ queues, workers, leases, retries, recovery, failures }: Overview, now_ms: number) {
  const { held, stale, next_expires_at_ms } = leases;
  return {
    schema: SCHEMA,
    queues: queues.map(queueJson),
    workers: workers.map((row) => workerJson(row, now_ms)),
    leases: { held, stale, next_expires_at: time(next_expires_at_ms) },
    retries,
    recovery: recovery === null ? null : recoveryJson(recovery),
    failures: failures.map(({ job }) => jobJson(job)),
  };
}

function recoveryJson(recovery: RecoveryTotals) {
  const { last_at_ms, last_scan, ...totals } = recovery;
  const { at_ms = null, ...counts } = last_scan ?? {};
  const scan = last_scan === null ? null : { at: time(at_ms), ...counts };
  return { ...totals, rate: recoveryRate(recovery), last_at: time(last_at_ms), last_scan: scan };
}

/** One line of output for one object. Objects that are printed by themselves carry `schema`; jobs always do. */
export function jsonLine(value: object): string {
  const versioned = "schema" in value ? value : { schema: SCHEMA, ...value };
  // JSON leaves some characters raw that a terminal obeys; as escapes they are the same JSON.
  return `${visibleJson(JSON.stringify(versioned))}\n`;
}

/** Jobs that were granted together share their times, and to write them takes longer than all the rest of a job. */
const recent_times = new Map<number, string>();
const TIMES_KEPT = 64;

function time(at_ms: number | null | undefined): string | null {
  if (at_ms === null || at_ms === undefined) return null;
  const known = recent_times.get(at_ms);
  if (known !== undefined) return known;
  const text = rfc3339(at_ms);
  if (recent_times.size >= TIMES_KEPT) recent_times.clear();
  recent_times.set(at_ms, text);
  return text;
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Bytes that are no UTF-8 become replacement characters. */
export function bytesText(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

export const TSV_NAMES = {
  // What GNU parallel's joblog has, and what it can't know: why, by whom, and the how-manieth time.
  jobs:
    "id state queue task key priority attempts holder created_at started_at finished_at runtime exit_code cause " +
    "reason command",
  queues: "queue paused workers running cancelling pending scheduled retrying blocked completed failed cancelled",
  workers:
    "id name state host pid version queues task slots slots_idle slots_processing slots_draining slots_stopped completed " +
    "failed started_at seen_at stopped_at",
  leases:
    "id state queue task token holder stale expires_at last_beat_at minutes_since_beat minutes_since_expiry started_at",
  checkpoints: "id job task kind token at text",
} as const;

/** The rows of `jobs`: its JSON, with the command as one would type it, and how long it ran in seconds. */
export function jobTsv({ job, reason }: JobRow, now_ms: number) {
  const ran_ms = runtimeOf(job, now_ms);
  const runtime = ran_ms === null ? null : (ran_ms / 1_000).toFixed(3);
  return { ...jobJson(job, reason), runtime, command: commandText(job) };
}

export function tsvHeader(names: string): string {
  return `${names.replaceAll(" ", "\t")}\n`;
}

/** Tabs and line ends inside a value appear as escapes. */
export function tsvLine(names: string, row: object): string {
  const values = new Map(Object.entries(row));
  const texts = names.split(" ").map((name) => visible(valueText(values.get(name))));
  return `${texts.join("\t")}\n`;
}

function valueText(value: unknown): string {
  return Array.isArray(value) ? value.join(",") : String(value ?? "");
}
