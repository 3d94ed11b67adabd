/** How attempts end by their holder, under the fence, the audit trail of what went wrong, and what runs have taught. */

import { isFinished } from "../../core/job.ts";
import { learn, subjectOf, type Gaps, type Learned } from "../../core/learning.ts";
import type { AttemptEnd } from "../../core/transition.ts";
import { stateColumns, toLearned } from "../shared/rows.ts";
import { auditText, isHeldBy, lossOf } from "../shared/verdicts.ts";
import type { SettleAnswer, SettleRequest } from "../store.ts";
import { noteEnd } from "./history.ts";
import type { Database } from "./open.ts";
import { INSERT_JOB, jobColumns } from "./quick_enqueue.ts";
import { fenceOf, freeChildren } from "./dependencies.ts";
import { SQL } from "./statements.ts";

/** So few are written one by one. */
const FEW = 4;
/** Of a result or a last line that is written together with others. */
const LONGEST_TEXT = 4_096;

const APPLIED: SettleAnswer = Object.freeze({ status: "applied" });

export function settle(db: Database, requests: readonly SettleRequest[]): SettleAnswer[] {
  const now_ms = db.now_ms();
  const plain = requests.length > FEW ? requests.filter(isPlain) : [];
  const together = plain.length > FEW && endTogether(db, plain, now_ms);
  if (together && plain.length === requests.length) return requests.map(() => APPLIED);
  return requests.map((request) => {
    if ((together && isPlain(request)) || endJob(db, request, now_ms)) return APPLIED;
    const row = fenceOf(db, request.id);
    if (isHeldBy(row, request)) return { status: "cancelling" };
    if (row !== null) audit(db, request, now_ms, true);
    return { status: "stale", reason: lossOf(row, request.token) };
  });
}

/** A success of which there is nothing to write but itself, in texts that JSON carries as they are. */
function isPlain({ change, audit: trail, hook, gaps }: SettleRequest): boolean {
  const { state, result, reason, ended } = change;
  if (state.name !== "completed" || result.cause !== "success" || result.error !== null || reason !== null)
    return false;
  return trail === null && !hook && !gaps && isShort(result.output) && isShort(ended.last_line);
}

function isShort(text: string | null): boolean {
  return text === null || (text.length <= LONGEST_TEXT && !text.includes("\0") && text.isWellFormed());
}

/**
 * Successes in one statement, which takes half as long as one for each: the table of jobs has so many indexes that
 * opening them costs as much as the row. False: not all of them were as their holders believe, and none is written.
 */
function endTogether(db: Database, requests: readonly SettleRequest[], now_ms: number): boolean {
  db.sql("SAVEPOINT together").run();
  const all = completeJobs(db, requests, now_ms) === requests.length;
  if (!all) db.sql("ROLLBACK TO together").run();
  db.sql("RELEASE together").run();
  if (!all) return false;
  completeAttempts(db, requests, now_ms);
  for (const request of requests) noteEnd(db, request, now_ms);
  for (const { id } of db.sql(SQL.parentsAmong).all(tokensById(requests))) freeChildren(db, id as number, now_ms);
  return true;
}

const finishedAt = ({ change }: SettleRequest) => stateColumns(change.state)[2];

function finishAlike(one: SettleRequest, other: SettleRequest): boolean {
  const [a, b] = [one.change, other.change];
  if (a.result.exit_code !== b.result.exit_code || a.result.output !== b.result.output) return false;
  return a.failures === b.failures && finishedAt(one) === finishedAt(other);
}

/** Answers how many were as their holders believe. */
function completeJobs(db: Database, requests: readonly SettleRequest[], now_ms: number): number {
  const changed = () => db.sql(SQL.changed).get()?.["rows"] as number;
  const runs = runsOf(requests, finishAlike);
  if (runs === null) {
    const rows = requests.map((request) => {
      const { id, token, change, ended_at_ms: ended_ms = now_ms } = request;
      return [id, token, finishedAt(request), ended_ms, change.failures, change.result.exit_code, change.result.output];
    });
    db.sql(SQL.complete).run(JSON.stringify(rows));
    return changed();
  }
  let count = 0;
  for (const { first, all } of runs) {
    const { failures, result } = first.change;
    // Who was asked to stop before the last of them had ended is looked at by itself.
    const ended_ms = all.reduce((last_ms, { ended_at_ms = now_ms }) => Math.max(last_ms, ended_at_ms), 0);
    const end = [finishedAt(first), ended_ms, failures, result.exit_code, result.output];
    db.sql(SQL.completeAlike).run(tokensById(all), ...end);
    count += changed();
  }
  return count;
}

