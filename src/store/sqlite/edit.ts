/** What a person changes about jobs that wait. In one write, so that none of them is granted meanwhile as it was. */

import type { JobChanges } from "../../core/changes.ts";
import type { EditAnswer } from "../queries.ts";
import { EDITED_COLUMNS, circle, edited, editedColumns, editRefusal } from "../shared/edited.ts";
import { relink } from "./dependencies.ts";
import type { Database } from "./open.ts";
import { jobs } from "./read.ts";

const EDIT = `UPDATE jobs SET ${EDITED_COLUMNS.map((name, index) => `${name} = ?${index + 2}`).join(", ")} WHERE id = ?1`;

export function edit(db: Database, ids: readonly number[], changes: JobChanges): EditAnswer[] {
  const now_ms = db.now_ms();
  return ids.map((id) => {
    const [job = null] = jobs(db, [id]);
    const refusal = editRefusal(id, job);
    if (job === null || refusal !== null) return refusal ?? { id, status: "unknown", state: null };
    const next = edited(job, changes, now_ms);
    db.sql(EDIT).run(id, ...editedColumns(next));
    if (next.relinked) {
      const above = relink(db, id, next.job, now_ms);
      if (above !== null) throw circle(id, above);
    }
    return { id, status: "changed", state: job.state.name };
  });
}
