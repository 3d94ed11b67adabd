/**
 * How attempts end by their holder, under the fence. What others wait for, or what teaches something, ends in one
 * transaction with that; everything else is one statement for any number of jobs.
 */

import { isFinished, type NewJob } from "../../core/job.ts";
import { learn, subjectOf, type Learned } from "../../core/learning.ts";
import { toLearned } from "../shared/rows.ts";
import { auditText, isHeldBy, lossOf } from "../shared/verdicts.ts";
import type { SettleAnswer, SettleRequest } from "../store.ts";
import { freeChildren } from "./dependencies.ts";
import { fences, inRounds } from "./extend.ts";
import { fromList, idsOf } from "./session/arrays.ts";
import { COMPLETIONS, COMPLETIONS_ALIKE, ENDS } from "./session/ends.ts";
import type { Connection, Param } from "./session/session.ts";
import { SQL } from "./statements.ts";

type Work<T> = (db: Connection, again: boolean) => Promise<T>;

/** What ends are written by: statements of their own, or transactions with what hangs on them. */
export interface EndWriter {
  statement<T>(work: Work<T>): Promise<T>;
  transaction<T>(work: Work<T>): Promise<T>;
  /** Queues the hooks of those that failed. */
  queue(db: Connection, jobs: readonly NewJob[]): Promise<unknown>;
}

/** In the transaction that is under way, for ends without hooks. */
export function within(db: Connection): EndWriter {
  return { statement: (work) => work(db, false), transaction: (work) => work(db, false), queue: async () => {} };
}

export function settle(writer: EndWriter, requests: readonly SettleRequest[]): Promise<SettleAnswer[]> {
  return inRounds(requests, (round) => settleRound(writer, round));
}

async function settleRound(writer: EndWriter, requests: readonly SettleRequest[]): Promise<SettleAnswer[]> {
  const ended = await endAll(writer, SQL.settle, requests);
  const left = requests.filter(({ id }) => !ended.has(id));
  if (left.length === 0) return requests.map(() => ({ status: "applied" }));
  const current = await writer.statement((db) => fences(db, left));
  const stale = left.filter((request) => !isHeldBy(current.get(request.id), request));
  if (stale.length > 0) await writer.statement((db, again) => noteStale(db, again ? [] : stale));
  return requests.map((request) => {
    if (ended.has(request.id)) return { status: "applied" };
    const row = current.get(request.id);
    return isHeldBy(row, request) ? { status: "cancelling" } : { status: "stale", reason: lossOf(row, request.token) };
  });
}

/** `statement` is that of settle or of recover. Answers the ids of those that it ended. */
export async function endAll(writer: EndWriter, statement: string, requests: readonly SettleRequest[]) {
  // In the order of ids, so that two that end the same jobs wait for each other in one direction only.
  const sorted = requests.toSorted((a, b) => a.id - b.id);
  const teaching = sorted.filter(({ gaps, hook }) => gaps || hook);
  const plain = sorted.filter(({ gaps, hook }) => !gaps && !hook);
  const simple = statement === SQL.settle && plain.every(isCompletion) ? plain : [];
  const done = new Set(await writer.statement((db, again) => endSome(db, completing, simple, again).then(allOf)));
  const others = plain.filter(({ id }) => !done.has(id));
  const ending = by(statement, { awaited_too: false });
  for (const id of await writer.statement((db, again) => endSome(db, ending, others, again).then(allOf))) done.add(id);
  const left = plain.filter(({ id, change }) => !done.has(id) && isFinished(change.state));
  const current = left.length === 0 ? null : await writer.statement((db) => fences(db, left));
  const awaited = left.filter(({ id }) => current?.get(id)?.["awaited"]);
  const rest = [...teaching, ...awaited].toSorted((a, b) => a.id - b.id);
  if (rest.length === 0) return done;
  const more = await writer.transaction(async (db, again) => {
    const ended = await endSome(db, by(statement, { awaited_too: true }), rest, again);
    // What an earlier try had ended, it had done all of this for.
    const here = rest.filter(({ id }) => ended.now.includes(id));
    await freeChildren(db, idsOf(here.filter(({ change }) => isFinished(change.state))));
    await addRuns(db, here);
    const hooks = here.flatMap(({ hook }) => hook ?? []);
    if (hooks.length > 0) await writer.queue(db, hooks);
    return allOf(ended);
  });
  return new Set([...done, ...more]);
}

/** Ids of those that it ended now, and of those that an earlier try had ended whose answer was lost. */
interface Ended {
  now: number[];
  before: number[];
}

