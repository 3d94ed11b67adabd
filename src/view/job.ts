/**
 * The page of one job: its state and why, the settings that differ from the defaults, its attempts as a timeline, its
 * checkpoints and the last lines it printed. Of its environment only the names are shown, unless somebody asks.
 */

import { extensionsOf } from "./json.ts";
import { DEFAULT_QUEUE, DEFAULT_SETTINGS, isFinished, shownState, type Job, type JobSettings } from "../core/job.ts";
import { formatDuration } from "../core/duration.ts";
import { RUNS_NEEDED, subjectOf, UNLEARNED_LEASE_MS, type Learned } from "../core/learning.ts";
import type { AttemptRecord, Checkpoint } from "../core/records.ts";
import { FENCE_TEXTS } from "./fence.ts";
import { needTexts } from "../core/resources.ts";
import { attemptColumns, checkpointColumns } from "./lists.ts";
import { bar } from "./progress.ts";
import type { Parent } from "./reason.ts";
import { JOB_FIELD_NAMES, jobField } from "../core/job_fields.ts";
import { paintState, type Screen } from "./style.ts";
import { renderPairs, renderTable } from "./table.ts";
import { commandText, inputText, outputLine, paintedWidth, quote, truncate, visible, wrap } from "./text.ts";
import { readable, relative } from "./time.ts";

export interface JobPage {
  job: Job;
  /** From `reasonOf`. */
  reason: string | null;
  /** Of a job whose lease is learned. */
  learned: Learned | null;
  /** The oldest first. */
  attempts: readonly AttemptRecord[];
  checkpoints: readonly Checkpoint[];
  parents: readonly Parent[];
  /** Of the newest attempt. */
  last_lines: readonly string[];
  /** Whether to show what the variables of its environment are set to. */
  show_env: boolean;
}

const BAR_COLUMNS = 20;

export function jobText(page: JobPage, screen: Screen): string {
  const { job } = page;
  const { paint } = screen;
  const parts = [
    `${headText(page, screen)}\n${paint.dim("$")} ${commandText(job)}\n`,
    `${renderPairs(facts(page, screen), screen)}\n`,
  ];
  if (page.attempts.length > 0) {
    parts.push(section("Attempts", renderTable(attemptColumns(screen), page.attempts, screen), screen));
  }
  if (page.checkpoints.length > 0) {
    parts.push(section("Checkpoints", renderTable(checkpointColumns(screen, true), page.checkpoints, screen), screen));
  }
  if (page.last_lines.length > 0) parts.push(section("Last lines", lastLines(page.last_lines, screen), screen));
  return parts.join("\n");
}

/** With the reason behind it, or below it where that is too long. */
function headText({ job, reason }: JobPage, { paint, width }: Screen): string {
  const state = shownState(job);
  const head = `${paint.bold(`Job ${job.id}`)}  ${paintState(paint, state)(state)}`;
  if (reason === null) return head;
  const line = `${head}  ${visible(reason)}`;
  if (width === null || paintedWidth(line) <= width) return line;
  return [head, ...wrap(visible(reason), width - 2).map((part) => `  ${part}`)].join("\n");
}

function section(title: string, body: string, { paint }: Screen): string {
  return `${paint.bold(title)}\n${body}\n`;
}

function lastLines(lines: readonly string[], { paint, width }: Screen): string {
  const room = width === null ? Number.POSITIVE_INFINITY : Math.max(1, width - 2);
  return lines.map((line) => `${paint.dim("│")} ${truncate(outputLine(line), room)}`).join("\n");
}

function facts(page: JobPage, screen: Screen): [string, string][] {
  const { job } = page;
  const rows: Fact[] = [
    ...askedOf(job, page.show_env),
    ["fence", fenceText(page.attempts)],
    ["learned lease", page.learned === null ? null : learnedText(job, page.learned)],
    ["tells of", hookText(job)],
    ["depends on", page.parents.map(({ id, state }) => `${id} (${state})`).join(", ")],
    ...moments(job, screen),
    ["extensions", extensionText(page)],
    ["output", job.result.output],
  ];
  const safe = shownFacts(rows);
  // The bar is painted already: making it visible would show its colours as escapes.
  const progress = progressText(job, screen);
  return progress === null ? safe : [...safe, ["progress", progress]];
}

/** A label, and what is to be told; null or an empty text: nothing. */
type Fact = [label: string, text: string | null];

/** Those that tell something, safe to print. */
export function shownFacts(rows: readonly Fact[]): [string, string][] {
  return rows.flatMap(([label, text]) => (text === null || text === "" ? [] : [[label, visible(text)]]));
}

