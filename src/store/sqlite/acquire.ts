/** Grants: whose turn it is, and what they get. */

import { limitsOf } from "../../core/gate.ts";
import type { Job } from "../../core/job.ts";
import type { SqlRow } from "../../platform/platform.ts";
import { pickInTurn, toHeld, turnIn, type Picked, type Waiting } from "../shared/room.ts";
import { toJob, toProcess } from "../shared/rows.ts";
import { SET_ASIDE, byTurn, setAside } from "../shared/verdicts.ts";
import type { BacklogQuery } from "../queries.ts";
import type { AcquireRequest, Acquirer, Grant } from "../store.ts";
import { freeSome, isFreeing } from "./dependencies.ts";
import { boundsNow, noteStart, type Bounds } from "./limits.ts";
import type { Database } from "./open.ts";
import { settle } from "./settle.ts";
import { SQL, TURNS } from "./statements.ts";

/** Due jobs that are promoted in one commit: few enough that a beat never waits long behind it. */
const PROMOTE_LIMIT = 5_000;

/** So few are granted one by one: a statement for any number takes twice as long to begin. */
const FEW = 8;

/** `all` is false when more are due than one commit should take. */
export function promote(db: Database, now_ms = db.now_ms()): { count: number; all: boolean } {
  const count = db.sql(SQL.promote).run(now_ms, PROMOTE_LIMIT).changes;
  return { count, all: count < PROMOTE_LIMIT };
}

/** Jobs that are set aside in one commit, for the same reason. */
const ASIDE_LIMIT = 1_000;

/** Null when there is more to promote or to set aside first: only then is it known whose turn it is. */
export function acquire(db: Database, request: AcquireRequest): Grant[] | null {
  const now_ms = db.now_ms();
  if (isDue(db, now_ms) && !promote(db, now_ms).all) return null;
  const freeing = isFreeing(db);
  if (freeing) freeSome(db, now_ms);
  const grants = grantSome(db, request, now_ms);
  // The next in turn may be one that has not been told yet that it is free.
  return freeing && grants?.length === 0 ? null : grants;
}

function grantSome(db: Database, request: AcquireRequest, now_ms: number): Grant[] | null {
  if (request.job !== undefined) return acquireOne(db, request.job, request, now_ms);
  const within = acquireWithin(db, request, now_ms);
  if (within !== "unbounded") return within;
  const grants: Grant[] = [];
  for (let granted = 0; grants.length < request.count;) {
    const rows = nextRows(db, request, request.count - grants.length, now_ms);
    if (rows === null) return grants.length === 0 ? null : grants;
    if (rows.length === 0) break;
    grants.push(...toGrants(db, rows, request, now_ms));
    granted += rows.length;
    if (granted - grants.length < ASIDE_LIMIT) continue;
    return grants.length === 0 ? null : grants;
  }
  return grants;
}

/** Of every queue, only the first in turn: the next may be in another. Null when some had to be set aside first. */
function nextRows(db: Database, request: AcquireRequest, count: number, now_ms: number): SqlRow[] | null {
  if (request.queues === null) {
    const queue = firstReady(db, request)?.["queue"] as string | undefined;
    return queue === undefined ? [] : acquireFrom(db, queue, 1, request, now_ms);
  }
  for (const queue of request.queues) {
    const rows = acquireFrom(db, queue, count, request, now_ms);
    if (rows === null || rows.length > 0) return rows;
  }
  return [];
}

/** That job, if it is pending and within its bounds. */
export function acquireOne(db: Database, id: number, acquirer: Acquirer, now_ms = db.now_ms()): Grant[] {
  const bounds = boundsNow(db, acquirer, now_ms);
  const row = bounds === null ? null : db.sql(SQL.atGate).get(id);
  if (bounds !== null && row !== null) {
    const [queue, gate] = [row["queue"] as string, row["gate"] as string];
    if (!bounds.room.isOpen(queue, gate)) return [];
    return grantPicked(db, { id, queue, gate, held: bounds.room.take(queue, gate) }, bounds, acquirer, now_ms);
  }
  return toGrants(db, db.sql(SQL.acquireOne).all(acquirer.holder, now_ms, acquirer.lease_ms, id), acquirer, now_ms);
}

/** Beside those that what runs may have closed, and those that are wanted, so many gates are looked at first. */
const MORE_GATES = 32;

interface Heads {
  /** The first of each gate, in turn. */
  all: Waiting[];
  /** Of each queue that has more gates, the last that was looked at. */
  cut: Waiting[];
}

/** At most so many of each queue. */
function headsOf(db: Database, queues: readonly string[], request: BacklogQuery, most: number): Heads {
  const { task } = request;
  const { heads, headsTask } = turnsOf(request);
  const found: Heads = { all: [], cut: [] };
  for (const queue of queues) {
    const rows = task === null ? db.sql(heads).all(queue, most) : db.sql(headsTask).all(queue, most, task);
    const waiting = rows as unknown as Waiting[];
    found.all.push(...waiting);
    const last = waiting.at(-1);
    if (waiting.length === most && last !== undefined) found.cut.push(last);
  }
  return found;
}