const allOf = ({ now, before }: Ended): number[] => [...now, ...before];

/** A statement that ends jobs, and what it is given. */
type Ending = (requests: readonly SettleRequest[]) => [statement: string, params: Param[]];

const by =
  (statement: string, { awaited_too }: { awaited_too: boolean }): Ending =>
  (requests) => [statement, [...ENDS.params(requests), awaited_too]];

const completing: Ending = (requests) =>
  COMPLETIONS_ALIKE.fits(requests)
    ? [SQL.completeAlike, COMPLETIONS_ALIKE.params(requests)]
    : [SQL.complete, COMPLETIONS.params(requests)];

/** A success of a function, with nothing besides. */
function isCompletion({ change, process, audit }: SettleRequest): boolean {
  const { state, result, reason, ended } = change;
  if (state.name !== "completed" || result.cause !== "success" || result.error !== null || reason !== null)
    return false;
  const { cause, error, signal, fence = null, cpu_ms = null, memory_bytes = null, exit_code } = ended;
  if (cause !== "success" || error !== null || signal !== null || exit_code !== result.exit_code) return false;
  return process === null && audit === null && fence === null && cpu_ms === null && memory_bytes === null;
}

async function endSome(
  db: Connection,
  ending: Ending,
  requests: readonly SettleRequest[],
  again: boolean,
): Promise<Ended> {
  if (requests.length === 0) return { now: [], before: [] };
  const [row] = await db.query<{ ids: string | null }>(...ending(requests));
  const ids = fromList(row?.ids ?? null);
  if (!again || ids.length === requests.length) return { now: ids, before: [] };
  const left = requests.filter(({ id }) => !ids.includes(id));
  const ends = left.map(({ id, token, change }) => ({ id, token, cause: change.ended?.cause ?? null }));
  const before = await SQL.ended.run(db, ends);
  return { now: ids, before: idsOf(before) };
}

async function noteStale(db: Connection, requests: readonly SettleRequest[]): Promise<void> {
  const stale = requests.map((request) => ({ id: request.id, token: request.token, text: auditText(request, true) }));
  if (stale.length > 0) await SQL.insertStale.run(db, stale);
}

/** What runs have taught about the gaps between beats, one row per subject. */
const GET_LEARNED = "SELECT subject, runs, gaps FROM lease.learned WHERE subject = ANY ($1::text[])";
const CLAIM_LEARNED = `INSERT INTO lease.learned (subject, runs, gaps) SELECT subject, 0, '{}' FROM unnest($1::text[]) AS t (subject)
  ORDER BY subject ON CONFLICT DO NOTHING`;
const SET_LEARNED = "UPDATE lease.learned SET runs = $2, gaps = $3, lease_ms = $4 WHERE subject = $1";
const SUBJECTS = "SELECT id, key, queue FROM lease.jobs WHERE id = ANY ($1::bigint[])";

export async function learned(db: Connection, subjects: readonly string[]): Promise<(Learned | null)[]> {
  if (subjects.length === 0) return [];
  const rows = await db.query(GET_LEARNED, [subjects]);
  const known = new Map(rows.map((row) => [row["subject"] as string, toLearned(row)]));
  return subjects.map((subject) => known.get(subject) ?? null);
}

/** Inside the transaction in which the runs ended. */
async function addRuns(db: Connection, requests: readonly SettleRequest[]): Promise<void> {
  const teaching = requests.filter(({ gaps }) => gaps);
  if (teaching.length === 0) return;
  const rows = await db.query<{ id: number; key: string | null; queue: string }>(SUBJECTS, [idsOf(teaching)]);
  const subjects = new Map(rows.map((row) => [row.id, subjectOf(row)]));
  const names = [...new Set(subjects.values())].toSorted();
  // The row must be there to be locked, and two runs at once must both count.
  await db.query(CLAIM_LEARNED, [names]);
  const locked = await db.query(`${GET_LEARNED} ORDER BY subject FOR UPDATE`, [names]);
  const now = new Map(locked.map((row) => [row["subject"] as string, toLearned(row)]));
  for (const { id, gaps } of teaching) {
    const subject = subjects.get(id);
    if (subject !== undefined && gaps) now.set(subject, learn(now.get(subject) ?? null, gaps));
  }
  for (const [subject, known] of now) {
    if (known !== null) await db.query(SET_LEARNED, [subject, known.runs, JSON.stringify(known.gaps), known.lease_ms]);
  }
}
