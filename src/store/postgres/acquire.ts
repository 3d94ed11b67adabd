/**
 * Who holds what: grants, extensions, the process behind a grant, and what it prints.
 */

import type { SqlRow } from "../../platform/platform.ts";
import { setAside } from "../shared/damage.ts";
import { toJob, toProcess } from "../shared/rows.ts";
import type { AcquireRequest, Grant, SettleRequest } from "../store.ts";
import { numbers, texts } from "./session/arrays.ts";
import type { Connection, Param } from "./session/link.ts";
import type { Statements } from "./session/sql.ts";
import type { StatementName } from "./statements.ts";

/** Due jobs that are promoted in one commit: few enough that a beat never waits long behind it. */
export const PROMOTE_LIMIT = 5_000;

export async function promote(statements: Statements, connection: Connection): Promise<number> {
  return (await statements.run(connection, "promote", [PROMOTE_LIMIT])).length;
}

export async function promoteAll(statements: Statements, connection: Connection): Promise<number> {
  for (let total = 0; ;) {
    const count = await promote(statements, connection);
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
  statements: Statements,
  connection: Connection,
  request: AcquireRequest,
  more: { number: number; due_first: boolean; again: boolean },
): Promise<Acquired | null> {
  if (more.again) {
    const given = await statements.run(connection, "acquired", [request.holder, more.number]);
    const acquired = await toGrants(statements, connection, given, request);
    if (acquired.grants.length + acquired.damaged.length > 0) return acquired;
  }
  const [name, own] = variant(request);
  const params = [request.holder, request.host, request.lease_ms, request.count, more.number, more.due_first, ...own];
  const rows = await statements.run(connection, name, params);
  if ((rows[0]?.["due"] as unknown) === true) return null;
  return toGrants(statements, connection, rows, request);
}

function variant({ job, queues, task }: AcquireRequest): [StatementName, Param[]] {
  if (job !== undefined) return ["acquireOne", [job]];
  if (queues === null) return task === null ? ["acquireAll", []] : ["acquireAllTask", [task]];
  // A queue that is named twice has only one turn.
  const names = texts([...new Set(queues)]);
  return task === null ? ["acquire", [names]] : ["acquireTask", [names, task]];
}

async function toGrants(
  statements: Statements,
  connection: Connection,
  rows: readonly SqlRow[],
  { queues, holder, host }: AcquireRequest,
): Promise<Acquired> {
  const turn = (row: SqlRow) => (queues === null ? 0 : queues.indexOf(row["queue"] as string));
  const granted = rows.filter(({ id }) => id !== null).toSorted((a, b) => turn(a) - turn(b) || byTurn(a, b));
  const before = await earlier(statements, connection, granted, host);
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

async function earlier(
  statements: Statements,
  connection: Connection,
  granted: readonly SqlRow[],
  host: string,
): Promise<ReadonlyMap<number, SqlRow>> {
  const again = granted.filter(({ token }) => (token as number) > 1);
  if (again.length === 0) return new Map();
  const rows = await statements.run(connection, "earlier", [
    numbers(again.map(({ id }) => id as number)),
    numbers(again.map(({ token }) => token as number)),
    host,
  ]);
  return new Map(rows.map((row) => [row["id"] as number, row]));
}

/** RETURNING promises no order. */
function byTurn(a: SqlRow, b: SqlRow): number {
  return (
    (b["priority"] as number) - (a["priority"] as number) ||
    (a["run_at_ms"] as number) - (b["run_at_ms"] as number) ||
    (a["id"] as number) - (b["id"] as number)
  );
}
