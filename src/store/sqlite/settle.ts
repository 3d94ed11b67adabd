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

export function settle(db: Database, requests: readonly SettleRequest[]): SettleAnswer[] {
  const now_ms = db.now_ms();
  return requests.map((request) => {
    if (endJob(db, request, now_ms)) return { status: "applied" };
    const row = fenceOf(db, request.id);
    if (isHeldBy(row, request)) return { status: "cancelling" };
    if (row !== null) audit(db, request, now_ms, true);
    return { status: "stale", reason: lossOf(row, request.token) };
  });
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
