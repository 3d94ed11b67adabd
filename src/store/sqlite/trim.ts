/**
 * Keeping the newest checkpoints only. Which tasks and jobs have too many is read without the lock, and only among
 * those that got one since the last trim, unless fewer are to be kept than then. The newest progress of an unfinished
 * job always stays: its next attempt starts from it.
 */

import { fromJson } from "../shared/rows.ts";
import { LAST_TRIM } from "../shared/schemas.ts";
import type { Statements } from "./connection.ts";

/** Tasks or jobs that are trimmed in one commit. */
interface Part {
  tasks: readonly string[];
  jobs: readonly number[];
}

const PER_COMMIT = 200;
const NAME = "trim";

/** `done` notes how far it got; null when nothing is new. */
export function trimmable(
  statements: Statements,
  keep: number,
): { found: Part[]; done: ((statements: Statements) => void) | null } {
  const last = fromJson(LAST_TRIM, statements.get("getMeta").get(NAME)?.["value"]) ?? {};
  const from_id = keep < (last.keep ?? 0) ? 0 : (last.id ?? 0);
  const newest = statements.get("newestCheckpoint").get()?.["id"] as number | null;
  if (newest === null || (newest === from_id && last.keep === keep)) return { found: [], done: null };
  const tasks = statements.get("fullTasks").all(from_id, keep);
  const jobs = statements.get("fullJobs").all(from_id, keep);
  const found: Part[] = [
    ...slices(tasks).map((rows) => ({ tasks: rows.map((row) => row["task"] as string), jobs: [] })),
    ...slices(jobs).map((rows) => ({ tasks: [], jobs: rows.map((row) => row["job_id"] as number) })),
  ];
  const note = JSON.stringify({ id: newest, keep });
  return { found, done: (all) => void all.get("setMeta").run(NAME, note) };
}

function slices<T>(items: readonly T[]): T[][] {
  const parts: T[][] = [];
  for (let at = 0; at < items.length; at += PER_COMMIT) parts.push(items.slice(at, at + PER_COMMIT));
  return parts;
}

export function trim(statements: Statements, { tasks, jobs }: Part, keep: number): number {
  let removed = 0;
  for (const task of tasks) removed += statements.get("trimTask").run(task, keep).changes;
  for (const job of jobs) removed += statements.get("trimJob").run(job, keep).changes;
  return removed;
}
