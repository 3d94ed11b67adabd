/** How attempts end by a sweep, what it looks for, and what sweeps have done in all. */

import { assert } from "../../core/errors.ts";
import type { RecoveryTotals, SweepCounts } from "../../core/records.ts";
import type { ExpiredLease, ExpiredQuery } from "../queries.ts";
import { RECOVERY_TOTALS, fromJson } from "../shared/facts.ts";
import { toAttempt, toJob } from "../shared/rows.ts";
import { addTotals } from "../shared/verdicts.ts";
import type { RecoverRequest } from "../store.ts";
import { inRounds } from "./extend.ts";
import { lastLogs } from "./logs.ts";
import { lockMeta } from "./schema.ts";
import { idsOf } from "./session/arrays.ts";
import type { Connection } from "./session/session.ts";
import { endAll, type EndWriter } from "./settle.ts";
import { SELECT_JOB, SQL } from "./statements.ts";

/** Running jobs are few, and no index has to be kept for this with every beat. */
const EXPIRED = `${SELECT_JOB} WHERE state = 'running' AND (expires_at_ms, id) > ($2, $3)
  AND (expires_at_ms < (SELECT lease.now_ms()) - $1::bigint OR holder = ANY ($5::text[]))
  ORDER BY expires_at_ms, id LIMIT $4`;

export async function expired(db: Connection, query: ExpiredQuery): Promise<ExpiredLease[]> {
  const { after, dead_holders } = query;
  const [behind_ms, behind_id] = [after?.expires_at_ms ?? -1, after?.id ?? -1];
  const rows = await db.query(EXPIRED, [query.grace_ms, behind_ms, behind_id, query.limit, dead_holders]);
  if (rows.length === 0) return [];
  const running = await db.query(SQL.currentAttempts, [idsOf(rows)]);
  const current = new Map(running.map((row) => [`${row["job_id"]} ${row["attempt"]}`, row]));
  const printed = await lastLogs(db, running, query.last_chunks ?? 0);
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

export function recover(writer: EndWriter, requests: readonly RecoverRequest[]): Promise<("recovered" | "changed")[]> {
  return inRounds(requests, async (round) => {
    const ended = await endAll(writer, SQL.recover, round);
    return round.map(({ id }) => (ended.has(id) ? "recovered" : "changed"));
  });
}

export async function recovery(db: Connection): Promise<RecoveryTotals | null> {
  const [row] = await db.query(SQL.getMeta, ["recovery"]);
  return fromJson(RECOVERY_TOTALS, row?.["value"]);
}

export async function noteRecovery(db: Connection, found: SweepCounts): Promise<void> {
  const before = await lockMeta(db, "recovery", RECOVERY_TOTALS);
  const [now] = await db.query(SQL.now);
  await db.query(SQL.setMeta, ["recovery", addTotals(before, found, now?.["ms"] as number)]);
}

const GET_ID = "SELECT value FROM lease.meta WHERE name = 'store_id'";
const GIVE_ID = "INSERT INTO lease.meta (name, value) VALUES ('store_id', $1) ON CONFLICT DO NOTHING";

export async function storeId(db: Connection): Promise<string> {
  const known = async () => (await db.query(GET_ID))[0]?.["value"] as string | undefined;
  const id = await known();
  if (id !== undefined) return id;
  await db.query(GIVE_ID, [crypto.randomUUID()]);
  // Somebody else may have been first: then theirs counts.
  return (await known()) ?? "";
}

const BURY_WORKER = `UPDATE lease.workers SET stopped_at_ms = lease.now_ms(), ended = 'dead'
  WHERE id = $1 AND stopped_at_ms IS NULL RETURNING id`;

export async function buryWorker(db: Connection, id: string): Promise<boolean> {
  return (await db.query(BURY_WORKER, [id])).length > 0;
}
