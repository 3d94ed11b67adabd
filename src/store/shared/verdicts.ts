/** What both engines say about the same finds: whose turn is first, why a write found no row, and what a verb answers. */

import { LeaseError, assert } from "../../core/errors.ts";
import { WAITED_FOR, type Cause, type Job, type NewJob, type StateName } from "../../core/job.ts";
import type { RecoveryTotals, SweepCounts } from "../../core/records.ts";
import { isRefusal, lossReason, transition } from "../../core/transition.ts";
import type { SqlRow } from "../../platform/platform.ts";
import type { SettleRequest } from "../store.ts";
import type { CancelAnswer } from "../queries.ts";
import type { RetryAnswer } from "../queries.ts";

/** Whose turn is first; RETURNING promises no order. */
export function byTurn(a: SqlRow, b: SqlRow): number {
  return (
    (b["priority"] as number) - (a["priority"] as number) ||
    (a["run_at_ms"] as number) - (b["run_at_ms"] as number) ||
    (a["id"] as number) - (b["id"] as number)
  );
}

/** Of moments, null being none. */
export function earliest(...times: readonly (number | null)[]): number | null {
  const known = times.filter((at_ms) => at_ms !== null);
  return known.length === 0 ? null : Math.min(...known);
}

/** Why a holder's write found no row. A job that is gone altogether counts as expired. */
export function lossOf(current: SqlRow | null | undefined, token: number): "expired" | "conflict" {
  return current ? lossReason({ token: current["token"] as number }, token) : "expired";
}

/** Running under this token. One that is and yet was not ended by it has been asked to stop. */
export function isHeldBy(current: SqlRow | null | undefined, { token }: { token: number }): boolean {
  return current?.["state"] === "running" && current["token"] === token;
}

/** A live job has the key of a new one. False: it answers instead. True: it is to be cancelled for the new one. */
export function replaces({ key, if_exists }: NewJob, { id, state }: { id: number; state: StateName }): boolean {
  if (if_exists === "skip") return false;
  if (if_exists === "fail") {
    throw new LeaseError("key_exists", `key ${key} is taken by job ${id} (${state}): wait for it, or cancel it`);
  }
  if (state === "running") {
    throw new LeaseError("key_exists", `key ${key} can't be replaced while job ${id} is running: cancel it first`);
  }
  return true;
}

/** Whether the newest job that had a key, and has ended, answers for a new one where that is wanted. */
export function answersWhenDone(state: StateName): boolean {
  return state === "completed" || state === "failed";
}

/** `before` is its state when it was asked for; null: there is no such job. */
export function cancelAnswer(id: number, before: StateName | null, cancelled: boolean): CancelAnswer {
  if (before === null) return { id, status: "unknown", state: null };
  if (cancelled) return { id, status: "cancelled", state: before };
  return { id, status: before === "running" ? "cancelling" : "finished", state: before };
}

/** Why a job was cancelled that waited for one that has ended otherwise: `job 7, which it waits for, failed`. */
export const DOOM_REASON = {
  between: WAITED_FOR,
  how: { completed: "completed", failed: "failed", cancelled: "was cancelled" },
} as const;

export function doomReason(parent: number, state: keyof (typeof DOOM_REASON)["how"]): string {
  return `job ${parent}${DOOM_REASON.between}${DOOM_REASON.how[state]}`;
}

/** Of a job that somebody cancelled together with those that it waits for. */
export function alongReason([first, ...others]: readonly number[]): string {
  return `cancelled along with job ${first}${others.length === 0 ? "" : ` and ${others.length} more`}`;
}

export function noParent(id: number, index?: number): LeaseError {
  return new LeaseError("dependency", `there is no job ${id} to wait for`, index === undefined ? {} : { index });
}

export const FINISHED: ReadonlySet<unknown> = new Set(["completed", "failed", "cancelled"]);

/** `now`: what it has become; null: a live job has its key. */
export function retryAnswer(id: number, before: StateName | null, now: "pending" | "blocked" | null): RetryAnswer {
  if (before === null) return { id, status: "unknown", state: null };
  if (!FINISHED.has(before)) return { id, status: "not_finished", state: before };
  return { id, status: now ?? "key_taken", state: before };
}

/** What an error checkpoint says. `stale`: a result that came too late, kept so that work in vain leaves a trace. */
export function auditText({ token, change, audit, late = audit ?? undefined }: SettleRequest, stale = false): string {
  const { ended } = change;
  return JSON.stringify({
    cause: stale ? "stale" : (ended?.cause ?? "unknown"),
    attempt: token,
    token,
    ...(stale ? late : audit),
    retry_count: change.failures,
    exit_code: ended?.exit_code ?? null,
    signal: ended?.signal ?? null,
    error: ended?.error ?? null,
    ...(stale ? { result: ended?.cause ?? null, output: ended?.output ?? null } : {}),
  });
}

/** The cause with which a job ends that can't be read. */
export const SET_ASIDE: Cause = "not_executable";

/** The end of one that was granted before anybody could see that it is damaged. */
export function setAside(job: Job, now_ms: number): SettleRequest {
  const error = job.damaged ?? null;
  const nothing = { exit_code: null, signal: null, output: null, last_line: null, beats: 0 };
  const end = { cause: SET_ASIDE, error, ...nothing };
  const change = transition(job, { type: "settle", token: job.token, end }, { now_ms, random: () => 0 });
  assert(!isRefusal(change), "what was just granted can be settled");
  return { id: job.id, token: job.token, change, process: null, audit: null };
}

/** What sweeps have done so far, with what one more has found. */
export function addTotals(before: RecoveryTotals | null, found: SweepCounts, now_ms: number): string {
  const { scan_duration_ms: _scan_duration_ms, ...more } = found;
  const { total_scans = 0, last_at_ms = null, last_scan: _last_scan, ...sums } = before ?? {};
  const totals: Record<string, number> = { ...sums };
  for (const [name, count] of Object.entries(more)) totals[name] = (totals[name] ?? 0) + count;
  const last_scan = { at_ms: now_ms, ...found };
  const found_at_ms = found.expired_found > 0 ? now_ms : last_at_ms;
  return JSON.stringify({ ...totals, total_scans: total_scans + 1, last_at_ms: found_at_ms, last_scan });
}

/**
 * Behind which checkpoint a trim has to look: only tasks and jobs that got one since the last trim can have too many,
 * unless fewer are to be kept than then. Null: nothing is new.
 */
export function trimFrom(
  last: { id?: number | undefined; keep?: number | undefined } | null,
  keep: number,
  newest: number | null,
): number | null {
  const from_id = keep < (last?.keep ?? 0) ? 0 : (last?.id ?? 0);
  return newest === null || (newest === from_id && last?.keep === keep) ? null : from_id;
}