type Asked = Pick<Job, "queue" | "priority" | "task" | "key" | "cwd" | "env" | "argv" | "input"> &
  Pick<Job, "limits" | "needs" | "settings">;

/** What whoever enqueued it said, beside the command; the values of its environment only if `show_env`. */
export function askedOf(job: Asked, show_env: boolean): Fact[] {
  return [
    ["queue", queueText(job)],
    ["task", job.task],
    ["key", job.key],
    ["folder", job.cwd],
    ["environment", environmentText(job.env, show_env)],
    ["input", job.argv.length > 0 && job.input !== null ? inputText(job.input) : null],
    ["limits", job.limits.join(", ")],
    ["needs", needTexts(job.needs).join(", ")],
    ["settings", changedSettings(job.settings).join(" · ")],
  ];
}

/** Of the newest attempt of which it is known. */
function fenceText(attempts: readonly AttemptRecord[]): string | null {
  const fence = attempts.findLast((attempt) => attempt.fence !== null)?.fence ?? null;
  return fence === null ? null : FENCE_TEXTS[fence];
}

function hookText({ settings: { hook } }: Job): string | null {
  return hook === null ? null : `job ${hook.job}, which failed in attempt ${hook.attempt}`;
}

/** Only where something about them was not as it should be. */
function extensionText({ attempts }: JobPage): string | null {
  const { attempts: asked, failures, refusals } = extensionsOf(attempts);
  if (failures + refusals === 0) return null;
  const told = [failures > 0 ? `${failures} could not be written` : "", refusals > 0 ? `${refusals} refused` : ""];
  return `${asked}, ${told.filter((text) => text !== "").join(", ")}`;
}

function environmentText(env: Job["env"], show_env: boolean): string {
  const variables = Object.entries(env);
  return variables.map(([name, value]) => (show_env ? `${name}=${quote(value)}` : name)).join(show_env ? " " : ", ");
}

/** What the lease is, and what it was learned from. */
function learnedText(job: Job, { runs, gap_ms, lease_ms }: Learned): string {
  const seen = `${runs} ${runs === 1 ? "run" : "runs"} of ${subjectOf(job)}`;
  if (lease_ms === null)
    return `${formatDuration(UNLEARNED_LEASE_MS)} until ${RUNS_NEEDED} runs are seen; so far ${seen}`;
  return `${formatDuration(lease_ms)} from ${seen}, 99 % of whose gaps between beats were up to ${formatDuration(gap_ms)}`;
}

function queueText(job: Pick<Job, "queue" | "priority" | "settings">): string {
  const aged = job.settings.aged === 0 ? "" : ` (${job.settings.aged} by waiting)`;
  const priority = job.priority === 0 ? "" : `, priority ${job.priority}${aged}`;
  return job.queue === DEFAULT_QUEUE && priority === "" ? "" : job.queue + priority;
}

function moments(job: Job, { now_ms }: Screen): Fact[] {
  const { state } = job;
  const at = (ms: number): string => `${readable(ms)} (${relative(ms, now_ms)})`;
  const rows: Fact[] = [["created", at(job.created_at_ms)]];
  if (state.name === "scheduled") rows.push(["due", at(state.run_at_ms)]);
  if (job.started_at_ms !== null) rows.push(["started", at(job.started_at_ms)]);
  if (state.name === "running") {
    const ends = `${state.expires_at_ms < now_ms ? "ended" : "ends"} ${relative(state.expires_at_ms, now_ms)}`;
    rows.push(["lease", `${ends}, token ${job.token}, held by ${state.holder}`]);
    if (job.last_beat_at_ms !== null) rows.push(["last beat", relative(job.last_beat_at_ms, now_ms)]);
  }
  if (isFinished(state)) {
    const took = job.started_at_ms === null ? "" : `, took ${formatDuration(state.finished_at_ms - job.started_at_ms)}`;
    rows.push(["finished", at(state.finished_at_ms) + took]);
  }
  return rows;
}

function progressText(job: Job, { paint }: Screen): string | null {
  if (job.progress === null && job.message === null) return null;
  const shown = job.progress === null ? [] : [bar(job.progress / 100, BAR_COLUMNS, paint), `${job.progress} %`];
  if (job.message !== null) shown.push(visible(job.message));
  return shown.join(" ");
}

/** As a person reads them, only where they differ from what everybody gets. */
export function changedSettings(settings: JobSettings): string[] {
  return JOB_FIELD_NAMES.flatMap((field) => {
    const { setting } = jobField(field);
    if (setting === undefined) return [];
    const [own, usual] = [settings, DEFAULT_SETTINGS].map((all) => JSON.stringify(all[setting.name]));
    return own === usual ? [] : [setting.wording(settings)];
  });
}
