/** Grants: whose turn it is, and what they get. */

import type { SqlRow } from "../../platform/platform.ts";
import { toJob, toProcess } from "../shared/rows.ts";
import { byTurn, setAside } from "../shared/verdicts.ts";
import type { AcquireRequest, Grant, SettleRequest } from "../store.ts";
import { byId } from "./session/arrays.ts";
import type { Connection, Param } from "./session/session.ts";
import { FRESH, SQL, TURNS } from "./statements.ts";

/** Due jobs that are promoted in one commit: few enough that a beat never waits long behind it. */
export const PROMOTE_LIMIT = 5_000;

export async function promote(db: Connection): Promise<number> {
  return (await db.query(SQL.promote, [PROMOTE_LIMIT])).length;
}

export async function promoteAll(db: Connection): Promise<number> {
  for (let total = 0; ;) {
    const count = await promote(db);
    total += count;
    if (count < PROMOTE_LIMIT) return total;
  }
}

export interface Acquired {
  grants: Grant[];
  /** The ends of those that were granted and turned out to be damaged; they are written by whoever asked. */
  damaged: SettleRequest[];
}

/** Null when jobs are due that have to be promoted first: only then is it known whose turn it is. */
export async function acquire(
  db: Connection,
  request: AcquireRequest,
  more: { number: number; due_first: boolean; again: boolean },
): Promise<Acquired | null> {
  if (more.again) {
    const given = await db.query(SQL.acquired, [request.holder, more.number]);
    const acquired = await toGrants(db, given, request);
    if (acquired.grants.length + acquired.damaged.length > 0) return acquired;
  }
  const [statement, own] = variant(request);
  const params = [request.holder, request.host, request.lease_ms, request.count, more.number, more.due_first, ...own];
  const rows = await db.query(statement, params);
  return (rows[0]?.["due"] as unknown) === true ? null : toGrants(db, rows, request);
}

function variant(request: AcquireRequest): [statement: string, params: Param[]] {
  const { job, queues, task, commands_only = false } = request;
  const turns = commands_only ? TURNS.commands : TURNS.all;
  if (job !== undefined) return [SQL.acquireOne, [job]];
  if (queues === null) return task === null ? [turns.all, []] : [turns.allTask, [task]];
  // A queue that is named twice has only one turn.
  const names = [...new Set(queues)];
  return task === null ? [turns.named, [names]] : [turns.namedTask, [names, task]];
}

async function toGrants(db: Connection, rows: readonly SqlRow[], request: AcquireRequest): Promise<Acquired> {
  const { queues, holder, host } = request;
  const turn = (row: SqlRow) => (queues === null ? 0 : queues.indexOf(row["queue"] as string));
  const granted = rows.filter(({ id }) => id !== null).toSorted((a, b) => turn(a) - turn(b) || byTurn(a, b));
  const again = granted.filter(({ token }) => (token as number) > 1);
  const before = byId(again.length === 0 ? [] : await SQL.earlier.run(db, again, host));
  const grants: Grant[] = [];
  const damaged: SettleRequest[] = [];
  for (const row of granted) {
    const [granted_at_ms, expires_at_ms] = [row["started_at_ms"] as number, row["expires_at_ms"] as number];
    const job = toJob(Object.assign(row, FRESH, { holder, last_beat_at_ms: granted_at_ms }));
    const known = before.get(job.id);
    const checkpoint = (known?.["checkpoint"] ?? null) as string | null;
    const previous = known === undefined ? null : toProcess(known);
    if (job.damaged !== undefined) damaged.push(setAside(job, granted_at_ms));
    else grants.push({ job, lease_ms: expires_at_ms - granted_at_ms, expires_at_ms, checkpoint, previous });
  }
  return { grants, damaged };
}
