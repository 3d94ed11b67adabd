/** Priorities that rise with time: who has waited for long is not kept waiting by others for ever. */

import type { Database } from "./open.ts";

/** Jobs that rise in one commit. */
export const RISE_TOGETHER = 1_000;

const STEPS = "((?1 - run_at_ms) / ?2)";
/** Of one that can't be read, more than it could ever get. */
const AGED = `CASE WHEN settings IS NULL THEN 0 WHEN json_valid(settings) THEN coalesce(json_extract(settings, '$.aged'), 0)
  ELSE 9e15 END`;
const AGE = `UPDATE jobs SET priority = priority + ${STEPS} - (${AGED}),
    settings = json_set(coalesce(settings, '{}'), '$.aged', ${STEPS})
  WHERE id IN (SELECT id FROM jobs WHERE state = 'pending' AND run_at_ms <= ?1 - ?2 AND priority < ?3
    AND ${STEPS} > ${AGED} LIMIT ${RISE_TOGETHER})`;

/** As many as one commit should take. */
export function age(db: Database, aging_ms: number): number {
  // A number that can't be reckoned with would make the job one that can't be read.
  return db.sql(AGE).run(db.now_ms(), aging_ms, Number.MAX_SAFE_INTEGER / 2).changes;
}