/** In two lots: of functions there is nothing to note but that they ended, and few columns to write for each. */
function completeAttempts(db: Database, requests: readonly SettleRequest[], now_ms: number): void {
  const functions = requests.filter(isFunction);
  const programs = functions.length === requests.length ? [] : requests.filter((request) => !isFunction(request));
  const runs = runsOf(functions, ({ change: { ended: a } }, { change: { ended: b } }) => {
    return a.exit_code === b.exit_code && a.last_line === b.last_line && a.beats === b.beats;
  });
  for (const { first, all } of runs ?? []) {
    const { exit_code, last_line, beats } = first.change.ended;
    db.sql(SQL.completeAttemptsAlike).run(tokensById(all), now_ms, exit_code, last_line, beats);
  }
  if (runs === null) {
    const rows = functions.map(({ id, token, change: { ended } }) => {
      return [id, token, ended.exit_code, ended.last_line, ended.beats];
    });
    db.sql(SQL.completeAttempts).run(JSON.stringify(rows), now_ms);
  }
  if (programs.length > 0) {
    const rows = programs.map(({ id, token, process, change }) => {
      const { exit_code, signal, last_line, beats, fence = null, cpu_ms = null, memory_bytes = null } = change.ended;
      const { boot_id = null, pid = null, pid_started = null } = process ?? {};
      return [id, token, exit_code, last_line, beats, signal, boot_id, pid, pid_started, fence, cpu_ms, memory_bytes];
    });
    db.sql(SQL.completePrograms).run(JSON.stringify(rows), now_ms);
  }
}

function isFunction({ process, change: { ended } }: SettleRequest): boolean {
  const { signal, fence = null, cpu_ms = null, memory_bytes = null } = ended;
  return process === null && signal === null && fence === null && cpu_ms === null && memory_bytes === null;
}

interface Run {
  first: SettleRequest;
  all: SettleRequest[];
}

/** Those that follow one another and are alike; null: they differ so much that nothing is gained. */
function runsOf(
  requests: readonly SettleRequest[],
  isAlike: (one: SettleRequest, other: SettleRequest) => boolean,
): Run[] | null {
  const runs: Run[] = [];
  let run: Run | null = null;
  for (const request of requests) {
    if (run !== null && isAlike(run.first, request)) run.all.push(request);
    else runs.push((run = { first: request, all: [request] }));
    if (runs.length * FEW > requests.length) return null;
  }
  return runs;
}

/** As an object, which SQLite takes apart in half the time of a list of lists. */
function tokensById(rows: readonly Pick<SettleRequest, "id" | "token">[]): string {
  return `{${rows.map(({ id, token }) => `"${id}":${token}`).join(",")}}`;
}

function endJob(db: Database, request: SettleRequest, now_ms: number): boolean {
  const { id, token, change } = request;
  const { cause, exit_code, error, output } = change.result;
  const { ended_at_ms: ended_ms = now_ms } = request;
  const { changes } = db
    .sql(SQL.settle)
    .run(
      id,
      token,
      ...stateColumns(change.state),
      change.failures,
      cause,
      exit_code,
      error,
      output,
      change.reason,
      ended_ms,
    );
  if (changes === 0) return false;
  if (change.ended !== null) endAttempt(db, request, change.ended, now_ms);
  noteEnd(db, request, now_ms);
  if (isFinished(change.state)) freeChildren(db, id, now_ms);
  if (request.gaps) addRun(db, id, request.gaps);
  if (request.audit !== null) audit(db, request, now_ms);
  if (request.hook) db.sql(INSERT_JOB).run(...jobColumns(request.hook, now_ms));
  return true;
}

function endAttempt(db: Database, request: SettleRequest, end: AttemptEnd, now_ms: number): void {
  const { id, token, process } = request;
  const how = [end.cause, end.exit_code, end.signal, end.error, end.last_line, end.beats];
  const { boot_id = null, pid = null, pid_started = null } = process ?? {};
  const { fence = null, cpu_ms = null, memory_bytes = null } = end;
  db.sql(SQL.endAttempt).run(id, token, now_ms, ...how, boot_id, pid, pid_started, fence, cpu_ms, memory_bytes);
}

export function audit(db: Database, request: SettleRequest, now_ms: number, stale = false): void {
  db.sql(SQL.insertCheckpoint).run(request.id, "error", request.token, now_ms, auditText(request, stale));
}

const GET_LEARNED = "SELECT runs, gaps FROM learned WHERE subject = ?1";
const SET_LEARNED = `INSERT INTO learned (subject, runs, gaps, lease_ms) VALUES (?1, ?2, ?3, ?4)
  ON CONFLICT (subject) DO UPDATE SET runs = ?2, gaps = ?3, lease_ms = ?4`;
const SUBJECT = "SELECT key, queue FROM jobs WHERE id = ?1";

export function learned(db: Database, subjects: readonly string[]): (Learned | null)[] {
  return subjects.map((subject) => learnedOf(db, subject));
}

function learnedOf(db: Database, subject: string): Learned | null {
  const row = db.sql(GET_LEARNED).get(subject);
  return row === null ? null : toLearned(row);
}

function addRun(db: Database, id: number, gaps: Gaps): void {
  const row = db.sql(SUBJECT).get(id);
  if (row === null) return;
  const subject = subjectOf({ key: row["key"] as string | null, queue: row["queue"] as string });
  const now = learn(learnedOf(db, subject), gaps);
  db.sql(SET_LEARNED).run(subject, now.runs, JSON.stringify(now.gaps), now.lease_ms);
}
