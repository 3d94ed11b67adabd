/** What runs have taught about the gaps between beats, one row per subject. */

import { learn, subjectOf, type Gaps, type Learned } from "../../core/learning.ts";
import { toLearned } from "../shared/rows.ts";
import type { Database } from "./connection.ts";

const GET = "SELECT runs, gaps FROM learned WHERE subject = ?1";
const SET = `INSERT INTO learned (subject, runs, gaps, lease_ms) VALUES (?1, ?2, ?3, ?4)
  ON CONFLICT (subject) DO UPDATE SET runs = ?2, gaps = ?3, lease_ms = ?4`;
const SUBJECT = "SELECT key, queue FROM jobs WHERE id = ?1";

export function learned(db: Database, subjects: readonly string[]): (Learned | null)[] {
  return subjects.map((subject) => learnedOf(db, subject));
}

function learnedOf(db: Database, subject: string): Learned | null {
  const row = db.sql(GET).get(subject);
  return row === null ? null : toLearned(row);
}

/** Inside the transaction in which the run ended. */
export function addRun(db: Database, id: number, gaps: Gaps): void {
  const row = db.sql(SUBJECT).get(id);
  if (row === null) return;
  const subject = subjectOf({ key: row["key"] as string | null, queue: row["queue"] as string });
  const now = learn(learnedOf(db, subject), gaps);
  db.sql(SET).run(subject, now.runs, JSON.stringify(now.gaps), now.lease_ms);
}
