/** What a person changes about jobs that wait. Their rows are locked first: whoever acquires passes them over meanwhile. */

import type { JobChanges } from "../../core/changes.ts";
import type { EditAnswer } from "../queries.ts";
import { EDITED_COLUMNS, circle, edited, editedColumns, editRefusal } from "../shared/edited.ts";
import { toJob } from "../shared/rows.ts";
import { relink } from "./dependencies.ts";
import type { Connection } from "./session/session.ts";
import { SELECT_JOB, SQL } from "./statements.ts";

const LOCKED = `${SELECT_JOB} WHERE id = ANY ($1::bigint[]) ORDER BY id FOR NO KEY UPDATE OF jobs`;
const ONE = `${SELECT_JOB} WHERE id = $1`;
/** Two that link jobs anew at once could each be right, and make a circle together. */
const ONE_AT_A_TIME =
  "SELECT pg_advisory_xact_lock(hashtextextended('lease edit ' || (SELECT value FROM lease.meta WHERE name = 'version'), 1))";
const EDIT = `UPDATE lease.jobs SET ${EDITED_COLUMNS.map((name, index) => `${name} = $${index + 2}`).join(", ")} WHERE id = $1`;

export async function edit(db: Connection, ids: readonly number[], changes: JobChanges): Promise<EditAnswer[]> {
  if (changes.parents !== undefined) await db.query(ONE_AT_A_TIME);
  const rows = await db.query(LOCKED, [ids]);
  const found = new Map(rows.map(toJob).map((job) => [job.id, job]));
  const [clock] = await db.query<{ ms: number }>(SQL.now);
  const answers: EditAnswer[] = [];
  for (const [index, id] of ids.entries()) {
    // One before it may have been cancelled by whom it waits for now, and this one along with it.
    const [row] = index === 0 || changes.parents === undefined ? [] : await db.query(ONE, [id]);
    const job = row === undefined ? (found.get(id) ?? null) : toJob(row);
    const refusal = editRefusal(id, job);
    if (job === null || refusal !== null) {
      answers.push(refusal ?? { id, status: "unknown", state: null });
      continue;
    }
    const next = edited(job, changes, clock?.ms ?? 0);
    await db.query(EDIT, [id, ...editedColumns(next)]);
    if (next.relinked) {
      const above = await relink(db, id, next.job, index);
      if (above !== null) throw circle(id, above);
    }
    answers.push({ id, status: "changed", state: job.state.name });
  }
  return answers;
}
