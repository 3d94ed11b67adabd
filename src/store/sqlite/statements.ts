/**
 * Every SQL statement of the hot paths, by the verb it serves. Each write by a holder carries
 * `state = 'running' AND token = ?`: that is the fence.
 */

import { UNLEARNED_LEASE_MS } from "../../core/learning.ts";
import { LONGEST_LEASE_MS, MOST_GRANTS } from "../shared/columns.ts";
import { ENQUEUE_SQL } from "./insert.ts";

const JOB_COLUMNS = `id, state, queue, priority, run_at_ms, token, failures, retries, lease_ms, holder, expires_at_ms,
  cancel_requested_at_ms, created_at_ms, started_at_ms, finished_at_ms, last_beat_at_ms, task, key, argv, cwd, settings,
  env, progress, message, cause, exit_code, error, output, reason`;

const JOB_WITH_INPUT = `SELECT ${JOB_COLUMNS}, (SELECT data FROM inputs WHERE job_id = jobs.id) AS input FROM jobs`;

/** A lease of 0 is a learned one: by the job's key, or else by its queue (see subjectOf). */
const GRANTED_MS = `min(coalesce(nullif(coalesce(lease_ms, ?3), 0), (SELECT learned.lease_ms FROM learned
  WHERE subject = iif(key IS NULL, 'queue ' || queue, 'key ' || key)), ${UNLEARNED_LEASE_MS}), ${LONGEST_LEASE_MS})`;

/** Absurd numbers are cut, so that a damaged job can be granted, and then be seen and set aside. */
const GRANT = `UPDATE jobs SET state = 'running', token = min(token, ${MOST_GRANTS - 1}) + 1, holder = ?1, started_at_ms = ?2,
  last_beat_at_ms = ?2, expires_at_ms = ?2 + ${GRANTED_MS}, progress = NULL, message = NULL,
  reason = NULL`;

const notPaused = (queue: string) =>
  `NOT EXISTS (SELECT 1 FROM queues WHERE name = ${queue} AND paused_at_ms IS NOT NULL)`;

/** Whose turn it is in queue ?4, at most ?5 of them; numbered so that they fit into the statements that grant. */
const TURN = "ORDER BY priority DESC, run_at_ms, id LIMIT ?5";
const READY = `SELECT id FROM jobs WHERE state = 'pending' AND queue = ?4 AND ${notPaused("?4")} ${TURN}`;
const READY_OF_TASK = `SELECT id FROM jobs
  WHERE state = 'pending' AND task = ?6 AND queue = ?4 AND ${notPaused("?4")} ${TURN}`;

const END_ATTEMPT = `UPDATE attempts SET ended_at_ms = ?3, cause = ?4, exit_code = ?5, signal = ?6, error = ?7,
  last_line = coalesce(?8, last_line), beats = max(beats, ?9), boot_id = coalesce(boot_id, ?10), pid = coalesce(pid, ?11),
  pid_started = coalesce(pid_started, ?12) WHERE job_id = ?1 AND attempt = ?2`;

const OUTCOME = `state = ?3, run_at_ms = coalesce(?4, run_at_ms), finished_at_ms = ?5, failures = ?6,
  cause = ?7, exit_code = ?8, error = ?9, output = ?10,
  reason = CASE WHEN ?3 = 'cancelled' THEN coalesce(?11, reason) ELSE ?11 END, holder = NULL, expires_at_ms = NULL,
  cancel_requested_at_ms = NULL`;

/** Still running, and nobody asked for an end of which this outcome knows nothing. */
const UNDISTURBED = "state = 'running' AND (cancel_requested_at_ms IS NULL OR ?3 IN ('completed', 'cancelled'))";

/** Of jobs that are alike and whose leases were over at ?12, in the past: an extension would have moved them beyond it. */
const RECOVER = `UPDATE jobs SET ${OUTCOME} FROM json_each(?1) AS r
  WHERE jobs.id = r.value AND token = ?2 AND expires_at_ms <= ?12 AND ${UNDISTURBED}`;
/** Of jobs whose holder was found dead: each must end exactly when it was seen to. */
const RECOVER_HELD = `UPDATE jobs SET ${OUTCOME}
  FROM (SELECT value ->> 0 AS id, value ->> 1 AS expires_at_ms FROM json_each(?1)) AS r
  WHERE jobs.id = r.id AND token = ?2 AND jobs.expires_at_ms = r.expires_at_ms AND ${UNDISTURBED}`;

