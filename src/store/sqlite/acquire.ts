/**
 * Who holds what: grants, extensions, the process behind a grant, and what it prints.
 */

import type { SqlRow } from "../../platform/platform.ts";
import { setAside } from "../shared/damage.ts";
import { toJob, toProcess } from "../shared/rows.ts";
import type { AcquireRequest, Acquirer, Grant } from "../store.ts";
import type { Statements } from "./connection.ts";
import { settle } from "./settle.ts";

/** Due jobs that are promoted in one commit: few enough that a beat never waits long behind it. */
const PROMOTE_LIMIT = 5_000;

/** So few are granted one by one: a statement for any number takes twice as long to begin. */
const FEW = 8;

/** `all` is false when more are due than one commit should take. */
export function promote(statements: Statements, now_ms: number): { count: number; all: boolean } {
  const count = statements.get("promote").run(now_ms, PROMOTE_LIMIT).changes;
  return { count, all: count < PROMOTE_LIMIT };
}

/** Jobs that are set aside in one commit, for the same reason. */
const ASIDE_LIMIT = 1_000;

/** Null when there is more to promote or to set aside first: only then is it known whose turn it is. */
export function acquire(statements: Statements, request: AcquireRequest, now_ms: number): Grant[] | null {
  if (isDue(statements, now_ms) && !promote(statements, now_ms).all) return null;
  if (request.job !== undefined) return acquireOne(statements, request.job, request, now_ms);
  const grants: Grant[] = [];
  for (let granted = 0; grants.length < request.count;) {
    const rows = nextRows(statements, request, request.count - grants.length, now_ms);
    if (rows.length === 0) break;
    for (const row of rows) grants.push(...toGrants(statements, row, request, now_ms));
    granted += rows.length;
    if (granted - grants.length < ASIDE_LIMIT) continue;
    return grants.length === 0 ? null : grants;
  }
  return grants;
}

/** Of every queue, only the first in turn: the next may be in another. */
function nextRows(statements: Statements, request: AcquireRequest, count: number, now_ms: number): SqlRow[] {
  if (request.queues === null) {
    const queue = firstReady(statements, null, request.task)?.["queue"] as string | undefined;
    return queue === undefined ? [] : acquireFrom(statements, queue, 1, request, now_ms);
  }
  for (const queue of request.queues) {
    const rows = acquireFrom(statements, queue, count, request, now_ms);
    if (rows.length > 0) return rows;
  }
  return [];
}

/** That job, if it is pending. */
export function acquireOne(statements: Statements, id: number, acquirer: Acquirer, now_ms: number): Grant[] {
  const rows = statements.get("acquireOne").all(acquirer.holder, now_ms, acquirer.lease_ms, id);
  return rows.flatMap((row) => toGrants(statements, row, acquirer, now_ms));
}

export function isDue(statements: Statements, now_ms: number): boolean {
  const due_ms = statements.get("nextDue").get()?.["at_ms"] as number | null;
  return due_ms !== null && due_ms <= now_ms;
}

/** Whether an acquire could find anything, by reading alone. */
export function mayAcquire(statements: Statements, request: AcquireRequest, now_ms: number): boolean {
  if (isDue(statements, now_ms) || request.job !== undefined) return true;
  if (request.queues === null) return (statements.get("nextQueue").get("")?.["queue"] ?? null) !== null;
  return request.queues.some((queue) => statements.get("anyReady").get(queue) !== null);
}

function acquireFrom(
  statements: Statements,
  queue: string,
  count: number,
  request: AcquireRequest,
  now_ms: number,
): SqlRow[] {
  const { holder, lease_ms, task } = request;
  const all = (name: "ready" | "acquire") => {
    const params = [holder, now_ms, lease_ms, queue, count];
    return task === null ? statements.get(name).all(...params) : statements.get(`${name}Task`).all(...params, task);
  };
  if (count > FEW) return all("acquire").toSorted(byTurn);
  const granted = all("ready").map(({ id = null }) => statements.get("acquireOne").get(holder, now_ms, lease_ms, id));
  return granted.filter((row) => row !== null);
}

/** RETURNING promises no order. */
function byTurn(a: SqlRow, b: SqlRow): number {
  return (
    (b["priority"] as number) - (a["priority"] as number) ||
    (a["run_at_ms"] as number) - (b["run_at_ms"] as number) ||
    (a["id"] as number) - (b["id"] as number)
  );
}

/** The pending job whose turn is first among these queues, or among all; paused ones don't count. */
export function firstReady(
  statements: Statements,
  queues: readonly string[] | null,
  task: string | null,
): SqlRow | null {
  const head = statements.get(task === null ? "readyHead" : "readyHeadTask");
  let best: SqlRow | null = null;
  for (const queue of queues ?? readyQueues(statements)) {
    const row = task === null ? head.get(queue) : head.get(queue, task);
    if (row !== null && (best === null || byTurn(row, best) < 0)) best = row;
  }
  return best;
}

/** Steps from queue to queue through the index. */
function* readyQueues(statements: Statements): Generator<string> {
  const next = statements.get("nextQueue");
  for (let row = next.get(""); row !== null && row["queue"] !== null; row = next.get(row["queue"] as string)) {
    yield row["queue"] as string;
  }
}

/** None when the job turns out to be damaged: then it has ended. */
function toGrants(statements: Statements, row: SqlRow, request: Acquirer, now_ms: number): Grant[] {
  const id = row["id"] as number;
  const token = row["token"] as number;
  row["input"] = statements.get("inputOf").get(id)?.["data"] ?? null;
  const job = toJob(row);
  const expires_at_ms = row["expires_at_ms"] as number;
  const lease_ms = expires_at_ms - now_ms;
  statements.get("insertAttempt").run(id, token, request.holder, request.host, now_ms, lease_ms);
  if (job.damaged !== undefined) {
    settle(statements, [setAside(job, now_ms)], now_ms);
    return [];
  }
  const grant = { job, lease_ms, expires_at_ms, checkpoint: null, previous: null };
  if (token === 1) return [grant];
  const previous = statements.get("previousProcess").get(id, token, request.host);
  const checkpoint = (statements.get("lastProgress").get(id)?.["text"] as string | undefined) ?? null;
  return [{ ...grant, checkpoint, previous: previous === null ? null : toProcess(previous) }];
}
