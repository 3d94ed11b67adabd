/** How attempts end by a sweep, and what sweeps have done in all. */

import { assert } from "../../core/errors.ts";
import type { RecoveryTotals, SweepCounts } from "../../core/records.ts";
import type { ExpiredLease, ExpiredQuery } from "../queries.ts";
import { fromJson, toAttempt, toJob } from "../shared/rows.ts";
import { RECOVERY_TOTALS } from "../shared/schemas.ts";
import type { RecoverRequest } from "../store.ts";
import { inRounds } from "./extend.ts";
import { lastLogs } from "./logs.ts";
import { numbers, texts } from "./session/arrays.ts";
import type { Connection } from "./session/link.ts";
import { GET_META, SET_META, lockMeta } from "./session/meta.ts";
import type { Statements } from "./session/sql.ts";
import { endAll } from "./settle.ts";
import type { Ways } from "./settle.ts";
import { SELECT_JOB } from "./statements.ts";

export function recover(
  statements: Statements,
  ways: Ways,
  requests: readonly RecoverRequest[],
): Promise<("recovered" | "changed")[]> {
  return inRounds(requests, async (round) => {
    const applied = await endAll(statements, ways, "recover", round);
    return applied.map((done) => (done ? "recovered" : "changed"));
  });
}

export async function recovery(statements: Statements, connection: Connection): Promise<RecoveryTotals | null> {
  const [row] = await statements.sql(connection, GET_META, ["recovery"]);
  return fromJson(RECOVERY_TOTALS, row?.["value"]);
}

export async function noteRecovery(statements: Statements, connection: Connection, counts: SweepCounts): Promise<void> {
  const { scan_duration_ms: _scan_duration_ms, ...more } = counts;
  const totals: Record<string, number> = {
    ...(await lockMeta(statements, connection, "recovery", RECOVERY_TOTALS)),
  };
  for (const [name, count] of Object.entries(more)) totals[name] = (totals[name] ?? 0) + count;
  const [now] = await statements.run(connection, "now");
  await statements.sql(connection, SET_META, ["recovery", JSON.stringify({ ...totals, last_at_ms: now?.["ms"] })]);
}

/** Running jobs are few, and no index has to be kept for this with every beat. */
const EXPIRED = `${SELECT_JOB} WHERE state = 'running' AND (expires_at_ms, id) > ($2, $3)
  AND (expires_at_ms < (SELECT lease.now_ms()) - $1::bigint OR holder = ANY ($5::text[]))
  ORDER BY expires_at_ms, id LIMIT $4`;

export async function expired(
  statements: Statements,
  connection: Connection,
  query: ExpiredQuery,
): Promise<ExpiredLease[]> {
  const { after, dead_holders } = query;
  const rows = await statements.sql(connection, EXPIRED, [
    query.grace_ms,
    after?.expires_at_ms ?? -1,
    after?.id ?? -1,
    query.limit,
    texts(dead_holders),
  ]);
  if (rows.length === 0) return [];
  const ids = numbers(rows.map(({ id }) => id as number));
  const running = await statements.run(connection, "currentAttempts", [ids]);
  const current = new Map(running.map((row) => [`${row["job_id"]} ${row["attempt"]}`, row]));
  const printed = await lastLogs(statements, connection, running, query.last_chunks ?? 0);
  return rows.map((row) => {
    const job = toJob(row);
    assert(job.state.name === "running", "only running jobs expire");
    const { expires_at_ms, holder } = job.state;
    return {
      job,
      expires_at_ms,
      holder_dead: dead_holders.includes(holder),
      // Deleted, or granted again between the two questions: the fence of a recovery tells which.
      attempt: toAttempt(current.get(`${job.id} ${job.token}`) ?? { ...row, attempt: job.token, worker: holder }),
      last_chunks: printed.get(job.id) ?? [],
    };
  });
}
