/**
 * A person's word: finished jobs become pending with all their retries, unless a live job has their key. What they
 * printed and their attempts stay, and the next attempt goes on from the last progress. What can't be retried is
 * answered with why, and keeps none of the others from it.
 */

import type { StateName } from "../../core/job.ts";
import { retryAnswer } from "../shared/verdicts.ts";
import type { RetryAnswer } from "../store.ts";
import { byId } from "./session/arrays.ts";
import type { Connection } from "./session/session.ts";
import { SQL } from "./statements.ts";

const RETRY = `UPDATE lease.jobs SET state = 'pending', run_at_ms = (SELECT lease.now_ms()), failures = 0,
    finished_at_ms = NULL, cause = NULL, exit_code = NULL, error = NULL, output = NULL, reason = NULL
  WHERE id = ANY ($1::bigint[])`;

export async function retry(db: Connection, ids: readonly number[]): Promise<RetryAnswer[]> {
  const rows = await db.query(SQL.lockJobs, [ids]);
  const jobs = byId(rows);
  const keys = rows.flatMap(({ key }) => (key === null ? [] : [key as string]));
  const live = keys.length === 0 ? [] : await db.query(SQL.liveByKey, [keys]);
  const taken = new Set(live.map(({ key }) => key as string));
  const answers = ids.map((id) => {
    const { state = null, key = null } = jobs.get(id) ?? {};
    const answer = retryAnswer(id, state as StateName | null, key !== null && taken.has(key as string));
    if (answer.status === "pending" && key !== null) taken.add(key as string);
    return answer;
  });
  const again = answers.flatMap(({ id, status }) => (status === "pending" ? [id] : []));
  if (again.length > 0) await db.query(RETRY, [again]);
  return answers;
}
