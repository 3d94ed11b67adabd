/**
 * A person's word: finished jobs become pending with all their retries, unless a live job has their key, and blocked
 * where they wait for others, as when they were enqueued. What they printed and their attempts stay, and the next
 * attempt goes on from the last progress. What can't be retried is answered with why, and keeps none of the others from it.
 */

import type { StateName } from "../../core/job.ts";
import { retryAnswer } from "../shared/verdicts.ts";
import type { RetryAnswer } from "../queries.ts";
import { dependenciesOf, waitAgain } from "./dependencies.ts";
import { byId } from "./session/arrays.ts";
import type { Connection } from "./session/session.ts";
import { SQL } from "./statements.ts";

const RETRY = `UPDATE lease.jobs SET state = CASE WHEN id = ANY ($2::bigint[]) THEN 'blocked' ELSE 'pending' END,
    run_at_ms = (SELECT lease.now_ms()), failures = 0, finished_at_ms = NULL, cause = NULL, exit_code = NULL,
    error = NULL, output = NULL, reason = NULL
  WHERE id = ANY ($1::bigint[])`;

export async function retry(db: Connection, ids: readonly number[]): Promise<RetryAnswer[]> {
  const edges = await dependenciesOf(db, ids);
  const parents = edges.map(({ parent }) => parent);
  // In one go with what they wait for: whoever ends one of those comes before this or after it.
  const rows = await db.query(SQL.lockJobs, [[...new Set([...ids, ...parents])]]);
  const jobs = byId(rows);
  const keys = ids.flatMap((id) => (jobs.get(id)?.["key"] ?? []) as string | []);
  const live = keys.length === 0 ? [] : await db.query(SQL.liveByKey, [keys]);
  const taken = new Set(live.map(({ key }) => key as string));
  const answers = ids.map((id) => {
    const { state = null, key = null } = jobs.get(id) ?? {};
    const free = key === null || !taken.has(key as string);
    const answer = retryAnswer(id, state as StateName | null, free ? "pending" : null);
    if (answer.status === "pending" && key !== null) taken.add(key as string);
    return answer;
  });
  const again = new Set(answers.flatMap(({ id, status }) => (status === "pending" ? [id] : [])));
  if (again.size === 0) return answers;
  const waiting = [...new Set(edges.map(({ job }) => job))].filter((id) => again.has(id));
  await db.query(RETRY, [[...again], waiting]);
  const blocked = new Set(await waitAgain(db, waiting));
  return answers.map((answer) => (blocked.has(answer.id) ? { ...answer, status: "blocked" } : answer));
}
