/**
 * Who holds what: grants, extensions, the process behind a grant, and what it prints.
 */

import { lossReason } from "../../core/transition.ts";
import type { SqlRow } from "../../platform/platform.ts";
import { setAside } from "../shared/damage.ts";
import { toJob, toProcess } from "../shared/rows.ts";
import type {
  AcquireRequest,
  ExtendAnswer,
  ExtendRequest,
  Grant,
  LogWrite,
  ProcessNote,
  SettleRequest,
} from "../store.ts";
import { booleans, bytes, numbers, texts } from "./session/arrays.ts";
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

/** A request for an extension, and when it was made: what it says of the past was true then. */
export interface TimedExtend {
  request: ExtendRequest;
  asked_at_ms: number;
}

/** A request that had to be made again: shorter waits are part of every round trip. */
const LONG_WAIT_MS = 500;

export async function extend(
  statements: Statements,
  connection: Connection,
  timed: readonly TimedExtend[],
  now_ms: number,
): Promise<ExtendAnswer[]> {
  const aged = timed.map(({ request, asked_at_ms }) => {
    const { beat_age_ms } = request;
    const waited_ms = now_ms - asked_at_ms < LONG_WAIT_MS ? 0 : now_ms - asked_at_ms;
    return { ...request, beat_age_ms: beat_age_ms === null ? null : Math.round(beat_age_ms + waited_ms) };
  });
  const rows = await statements.run(connection, "extend", [
    numbers(aged.map(({ id }) => id)),
    numbers(aged.map(({ token }) => token)),
    numbers(aged.map(({ expires_in_ms }) => Math.round(expires_in_ms))),
    numbers(aged.map(({ beat_age_ms }) => beat_age_ms)),
    booleans(aged.map(({ beat_age_ms, at_least }) => beat_age_ms !== null && at_least === true)),
    numbers(aged.map(({ beats }) => beats)),
    numbers(aged.map(({ progress }) => progress ?? null)),
    texts(aged.map(({ message }) => message ?? null)),
  ]);
  const extended = new Map(rows.map((row) => [(row["n"] as number) - 1, row]));
  const lost = aged.filter((_, index) => !extended.has(index));
  const reasons = await lossesOf(statements, connection, lost);
  return aged.map(({ id, token }, index) => {
    const row = extended.get(index);
    if (row === undefined) return { status: reasons(id, token) };
    return {
      status: "extended",
      expires_at_ms: row["expires_at_ms"] as number,
      cancel_requested: row["cancel_requested_at_ms"] !== null,
    };
  });
}

/** Why a holder's write found no row. A job that is gone altogether counts as expired. */
export async function lossesOf(
  statements: Statements,
  connection: Connection,
  lost: readonly { id: number }[],
): Promise<(id: number, token: number) => "expired" | "conflict"> {
  const rows = lost.length === 0 ? [] : await fences(statements, connection, lost);
  const tokens = new Map(rows.map((row) => [row["id"] as number, row["token"] as number]));
  return (id, token) => {
    const current = tokens.get(id);
    return current === undefined ? "expired" : lossReason({ token: current }, token);
  };
}

export function fences(
  statements: Statements,
  connection: Connection,
  jobs: readonly { id: number }[],
): Promise<SqlRow[]> {
  return statements.run(connection, "fences", [numbers(jobs.map(({ id }) => id))]);
}

export async function noteProcess(
  statements: Statements,
  connection: Connection,
  notes: readonly ProcessNote[],
): Promise<void> {
  await statements.run(connection, "noteProcess", [
    numbers(notes.map(({ id }) => id)),
    numbers(notes.map(({ token }) => token)),
    texts(notes.map(({ boot_id }) => boot_id)),
    numbers(notes.map(({ pid }) => pid)),
    numbers(notes.map(({ pid_started }) => pid_started)),
  ]);
}

export async function appendLogs(
  statements: Statements,
  connection: Connection,
  writes: readonly LogWrite[],
): Promise<void> {
  const chunks = writes.flatMap(({ id, token, chunks: own }) => own.map((chunk) => ({ id, token, ...chunk })));
  if (chunks.length > 0) {
    await statements.run(connection, "insertLogs", [
      numbers(chunks.map(({ id }) => id)),
      numbers(chunks.map(({ token }) => token)),
      numbers(chunks.map(({ start }) => start)),
      numbers(chunks.map(({ bytes: size }) => size)),
      bytes(chunks.map(({ data }) => data)),
    ]);
  }
  const trims = writes.filter(({ head_bytes, keep_from }) => keep_from > head_bytes);
  if (trims.length === 0) return;
  await statements.run(connection, "trimLogs", [
    numbers(trims.map(({ id }) => id)),
    numbers(trims.map(({ token }) => token)),
    numbers(trims.map(({ head_bytes }) => head_bytes)),
    numbers(trims.map(({ keep_from }) => keep_from)),
  ]);
}
