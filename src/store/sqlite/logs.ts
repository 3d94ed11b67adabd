/** What jobs print, in pieces: kept while they hold their lease, and trimmed to their limit. */

import type { LogChunk } from "../../core/records.ts";
import type { LogQuery } from "../queries.ts";
import { toLogChunk } from "../shared/log_rows.ts";
import { isHeldBy } from "../shared/verdicts.ts";
import type { LogWrite } from "../queries.ts";
import type { Database } from "./open.ts";
import { fenceOf } from "./dependencies.ts";
import { SQL } from "./statements.ts";

export function appendLogs(db: Database, writes: readonly LogWrite[]): void {
  for (const { id, token, beats = 0, chunks, head_bytes, keep_from } of writes) {
    if (!isHeldBy(fenceOf(db, id), { token })) continue;
    if (beats > 0) db.sql(SQL.countBeats).run(id, token, beats, 0, 0, 0);
    for (const { start, bytes, data } of chunks) db.sql(SQL.insertLog).run(id, token, start, bytes, data);
    if (keep_from > head_bytes) db.sql(SQL.trimLog).run(id, token, head_bytes, keep_from);
  }
}

export function logs(db: Database, { job, attempt, from, before, limit }: LogQuery): LogChunk[] {
  if (before !== undefined) {
    return db.sql(SQL.logsBefore).all(job, attempt, from, before, limit).map(toLogChunk).toReversed();
  }
  return db.sql(SQL.logs).all(job, attempt, from, limit).map(toLogChunk);
}

/** The newest pieces, in order. */
export function lastLogs(db: Database, job: number, attempt: number, count: number): LogChunk[] {
  return db.sql(SQL.lastLogs).all(job, attempt, count).map(toLogChunk).toReversed();
}
