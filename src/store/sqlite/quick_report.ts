/**
 * What a job reports about itself, `lease beat` and `lease checkpoint`, in a store that is plainly right: quick_enqueue.ts
 * has the way. It says yes or nothing. A lease that is lost, a cancel, another life of the store: the store proper has
 * something to say about these.
 */

import type { QuickFiles, SqlDatabase } from "../../platform/platform.ts";
import { LONGEST_LEASE_MS, bounded } from "../shared/columns.ts";
import { OF_OURS, OURS, onQuickStore, together } from "./quick_enqueue.ts";

// A beat from the future shows that the clock was set back: then nothing longer is kept than was left at that beat, which
// is as much as the holder can believe in.
export const EXTEND = `UPDATE jobs SET
  expires_at_ms = CASE WHEN NOT ?8 THEN ?3
    WHEN last_beat_at_ms > ?7 THEN max(?3, ?7 + min(expires_at_ms - last_beat_at_ms, ${LONGEST_LEASE_MS}))
    WHEN ?3 - expires_at_ms >= ?11 THEN ?3 ELSE expires_at_ms END,
  last_beat_at_ms = iif(?8 AND last_beat_at_ms <= ?7, max(last_beat_at_ms, coalesce(?4, 0)),
    coalesce(?4, last_beat_at_ms)),
  progress = coalesce(?5, progress), message = coalesce(?6, message),
  cancel_told_at_ms = coalesce(cancel_told_at_ms, iif(?10 AND cancel_requested_at_ms IS NOT NULL, ?7, NULL))
  WHERE id = ?1 AND state = 'running' AND token = ?2 AND expires_at_ms >= ?9
  RETURNING expires_at_ms, cancel_requested_at_ms, cancel_grace_ms`;
export const COUNT_BEATS = `UPDATE attempts SET beats = max(beats, ?3), self_beats = ${bounded("self_beats")} + ?4,
  extensions = ${bounded("extensions")} + ?5,
  extension_failures = max(extension_failures, ?6) WHERE job_id = ?1 AND attempt = ?2`;
export const INSERT_CHECKPOINT = `INSERT INTO checkpoints (job_id, task, kind, token, at_ms, text)
  VALUES (?1, (SELECT task FROM jobs WHERE id = ?1), ?2, ?3, ?4, ?5)`;

/** Who reports: the attempt, and the life of the store that its token is of; null where the worker did not say. */
export interface Reporter {
  id: number;
  token: number;
  store_id: string | null;
}

export interface QuickBeat extends Reporter {
  interval_ms: number;
  /** Null: what the lease was granted for. */
  extension_ms: number | null;
  progress: number | null;
  message: string | null;
}

/** The attempt of a reporter that holds its lease, and that nobody asked to end. */
const HELD = `SELECT attempts.lease_ms FROM ${OF_OURS}, jobs
  JOIN attempts ON attempts.job_id = jobs.id AND attempts.attempt = jobs.token
  WHERE jobs.id = ?1 AND jobs.state = 'running' AND jobs.token = ?2 AND jobs.expires_at_ms >= ?3
    AND jobs.cancel_requested_at_ms IS NULL
    AND (?4 IS NULL OR ?4 = (SELECT value FROM meta WHERE name = 'store_id')) AND ${OURS} = ?5`;

/** True when it is written; null: nothing was done. */
export function quickBeat(files: QuickFiles, file: string, beat: QuickBeat, now_ms: number): true | null {
  const { id, token, extension_ms, interval_ms, progress, message } = beat;
  return reporting(files, file, beat, now_ms, (database, lease_ms) => {
    const wanted_ms = now_ms + Math.min(extension_ms ?? Infinity, lease_ms);
    const times = [wanted_ms, now_ms, progress, message, now_ms, 1, now_ms, 1, interval_ms];
    const row = database.prepare(EXTEND).get(id, token, ...times);
    if (row === null) return null;
    database.prepare(COUNT_BEATS).run(id, token, 0, 1, row["expires_at_ms"] === wanted_ms ? 1 : 0, 0);
    return true;
  });
}

/** True when it is taken; null: nothing was done. */
export function quickCheckpoint(
  files: QuickFiles,
  file: string,
  note: Reporter & { text: string },
  now_ms: number,
): true | null {
  return reporting(files, file, note, now_ms, (database) => {
    database.prepare(INSERT_CHECKPOINT).run(note.id, "progress", note.token, now_ms, note.text);
    return true;
  });
}

function reporting(
  files: QuickFiles,
  file: string,
  { id, token, store_id }: Reporter,
  now_ms: number,
  write: (database: SqlDatabase, lease_ms: number) => true | null,
): true | null {
  return onQuickStore(files, file, now_ms, HELD, (database, held, schema) =>
    together(database, () => {
      const lease_ms = held.get(id, token, now_ms, store_id, schema)?.["lease_ms"];
      return typeof lease_ms === "number" ? write(database, lease_ms) : null;
    }),
  );
}
