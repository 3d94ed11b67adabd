/** Priorities that rise with time: who has waited for long is not kept waiting by others for ever. */

import type { Connection } from "./session/session.ts";

/** Jobs that rise in one commit. */
export const RISE_TOGETHER = 1_000;

const STEPS = "((clock.ms - jobs.run_at_ms) / $1::bigint)";
/** As text: one that can't be read must not stop the others. A text within it has its quotes escaped. */
const AGED = `coalesce(substring(jobs.settings FROM '"aged":([0-9]{1,15})')::bigint, 0)`;
const WITH_AGED = `CASE WHEN jobs.settings IS NULL THEN '{"aged":' || ${STEPS} || '}'
  WHEN jobs.settings ~ '"aged":[0-9]' THEN regexp_replace(jobs.settings, '"aged":[0-9]+', '"aged":' || ${STEPS})
  ELSE '{"aged":' || ${STEPS} || ',' || substr(jobs.settings, 2) END`;
const AGE = `WITH clock AS MATERIALIZED (SELECT lease.now_ms() AS ms), picked AS MATERIALIZED (
    SELECT jobs.id FROM lease.jobs, clock WHERE state = 'pending' AND run_at_ms <= clock.ms - $1::bigint AND priority < $2::bigint
      AND (settings IS NULL OR settings LIKE '{"%') AND ${STEPS} > ${AGED}
    LIMIT ${RISE_TOGETHER} FOR UPDATE OF jobs SKIP LOCKED)
  UPDATE lease.jobs SET priority = priority + ${STEPS} - ${AGED},
    settings = ${WITH_AGED}
  FROM clock WHERE jobs.id = ANY (ARRAY(SELECT id FROM picked)) RETURNING jobs.id`;

/** As many as one commit should take. */
export async function age(db: Connection, aging_ms: number): Promise<number> {
  // A number that can't be reckoned with would make the job one that can't be read.
  return (await db.query(AGE, [aging_ms, (Number.MAX_SAFE_INTEGER - 1) / 2])).length;
}
