/** What runs have taught about the gaps between beats, one row per subject. */

import type { Gaps, Learned } from "../../core/learning.ts";
import { learn, subjectOf } from "../../core/learning.ts";
import { toLearned } from "../shared/rows.ts";
import type { Statements } from "./connection.ts";

export function learned(statements: Statements, subject: string): Learned | null {
  const row = statements.get("getLearned").get(subject);
  return row === null ? null : toLearned(row);
}

export function addRun(statements: Statements, id: number, gaps: Gaps): void {
  const row = statements.get("subjectOf").get(id);
  if (row === null) return;
  const subject = subjectOf({ key: row["key"] as string | null, queue: row["queue"] as string });
  const now = learn(learned(statements, subject), gaps);
  statements.get("setLearned").run(subject, now.runs, JSON.stringify(now.gaps), now.lease_ms);
}
