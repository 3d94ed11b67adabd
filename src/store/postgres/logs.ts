/** What jobs print, in pieces: kept while they hold their lease, and trimmed to their limit. */

import type { LogChunk } from "../../core/records.ts";
import type { SqlRow } from "../../platform/platform.ts";
import type { LogQuery } from "../queries.ts";
import { toLogChunk } from "../shared/log_rows.ts";
import type { LogWrite } from "../queries.ts";
import type { Connection } from "./session/session.ts";
import { SQL } from "./statements.ts";

export async function appendLogs(db: Connection, writes: readonly LogWrite[]): Promise<void> {
  const chunks = writes.flatMap(({ id, token, chunks: own }) => own.map((chunk) => ({ id, token, ...chunk })));
  if (chunks.length > 0) await SQL.insertLogs.run(db, chunks);
  const beating = writes.filter(({ beats = 0 }) => beats > 0);
  if (beating.length > 0) await SQL.countBeats.run(db, beating);
  const trims = writes.filter(({ head_bytes, keep_from }) => keep_from > head_bytes);
  if (trims.length > 0) await SQL.trimLogs.run(db, trims);
}

export async function lastLogs(
  db: Connection,
  running: readonly SqlRow[],
  count: number,
): Promise<ReadonlyMap<number, LogChunk[]>> {
  if (count === 0) return new Map();
  const rows = await SQL.lastLogs.run(db, running, count);
  const chunks = rows.map(({ job_id, ...chunk }) => ({ job_id, chunk: toLogChunk(chunk) }));
  const grouped = Map.groupBy(chunks, ({ job_id }) => job_id as number);
  return new Map([...grouped].map(([job, pieces]) => [job, pieces.map(({ chunk }) => chunk)]));
}

export async function logs(db: Connection, query: LogQuery): Promise<LogChunk[]> {
  const { job, attempt, from, before, limit } = query;
  if (before !== undefined) {
    const newest = await db.query(SQL.logsBefore, [job, attempt, from, before, limit]);
    return newest.map(toLogChunk).toReversed();
  }
  return (await db.query(SQL.logs, [job, attempt, from, limit])).map(toLogChunk);
}
