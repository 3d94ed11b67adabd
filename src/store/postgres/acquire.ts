/** Grants: whose turn it is, and what they get. */

import type { SqlRow } from "../../platform/platform.ts";
import { toJob, toProcess } from "../shared/rows.ts";
import { byTurn, setAside } from "../shared/verdicts.ts";
import type { AcquireRequest, Grant, SettleRequest } from "../store.ts";
import type { Connection, Param } from "./session/session.ts";
import { SQL } from "./statements.ts";

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
  if ((rows[0]?.["due"] as unknown) === true) return null;
  return toGrants(db, rows, request);
}

function variant({ job, queues, task }: AcquireRequest): [statement: string, params: Param[]] {
  if (job !== undefined) return [SQL.acquireOne, [job]];
  if (queues === null) return task === null ? [SQL.acquireAll, []] : [SQL.acquireAllTask, [task]];
  // A queue that is named twice has only one turn.
  const names = [...new Set(queues)];
  return task === null ? [SQL.acquire, [names]] : [SQL.acquireTask, [names, task]];
}

async function toGrants(
  db: Connection,
  rows: readonly SqlRow[],
  { queues, holder, host }: AcquireRequest,
): Promise<Acquired> {
  const turn = (row: SqlRow) => (queues === null ? 0 : queues.indexOf(row["queue"] as string));
  const granted = rows.filter(({ id }) => id !== null).toSorted((a, b) => turn(a) - turn(b) || byTurn(a, b));
  const before = await earlier(db, granted, host);
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

/** What every grant has in common; the statement leaves it out. */
const FRESH: SqlRow = {
  state: "running",
  cancel_requested_at_ms: null,
  finished_at_ms: null,
  progress: null,
  message: null,
  reason: null,
};

async function earlier(db: Connection, granted: readonly SqlRow[], host: string): Promise<ReadonlyMap<number, SqlRow>> {
  const again = granted.filter(({ token }) => (token as number) > 1);
  if (again.length === 0) return new Map();
  const rows = await SQL.earlier.run(db, again, host);
  return new Map(rows.map((row) => [row["id"] as number, row]));
}
