/** What runs have taught about the gaps between beats, one row per subject. */

import { learn, subjectOf, type Learned } from "../../core/learning.ts";
import { toLearned } from "../shared/rows.ts";
import type { SettleRequest } from "../store.ts";
import { numbers, texts } from "./session/arrays.ts";
import type { Connection } from "./session/link.ts";

const GET = "SELECT subject, runs, gaps FROM lease.learned WHERE subject = ANY ($1::text[])";
const CLAIM = `INSERT INTO lease.learned (subject, runs, gaps) SELECT subject, 0, '{}' FROM unnest($1::text[]) AS t (subject)
  ORDER BY subject ON CONFLICT DO NOTHING`;
const SET = "UPDATE lease.learned SET runs = $2, gaps = $3, lease_ms = $4 WHERE subject = $1";
const SUBJECTS = "SELECT id, key, queue FROM lease.jobs WHERE id = ANY ($1::bigint[])";

export async function learned(db: Connection, subjects: readonly string[]): Promise<(Learned | null)[]> {
  if (subjects.length === 0) return [];
  const rows = await db.query(GET, [texts(subjects)]);
  const known = new Map(rows.map((row) => [row["subject"] as string, toLearned(row)]));
  return subjects.map((subject) => known.get(subject) ?? null);
}

/** Inside the transaction in which the runs ended. */
export async function addRuns(db: Connection, requests: readonly SettleRequest[]): Promise<void> {
  const teaching = requests.filter(({ gaps }) => gaps);
  if (teaching.length === 0) return;
  const rows = await db.query(SUBJECTS, [numbers(teaching.map(({ id }) => id))]);
  const subjects = new Map(
    rows.map((row) => [
      row["id"] as number,
      subjectOf({ key: row["key"] as string | null, queue: row["queue"] as string }),
    ]),
  );
  const names = [...new Set(subjects.values())].toSorted();
  // The row must be there to be locked, and two runs at once must both count.
  await db.query(CLAIM, [texts(names)]);
  const locked = await db.query(`${GET} ORDER BY subject FOR UPDATE`, [texts(names)]);
  const now = new Map(locked.map((row) => [row["subject"] as string, toLearned(row)]));
  for (const { id, gaps } of teaching) {
    const subject = subjects.get(id);
    if (subject !== undefined && gaps) now.set(subject, learn(now.get(subject) ?? null, gaps));
  }
  for (const [subject, known] of now) {
    if (known === null) continue;
    const { runs, gaps, lease_ms } = known;
    await db.query(SET, [subject, runs, JSON.stringify(gaps), lease_ms]);
  }
}