/** Running jobs and their grants, in the order in which the leases end. */
const HELD = `SELECT ${JOB_COLUMNS.replaceAll(/\w+/g, "jobs.$&")}, granted.worker, granted.host, granted.boot_id, granted.pid,
    granted.pid_started, granted.lease_ms AS granted_ms, granted.beats,
    EXISTS (SELECT 1 FROM logs WHERE logs.job_id = jobs.id AND logs.attempt = jobs.token) AS printed
  FROM jobs LEFT JOIN attempts AS granted ON granted.job_id = jobs.id AND granted.attempt = jobs.token
  WHERE jobs.state = 'running' AND (jobs.expires_at_ms, jobs.id) > (?2, ?3)`;
const BY_END = "ORDER BY jobs.expires_at_ms, jobs.id LIMIT ?4";

/** The given queues; null: all. */
const NAMED = "(?1 IS NULL OR queue IN (SELECT value FROM json_each(?1)))";

/** Not the progress that the next attempt of an unfinished job starts from. */
const SPARE = `NOT (kind = 'progress'
  AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = checkpoints.job_id AND finished_at_ms IS NULL)
  AND id = (SELECT max(id) FROM checkpoints AS c WHERE c.job_id = checkpoints.job_id AND c.kind = 'progress'))`;

export const SQL = {
  ...ENQUEUE_SQL,
  requestCancel: `UPDATE jobs SET cancel_requested_at_ms = coalesce(cancel_requested_at_ms, ?2),
    reason = coalesce(reason, ?3) WHERE id = ?1 AND state = 'running'`,

  promote: `UPDATE jobs SET state = 'pending'
    WHERE id IN (SELECT id FROM jobs WHERE state = 'scheduled' AND run_at_ms <= ?1 ORDER BY run_at_ms LIMIT ?2)`,
  ready: READY,
  readyTask: READY_OF_TASK,
  acquire: `${GRANT} WHERE id IN (${READY}) RETURNING ${JOB_COLUMNS}`,
  acquireTask: `${GRANT} WHERE id IN (${READY_OF_TASK}) RETURNING ${JOB_COLUMNS}`,
  acquireOne: `${GRANT} WHERE id = ?4 AND state = 'pending' RETURNING ${JOB_COLUMNS}`,
  nextQueue: "SELECT min(queue) AS queue FROM jobs WHERE state = 'pending' AND queue > ?1",
  readyHead: `SELECT id, queue, priority, run_at_ms FROM jobs WHERE state = 'pending' AND queue = ?1 AND ${notPaused("?1")}
    ORDER BY priority DESC, run_at_ms, id LIMIT 1`,
  readyHeadTask: `SELECT id, queue, priority, run_at_ms FROM jobs
    WHERE state = 'pending' AND queue = ?1 AND task = ?2 AND ${notPaused("?1")}
    ORDER BY priority DESC, run_at_ms, id LIMIT 1`,
  inputOf: "SELECT data FROM inputs WHERE job_id = ?1",
  insertAttempt: `INSERT INTO attempts (job_id, attempt, worker, host, started_at_ms, lease_ms)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT DO UPDATE SET worker = ?3, host = ?4, started_at_ms = ?5, lease_ms = ?6, ended_at_ms = NULL, cause = NULL`,
  previousProcess: `SELECT boot_id, pid, pid_started FROM attempts
    WHERE job_id = ?1 AND attempt < ?2 AND host = ?3 AND pid IS NOT NULL ORDER BY attempt DESC LIMIT 1`,
  lastProgress: `SELECT text FROM checkpoints WHERE job_id = ?1 AND kind = 'progress' ORDER BY id DESC LIMIT 1`,

  // A beat from the future shows that the clock was set back: then nothing longer is kept.
  extend: `UPDATE jobs SET
    expires_at_ms = iif(?8 AND last_beat_at_ms <= ?7, max(expires_at_ms, ?3), ?3),
    last_beat_at_ms = iif(?8 AND last_beat_at_ms <= ?7, max(last_beat_at_ms, ?4), coalesce(?4, last_beat_at_ms)),
    progress = coalesce(?5, progress), message = coalesce(?6, message)
    WHERE id = ?1 AND state = 'running' AND token = ?2 AND expires_at_ms >= ?9
    RETURNING expires_at_ms, cancel_requested_at_ms`,
  cutLeases: `UPDATE jobs SET expires_at_ms = ?1 + granted.lease_ms, last_beat_at_ms = min(last_beat_at_ms, ?1)
    FROM attempts AS granted WHERE granted.job_id = jobs.id AND granted.attempt = jobs.token
      AND jobs.state = 'running' AND jobs.expires_at_ms > ?1 + granted.lease_ms`,
  // A pause before a retry is an interval; what a person put off is a moment, and stays. One that began after the clock
  // was set and before anybody noticed is cut short: better than an hour too long.
  moveRetries: "UPDATE jobs SET run_at_ms = run_at_ms + ?1 WHERE state = 'scheduled' AND token > 0",
  countBeats: "UPDATE attempts SET beats = max(beats, ?3) WHERE job_id = ?1 AND attempt = ?2",
  noteProcess: `UPDATE attempts SET boot_id = ?3, pid = ?4, pid_started = ?5
    WHERE job_id = ?1 AND attempt = ?2 AND ended_at_ms IS NULL`,
  insertLog: "INSERT OR IGNORE INTO logs (job_id, attempt, start, bytes, data) VALUES (?1, ?2, ?3, ?4, ?5)",
  trimLog: "DELETE FROM logs WHERE job_id = ?1 AND attempt = ?2 AND start >= ?3 AND start + bytes <= ?4",
  logs: `SELECT start, bytes, data FROM logs WHERE job_id = ?1 AND attempt = ?2 AND start >= ?3
    ORDER BY start LIMIT ?4`,
  lastLogs: `SELECT start, bytes, data FROM logs WHERE job_id = ?1 AND attempt = ?2 ORDER BY start DESC LIMIT ?3`,
  settle: `UPDATE jobs SET ${OUTCOME} WHERE id = ?1 AND token = ?2 AND ${UNDISTURBED}`,
  recover: RECOVER,
  recoverTelling: `${RECOVER} RETURNING id`,
  recoverHeld: RECOVER_HELD,
  recoverHeldTelling: `${RECOVER_HELD} RETURNING id`,
  changed: "SELECT changes() AS rows",
  endAttempts: `UPDATE attempts SET ended_at_ms = ?3, cause = ?4, exit_code = ?5, signal = ?6, error = ?7
    FROM json_each(?1) AS r WHERE job_id = r.value AND attempt = ?2`,
  setLastLine: "UPDATE attempts SET last_line = ?3 WHERE job_id = ?1 AND attempt = ?2",
  endAttempt: END_ATTEMPT,
  insertCheckpoint: `INSERT INTO checkpoints (job_id, task, kind, token, at_ms, text)
    VALUES (?1, (SELECT task FROM jobs WHERE id = ?1), ?2, ?3, ?4, ?5)`,

  // Without their input: a sweep has no use for it.
  expired: `${HELD} AND jobs.expires_at_ms < ?1 ${BY_END}`,
  expiredOrHeldBy: `${HELD} AND (jobs.expires_at_ms < ?1 OR jobs.holder IN (SELECT value FROM json_each(?5))) ${BY_END}`,

  retry: `UPDATE jobs SET state = 'pending', run_at_ms = ?2, failures = 0, finished_at_ms = NULL, cause = NULL,
    exit_code = NULL, error = NULL, output = NULL, reason = NULL
    WHERE id = ?1 AND state IN ('completed', 'failed', 'cancelled')
      AND NOT EXISTS (SELECT 1 FROM jobs AS other WHERE other.key = jobs.key
        AND other.state IN ('blocked', 'scheduled', 'pending', 'running'))`,
  cancelRequests: `SELECT id, token FROM jobs
    WHERE holder = ?1 AND state = 'running' AND cancel_requested_at_ms IS NOT NULL`,

  job: `${JOB_WITH_INPUT} WHERE id = ?1`,
  attempts: "SELECT * FROM attempts WHERE job_id = ?1 ORDER BY attempt",
  retryCounts: `SELECT retries, sum(count) AS jobs FROM tallies WHERE state IN ('completed', 'failed')
    GROUP BY retries HAVING jobs > 0 ORDER BY retries`,
  // Each of the unfinished states from an index of its own, the finished ones from what the triggers counted. Pending
  // jobs may be very many: step from queue to queue, and count each in one go.
  counts: `WITH RECURSIVE ready (queue) AS (
      SELECT min(queue) FROM jobs WHERE state = 'pending'
      UNION ALL SELECT (SELECT min(queue) FROM jobs WHERE state = 'pending' AND queue > ready.queue) FROM ready
        WHERE queue IS NOT NULL)
    SELECT queue, 'pending' AS state, (SELECT count(*) FROM jobs WHERE state = 'pending' AND jobs.queue = ready.queue)
      AS count FROM ready WHERE queue IS NOT NULL AND ${NAMED}
    UNION ALL SELECT queue, state, count(*) FROM jobs WHERE state = 'blocked' AND ${NAMED} GROUP BY queue
    UNION ALL SELECT queue, state, count(*) FROM jobs INDEXED BY jobs_due WHERE state = 'scheduled' AND ${NAMED}
      GROUP BY queue
    UNION ALL SELECT queue, state, count(*) FROM jobs INDEXED BY jobs_expiry WHERE state = 'running' AND ${NAMED}
      GROUP BY queue
    UNION ALL SELECT queue, state, sum(count) AS total FROM tallies WHERE ${NAMED} GROUP BY queue, state HAVING total > 0
    ORDER BY queue, state`,
  deleteJob: "DELETE FROM jobs WHERE id = ?1",
  leases: `SELECT count(*) AS held, count(*) FILTER (WHERE expires_at_ms < ?1) AS stale,
      min(expires_at_ms) FILTER (WHERE expires_at_ms >= ?1) AS next_expires_at_ms
    FROM jobs INDEXED BY jobs_expiry WHERE state = 'running'`,
  unmet: `SELECT d.job_id AS job, d.parent_id AS parent, d.kind, parent.state,
      coalesce(parent.finished_at_ms, iif(parent.state = 'running', parent.started_at_ms, parent.created_at_ms)) AS since_ms
    FROM dependencies AS d JOIN jobs AS parent ON parent.id = d.parent_id JOIN jobs AS child ON child.id = d.job_id
    WHERE d.job_id IN (SELECT value FROM json_each(?1)) AND child.state = 'blocked' AND parent.state <> 'completed'
      AND (d.kind = 'success' OR parent.state NOT IN ('failed', 'cancelled'))
    ORDER BY d.job_id, d.parent_id`,

  getLearned: "SELECT runs, gaps FROM learned WHERE subject = ?1",
  setLearned: `INSERT INTO learned (subject, runs, gaps, lease_ms) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (subject) DO UPDATE SET runs = ?2, gaps = ?3, lease_ms = ?4`,
  subjectOf: "SELECT key, queue FROM jobs WHERE id = ?1",

  setPaused: `INSERT INTO queues (name, paused_at_ms) VALUES (?1, ?2)
    ON CONFLICT (name) DO UPDATE SET paused_at_ms = iif(?2 IS NULL, NULL, coalesce(paused_at_ms, ?2))`,
  pausedQueues: "SELECT name FROM queues WHERE paused_at_ms IS NOT NULL ORDER BY name",

  nextDue: "SELECT min(run_at_ms) AS at_ms FROM jobs WHERE state = 'scheduled'",
  anyReady: "SELECT 1 AS found FROM jobs WHERE state = 'pending' AND queue = ?1 LIMIT 1",

  getMeta: "SELECT value FROM meta WHERE name = ?1",
  setMeta: "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2",
  newestCheckpoint: "SELECT max(id) AS id FROM checkpoints",
  fullTasks: `SELECT DISTINCT task FROM checkpoints AS new WHERE id > ?1 AND task IS NOT NULL
    AND EXISTS (SELECT 1 FROM checkpoints WHERE task = new.task LIMIT 1 OFFSET ?2)`,
  fullJobs: `SELECT DISTINCT job_id FROM checkpoints AS new WHERE id > ?1 AND task IS NULL
    AND EXISTS (SELECT 1 FROM checkpoints WHERE job_id = new.job_id LIMIT 1 OFFSET ?2)`,
  trimTask: `DELETE FROM checkpoints WHERE task = ?1 AND ${SPARE}
    AND id NOT IN (SELECT id FROM checkpoints WHERE task = ?1 ORDER BY id DESC LIMIT ?2)`,
  trimJob: `DELETE FROM checkpoints WHERE job_id = ?1 AND ${SPARE}
    AND id NOT IN (SELECT id FROM checkpoints WHERE job_id = ?1 ORDER BY id DESC LIMIT ?2)`,

  saveWorker: `INSERT INTO workers (id, name, host, boot_id, pid, pid_started, version, queues, slots, started_at_ms,
      seen_at_ms, stopped_at_ms, ended, draining, completed, failed, task)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
    ON CONFLICT (id) DO UPDATE SET slots = ?9, seen_at_ms = ?11, stopped_at_ms = ?12, ended = ?13, draining = ?14,
      completed = ?15, failed = ?16`,
  workersLiveOn: "SELECT * FROM workers WHERE host = ?1 AND stopped_at_ms IS NULL",
  workers: "SELECT * FROM workers ORDER BY stopped_at_ms IS NOT NULL, started_at_ms, id",
} as const;

export type StatementName = keyof typeof SQL;

export const SELECT_JOB = JOB_WITH_INPUT;
/** Where nobody asks for it. */
export const SELECT_WITHOUT_INPUT = `SELECT ${JOB_COLUMNS} FROM jobs`;
