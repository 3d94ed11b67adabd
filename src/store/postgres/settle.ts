/**
 * How attempts end: by their holder (settle) or by a sweep (recover), both under the fence, and the audit trail of what
 * went wrong.
 */

import type { SqlRow } from "../../platform/platform.ts";
import { auditText } from "../shared/audit.ts";
import type { SettleAnswer, SettleRequest } from "../store.ts";
import { freeChildren } from "./dependencies.ts";
import { fences, inRounds, lossesOf } from "./extend.ts";
import { addRuns } from "./learned.ts";
import { numbers, texts } from "./session/arrays.ts";
import type { Connection } from "./session/link.ts";
import type { Statements } from "./session/sql.ts";
import { ENDINGS } from "./statements.ts";

type Verb = "settle" | "recover";

/** How a set of endings is carried out: in a statement of its own, or in a transaction with what hangs on it. */
export interface Ways {
  alone<T>(work: (connection: Connection, again: boolean) => Promise<T>): Promise<T>;
  together<T>(work: (connection: Connection, again: boolean) => Promise<T>): Promise<T>;
}

/** In the transaction that is under way. */
export function here(connection: Connection): Ways {
  return { alone: (work) => work(connection, false), together: (work) => work(connection, false) };
}

export function settle(
  statements: Statements,
  ways: Ways,
  requests: readonly SettleRequest[],
): Promise<SettleAnswer[]> {
  return inRounds(requests, (round) => settleRound(statements, ways, round));
}

async function settleRound(
  statements: Statements,
  ways: Ways,
  requests: readonly SettleRequest[],
): Promise<SettleAnswer[]> {
  const applied = await endAll(statements, ways, "settle", requests);
  const left = requests.filter((_, index) => !applied[index]);
  if (left.length === 0) return requests.map(() => ({ status: "applied" }));
  const refused = await ways.alone(async (connection) => {
    const rows = await fences(statements, connection, left);
    return new Map(rows.map((row) => [row["id"] as number, row]));
  });
  const stale = left.filter((request) => !isCancelling(refused.get(request.id), request));
  const reasons = await ways.alone(async (connection, again) => {
    if (stale.length > 0 && !again) await noteStale(statements, connection, stale);
    return lossesOf(statements, connection, stale);
  });
  return requests.map((request, index) => {
    if (applied[index]) return { status: "applied" };
    if (isCancelling(refused.get(request.id), request)) return { status: "cancelling" };
    return { status: "stale", reason: reasons(request.id, request.token) };
  });
}

/** Still running under this token and yet not ended by it: only a request to stop does that. */
function isCancelling(row: SqlRow | undefined, { token }: SettleRequest): boolean {
  return row !== undefined && row["state"] === "running" && row["token"] === token;
}

export async function endAll(
  statements: Statements,
  ways: Ways,
  verb: Verb,
  requests: readonly SettleRequest[],
): Promise<boolean[]> {
  // In the order of ids, so that two that end the same jobs wait for each other in one direction only.
  const unique = requests.toSorted((a, b) => a.id - b.id);
  const teaching = unique.filter(({ gaps }) => gaps);
  const plain = unique.filter(({ gaps }) => !gaps);
  const done = new Set(
    await ways.alone((connection, again) => endSome(statements, connection, verb, plain, again, false)),
  );
  const left = plain.filter(({ id, change }) => !done.has(id) && "finished_at_ms" in change.state);
  const awaited = left.length === 0 ? [] : await ways.alone((connection) => awaitedOf(statements, connection, left));
  const rest = [...teaching, ...awaited].toSorted((a, b) => a.id - b.id);
  if (rest.length > 0) {
    const ids = await ways.together(async (connection, again) => {
      const ended = await endSome(statements, connection, verb, rest, again, true);
      const finished = rest.filter(({ id, change }) => ended.includes(id) && "finished_at_ms" in change.state);
      await freeChildren(
        statements,
        connection,
        finished.map(({ id }) => id),
      );
      await addRuns(
        statements,
        connection,
        rest.filter(({ id }) => ended.includes(id)),
      );
      return ended;
    });
    for (const id of ids) done.add(id);
  }
  return requests.map(({ id }) => done.has(id));
}

async function awaitedOf(
  statements: Statements,
  connection: Connection,
  requests: readonly SettleRequest[],
): Promise<SettleRequest[]> {
  const rows = await fences(statements, connection, requests);
  const awaited = new Set(rows.flatMap(({ id, awaited: others }) => (others ? [id as number] : [])));
  return requests.filter(({ id }) => awaited.has(id));
}

/** Answers the ids of those that it ended, or had ended in an earlier try whose answer was lost. */
async function endSome(
  statements: Statements,
  connection: Connection,
  verb: Verb,
  requests: readonly SettleRequest[],
  again: boolean,
  awaited_too: boolean,
): Promise<number[]> {
  if (requests.length === 0) return [];
  const rows = await statements.run(connection, verb, [...ENDINGS.params(requests), awaited_too]);
  const ids = rows.map(({ id }) => id as number);
  if (!again || ids.length === requests.length) return ids;
  const left = requests.filter(({ id }) => !ids.includes(id));
  const before = await statements.run(connection, "ended", [
    numbers(left.map(({ id }) => id)),
    numbers(left.map(({ token }) => token)),
    texts(left.map(({ change }) => change.ended?.cause ?? null)),
  ]);
  return [...ids, ...before.map(({ id }) => id as number)];
}

/** A stale result is kept too, so that work done in vain leaves a trace. */
async function noteStale(
  statements: Statements,
  connection: Connection,
  requests: readonly SettleRequest[],
): Promise<void> {
  await statements.run(connection, "insertStale", [
    numbers(requests.map(({ id }) => id)),
    numbers(requests.map(({ token }) => token)),
    texts(requests.map((request) => auditText(request, "stale"))),
  ]);
}