const queuesOf = (db: Database, { queues }: BacklogQuery) => [...new Set(queues ?? readyQueues(db))];
const isOpenAt =
  ({ room }: Bounds) =>
  ({ queue, gate }: Waiting) =>
    room.isOpen(queue, gate);

/**
 * Whose turn it is among all lines: of every queue the unbounded, and those at each gate. Null as from `acquire`;
 * `unbounded` where no bounded job could start, and no queue is a limit: then whose turn it is does not depend on bounds.
 */
function acquireWithin(
  db: Database,
  request: AcquireRequest,
  now_ms: number,
  all = false,
): Grant[] | null | "unbounded" {
  const bounds = boundsNow(db, request, now_ms);
  if (bounds === null) return "unbounded";
  const { room, taken } = bounds;
  const { count, at_once = count, task } = request;
  const queues = queuesOf(db, request);
  const heads = headsOf(db, queues, request, all ? -1 : count + taken + MORE_GATES);
  if (!heads.all.some(isOpenAt(bounds)) && !queues.some((queue) => room.isLimited(queue))) {
    return heads.cut.length === 0 ? "unbounded" : acquireWithin(db, request, now_ms, true);
  }
  const { line, lineTask } = turnsOf(request);
  const lineOf = (queue: string, gate: string, most: number) =>
    (task === null ? db.sql(line).all(queue, gate, most) : db.sql(lineTask).all(queue, gate, most, task)) as unknown;
  const lines = queues.flatMap((queue) => lineOf(queue, "", room.isOpen(queue, "") ? count : 1) as Waiting[]);
  for (const head of new Map(heads.all.map((one) => [`${one.queue}\0${one.gate}`, one])).values()) {
    const places = room.isOpen(head.queue, head.gate) ? Math.min(count, room.placesAt(head.queue, head.gate)) : 1;
    lines.push(...(lineOf(head.queue, head.gate, places) as Waiting[]));
  }
  if (lines.some(({ id }) => !Number.isSafeInteger(id))) {
    db.sql(END_UNSAFE).run(now_ms);
    return null;
  }
  const picks = pickInTurn(lines, room, { count, at_once, queues: request.queues, now_ms });
  // A gate that was not looked at could come before the last of them.
  const [last, before] = [picks.at(-1), turnIn(request.queues)];
  const is_known = picks.length === count && last !== undefined && heads.cut.every((head) => before(last, head) <= 0);
  if (heads.cut.length > 0 && !is_known) return acquireWithin(db, request, now_ms, true);
  const grants = picks.flatMap((pick) => grantPicked(db, pick, bounds, request, now_ms));
  // All of them were damaged: there may be others.
  return grants.length === 0 && picks.length > 0 ? null : grants;
}

function grantPicked(
  db: Database,
  { id, queue, gate, held }: Pick<Picked, "id" | "queue" | "gate" | "held">,
  bounds: Bounds,
  acquirer: Acquirer,
  now_ms: number,
): Grant[] {
  const params = [acquirer.holder, now_ms, acquirer.lease_ms, id];
  const row =
    gate === ""
      ? db.sql(SQL.acquireOne).get(...params)
      : db.sql(SQL.acquireBounded).get(...params, JSON.stringify(held));
  if (row === null) return [];
  const granted = toGrants(db, [row], acquirer, now_ms);
  for (const { job } of granted) noteStart(db, limitsOf(queue, job), bounds, row, now_ms);
  return granted;
}

export function isDue(db: Database, now_ms = db.now_ms()): boolean {
  const due_ms = db.sql(SQL.nextDue).get()?.["at_ms"] as number | null;
  return due_ms !== null && due_ms <= now_ms;
}

/** Whether an acquire could find anything, by reading alone. */
export function mayAcquire(db: Database, request: AcquireRequest): boolean {
  if (isDue(db) || isFreeing(db) || request.job !== undefined) return true;
  const { anyReady } = turnsOf(request);
  const bounds = boundsNow(db, request, db.now_ms());
  const queues = queuesOf(db, request);
  for (const most of bounds === null ? [] : [MORE_GATES, -1]) {
    const { all, cut } = headsOf(db, queues, request, most);
    if (bounds !== null && all.some(isOpenAt(bounds))) return true;
    if (cut.length === 0) break;
  }
  for (const queue of queues) {
    if (db.sql(anyReady).get(queue) !== null && bounds?.room.isOpen(queue, "") !== false) return true;
  }
  return false;
}

