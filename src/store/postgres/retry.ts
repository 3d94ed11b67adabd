/** A person's word: finished jobs become pending again. */

import type { StateName } from "../../core/job.ts";
import type { RetryAnswer } from "../store.ts";
import { LOCK } from "./cancel.ts";
import { numbers, texts } from "./session/arrays.ts";
import type { Connection } from "./session/link.ts";
import type { Statements } from "./session/sql.ts";

const LIVE_KEYS = "SELECT key FROM lease.jobs WHERE key = ANY ($1::text[]) AND finished_at_ms IS NULL";

const RETRY = `UPDATE lease.jobs SET state = 'pending', run_at_ms = (SELECT lease.now_ms()), failures = 0,
    finished_at_ms = NULL, cause = NULL, exit_code = NULL, error = NULL, output = NULL, reason = NULL
  WHERE id = ANY ($1::bigint[])`;

export async function retry(
  statements: Statements,
  connection: Connection,
  ids: readonly number[],
): Promise<RetryAnswer[]> {
  const rows = await statements.sql(connection, LOCK, [numbers(ids)]);
  const jobs = new Map(rows.map((row) => [row["id"] as number, row]));
  const keys = rows.flatMap(({ key }) => (key === null ? [] : [key as string]));
  const live = keys.length === 0 ? [] : await statements.sql(connection, LIVE_KEYS, [texts(keys)]);
  const taken = new Set(live.map(({ key }) => key as string));
  const again: number[] = [];
  const answers = ids.map((id): RetryAnswer => {
    const row = jobs.get(id);
    const state = (row?.["state"] ?? null) as StateName | null;
    if (row === undefined || state === null) return { id, status: "unknown", state };
    if (state !== "completed" && state !== "failed" && state !== "cancelled") {
      return { id, status: "not_finished", state };
    }
    const key = row["key"] as string | null;
    if (key !== null && taken.has(key)) return { id, status: "key_taken", state };
    if (key !== null) taken.add(key);
    again.push(id);
    return { id, status: "pending", state };
  });
  if (again.length > 0) await statements.sql(connection, RETRY, [numbers(again)]);
  return answers;
}