function acquireFrom(
  db: Database,
  queue: string,
  count: number,
  request: AcquireRequest,
  now_ms: number,
): SqlRow[] | null {
  const { holder, lease_ms, task } = request;
  const all = (name: "ready" | "acquire") => {
    const params = [holder, now_ms, lease_ms, queue, count];
    const turns = turnsOf(request);
    return task === null ? db.sql(turns[name]).all(...params) : db.sql(turns[`${name}Task`]).all(...params, task);
  };
  const rows = all(count > FEW ? "acquire" : "ready");
  const safe = rows.filter(({ id }) => Number.isSafeInteger(id));
  if (safe.length < rows.length) db.sql(END_UNSAFE).run(now_ms);
  if (safe.length === 0 && rows.length > 0) return null;
  if (count > FEW) return safe.toSorted(byTurn);
  const granted = safe.map(({ id = null }) => db.sql(SQL.acquireOne).get(holder, now_ms, lease_ms, id));
  return granted.filter((row) => row !== null);
}

/** Jobs with ids that no number holds: nobody can name them, so that they can be set aside only all at once. */
const END_UNSAFE = `UPDATE jobs SET state = 'failed', finished_at_ms = ?1, cause = '${SET_ASIDE}',
  error = 'damaged: id is out of range', holder = NULL, expires_at_ms = NULL, cancel_requested_at_ms = NULL
  WHERE (id > ${Number.MAX_SAFE_INTEGER} OR id < ${-Number.MAX_SAFE_INTEGER}) AND state IN ('pending', 'running')`;

/** In whose turn of those that `request` takes. */
function turnsOf({ commands_only = false }: Pick<BacklogQuery, "commands_only">) {
  return commands_only ? TURNS.commands : TURNS.all;
}

/** The pending job whose turn is first among these queues, or among all; paused ones don't count. */
export function firstReady(db: Database, query: BacklogQuery): SqlRow | null {
  const { queues, task } = query;
  const turns = turnsOf(query);
  const head = db.sql(task === null ? turns.readyHead : turns.readyHeadTask);
  let best: SqlRow | null = null;
  for (const queue of queues ?? readyQueues(db)) {
    const row = task === null ? head.get(queue) : head.get(queue, task);
    if (row !== null && (best === null || byTurn(row, best) < 0)) best = row;
  }
  return best;
}

/** Steps from queue to queue through the index. */
export function* readyQueues(db: Database): Generator<string> {
  const next = db.sql(SQL.nextQueue);
  for (let row = next.get(""); row !== null && row["queue"] !== null; row = next.get(row["queue"] as string)) {
    yield row["queue"] as string;
  }
}

/** Of rows that were granted, but for jobs that turn out to be damaged: these have ended. */
function toGrants(db: Database, rows: readonly SqlRow[], request: Acquirer, now_ms: number): Grant[] {
  beginAttempts(db, rows, request, now_ms);
  const inputs = rows.length > FEW ? inputsOf(db, rows) : null;
  const grants: Grant[] = [];
  for (const row of rows) {
    const id = row["id"] as number;
    row["input"] = (inputs === null ? db.sql(SQL.inputOf).get(id)?.["data"] : inputs.get(id)) ?? null;
    const job = toJob(row);
    if (job.damaged === undefined) grants.push(toGrant(db, row, job, request, now_ms));
    else settle(db, [setAside(job, now_ms)]);
  }
  return grants;
}

/** By job; most have none. */
function inputsOf(db: Database, rows: readonly SqlRow[]): ReadonlyMap<unknown, SqlRow[string]> {
  const found = db.sql(SQL.inputsOf).all(JSON.stringify(rows.map(({ id }) => id)));
  return new Map(found.map(({ job_id, data = null }) => [job_id, data]));
}

function beginAttempts(db: Database, rows: readonly SqlRow[], { holder, host }: Acquirer, now_ms: number): void {
  const begun = rows.map((row) => [row["id"], row["token"], (row["expires_at_ms"] as number) - now_ms] as number[]);
  const [first_ms = 0] = begun.map(([, , lease_ms]) => lease_ms);
  if (rows.length > FEW && begun.every(([, , lease_ms]) => lease_ms === first_ms)) {
    const tokens = begun.map(([id, token]) => `"${id}":${token}`).join(",");
    db.sql(SQL.insertAttemptsAlike).run(`{${tokens}}`, holder, host, now_ms, first_ms);
  } else if (rows.length > FEW) {
    db.sql(SQL.insertAttempts).run(JSON.stringify(begun), holder, host, now_ms);
  } else {
    const insert = db.sql(SQL.insertAttempt);
    for (const [id = 0, token = 0, lease_ms = 0] of begun) insert.run(id, token, holder, host, now_ms, lease_ms);
  }
}

function toGrant(db: Database, row: SqlRow, job: Job, { host }: Acquirer, now_ms: number): Grant {
  const { id, token } = job;
  const expires_at_ms = row["expires_at_ms"] as number;
  const lease_ms = expires_at_ms - now_ms;
  const grant = { job, lease_ms, expires_at_ms, checkpoint: null, previous: null, held: toHeld(row["held"]) };
  if (token === 1) return grant;
  const previous = db.sql(SQL.previousProcess).get(id, token, host);
  const checkpoint = (db.sql(SQL.lastProgress).get(id)?.["text"] as string | undefined) ?? null;
  return { ...grant, checkpoint, previous: previous === null ? null : toProcess(previous) };
}
