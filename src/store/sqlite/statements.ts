/**
 * Every SQL statement of the hot paths, by the verb it serves. Each write by a holder carries
 * `state = 'running' AND token = ?`: that is the fence.
 */

import { UNLEARNED_LEASE_MS } from "../../core/learning.ts";
import { SHAPES } from "../copy/transfer.ts";
import { LONGEST_LEASE_MS, MOST_GRANTS, bounded } from "../shared/columns.ts";
import { notPaused } from "./pause.ts";
import { COUNT_BEATS, EXTEND, INSERT_CHECKPOINT } from "./quick_report.ts";

const NAMES = SHAPES.jobs.names;
const JOB_COLUMNS = NAMES.join(", ");

const JOB_WITH_INPUT = `SELECT ${JOB_COLUMNS}, (SELECT data FROM inputs WHERE job_id = jobs.id) AS input FROM jobs`;

/** A lease of 0 is a learned one: by the job's key, or else by its queue (see subjectOf). */
const GRANTED_MS = `min(coalesce(nullif(coalesce(lease_ms, ?3), 0), (SELECT learned.lease_ms FROM learned
  WHERE subject = iif(key IS NULL, 'queue ' || queue, 'key ' || key)), ${UNLEARNED_LEASE_MS}), ${LONGEST_LEASE_MS})`;

/** Absurd numbers are cut, so that a damaged job can be granted, and then be seen and set aside. */
const GRANT = `UPDATE jobs SET state = 'running', token = min(token, ${MOST_GRANTS - 1}) + 1, holder = ?1, started_at_ms = ?2,
  last_beat_at_ms = ?2, expires_at_ms = ?2 + ${GRANTED_MS}, progress = NULL, message = NULL,
  reason = NULL`;

/** A job without a command, in the words of the index that keeps these apart: only who has a handler takes them. */
export const WITHOUT_COMMAND = "(argv = '[]')";

/** Whose turn it is in a queue: of those with a command, of those without, or (null) of both. */
function turn(columns: string, only: string, command: boolean | null, limit: string): string {
  const order = `ORDER BY priority DESC, run_at_ms, id LIMIT ${limit}`;
  const of = (without: 0 | 1, what: string) =>
    `SELECT ${what} FROM jobs WHERE state = 'pending' AND ${only} AND ${WITHOUT_COMMAND} = ${without} ${order}`;
  if (command !== null) return of(command ? 0 : 1, columns);
  const both = ([0, 1] as const).map(
    (without) => `SELECT * FROM (${of(without, "id, queue, gate, priority, run_at_ms")})`,
  );
  return `SELECT ${columns} FROM (${both.join(" UNION ALL ")}) ${order}`;
}

/** Of each gate of queue ?1 at which jobs wait, the one whose turn it is: from gate to gate through the index. */
function heads(only: string, command: true | null): string {
  const of = (without: 0 | 1) => {
    const line = `FROM jobs WHERE state = 'pending' AND ${only} AND ${WITHOUT_COMMAND} = ${without}`;
    return `SELECT jobs.id AS id, queue, jobs.gate AS gate, priority, run_at_ms FROM (
      WITH RECURSIVE gates (gate) AS (SELECT min(gate) ${line} AND gate > '' UNION ALL
        SELECT (SELECT min(gate) ${line} AND gate > gates.gate) FROM gates WHERE gates.gate IS NOT NULL)
      SELECT (SELECT id ${line} AND gate = gates.gate ORDER BY priority DESC, run_at_ms, id LIMIT 1) AS id FROM gates
        WHERE gates.gate IS NOT NULL) AS head CROSS JOIN jobs ON jobs.id = head.id WHERE ${notPaused("?1")}`;
  };
  const both = command === null ? `${of(0)} UNION ALL ${of(1)}` : of(0);
  return `${both} ORDER BY priority DESC, run_at_ms, id LIMIT ?2`;
}

/** At most ?5 of queue ?4; numbered so that they fit into the statements that grant. */
function turns(command: true | null) {
  const ready = turn("id", `queue = ?4 AND gate = '' AND ${notPaused("?4")}`, command, "?5");
  const ready_task = turn("id", `task = ?6 AND queue = ?4 AND gate = '' AND ${notPaused("?4")}`, command, "?5");
  const head = "id, queue, gate, priority, run_at_ms";
  return {
    ready,
    readyTask: ready_task,
    acquire: `${GRANT} WHERE id IN (${ready}) RETURNING ${JOB_COLUMNS}`,
    acquireTask: `${GRANT} WHERE id IN (${ready_task}) RETURNING ${JOB_COLUMNS}`,
    readyHead: turn(head, `queue = ?1 AND gate = '' AND ${notPaused("?1")}`, command, "1"),
    readyHeadTask: turn(head, `queue = ?1 AND gate = '' AND task = ?2 AND ${notPaused("?1")}`, command, "1"),
    anyReady: turn("1 AS found", "queue = ?1 AND gate = ''", command, "1"),
    line: turn(head, `queue = ?1 AND gate = ?2 AND ${notPaused("?1")}`, command, "?3"),
    heads: heads("queue = ?1", command),
    headsTask: heads("task = ?3 AND queue = ?1", command),
    lineTask: turn(head, `queue = ?1 AND gate = ?2 AND task = ?4 AND ${notPaused("?1")}`, command, "?3"),
  } as const;
}

const BEGIN_ATTEMPT = "INSERT INTO attempts (job_id, attempt, worker, host, started_at_ms, lease_ms)";
/** One that was there already, in a store that is damaged. */
const BEGUN_BEFORE = `ON CONFLICT DO UPDATE SET worker = excluded.worker, host = excluded.host,
  started_at_ms = excluded.started_at_ms, lease_ms = excluded.lease_ms, ended_at_ms = NULL, cause = NULL`;

const END_ATTEMPT = `UPDATE attempts SET ended_at_ms = ?3, cause = ?4, exit_code = ?5, signal = ?6, error = ?7,
  last_line = coalesce(?8, last_line), beats = max(beats, ?9), boot_id = coalesce(boot_id, ?10), pid = coalesce(pid, ?11),
  pid_started = coalesce(pid_started, ?12), fence = coalesce(?13, fence), cpu_ms = ?14, memory_bytes = ?15
  WHERE job_id = ?1 AND attempt = ?2`;

const OUTCOME = `state = ?3, run_at_ms = coalesce(?4, run_at_ms), finished_at_ms = ?5, failures = ?6,
  cause = ?7, exit_code = ?8, error = ?9, output = ?10,
  reason = CASE WHEN ?3 = 'cancelled' THEN coalesce(?11, reason) ELSE ?11 END, holder = NULL, expires_at_ms = NULL,
  cancel_requested_at_ms = NULL, cancel_grace_ms = NULL, cancel_told_at_ms = NULL, held = NULL`;

/** Still running, and nobody asked for an end of which this outcome knows nothing. */
const UNDISTURBED = "state = 'running' AND (cancel_requested_at_ms IS NULL OR ?3 = 'cancelled')";
/** The same, or asked when its program had ended without hearing of it, and it does not run again. */
const UNDISTURBED_END = `state = 'running' AND (cancel_requested_at_ms IS NULL OR ?3 = 'cancelled'
  OR (cancel_requested_at_ms > ?12 AND cancel_told_at_ms IS NULL AND ?3 IN ('completed', 'failed')))`;

/** Of jobs that are alike: ?1 has for each when its lease was seen to end, and it must end exactly then. */
const RECOVER = `UPDATE jobs SET ${OUTCOME} FROM json_each(?1) AS r
  WHERE jobs.id = CAST(r.key AS INTEGER) AND token = ?2 AND expires_at_ms = r.value AND ${UNDISTURBED}`;

/** Running jobs and their grants, in the order in which the leases end. */
const HELD = `SELECT ${NAMES.map((name) => `jobs.${name}`).join(", ")}, granted.worker, granted.host, granted.boot_id, granted.pid,
    granted.pid_started, granted.lease_ms AS granted_ms, granted.beats,
    EXISTS (SELECT 1 FROM logs WHERE logs.job_id = jobs.id AND logs.attempt = jobs.token) AS printed
  FROM jobs LEFT JOIN attempts AS granted ON granted.job_id = jobs.id AND granted.attempt = jobs.token
  WHERE jobs.state = 'running' AND (jobs.expires_at_ms, jobs.id) > (?2, ?3)`;
const BY_END = "ORDER BY jobs.expires_at_ms, jobs.id LIMIT ?4";

interface Completion {
  id: string;
  token: string;
  finished_ms: string;
  ended_ms: string;
  failures: string;
  exit_code: string;
  output: string;
}

/** Of jobs that have succeeded; ?1 is what there is to know of each. */
const complete = (of: Completion) => `UPDATE jobs SET state = 'completed', finished_at_ms = ${of.finished_ms},
  failures = ${of.failures}, cause = 'success', exit_code = ${of.exit_code}, error = NULL, output = ${of.output},
  reason = NULL, holder = NULL, expires_at_ms = NULL, cancel_requested_at_ms = NULL, cancel_grace_ms = NULL,
  cancel_told_at_ms = NULL, held = NULL
  FROM json_each(?1) AS r
  WHERE jobs.id = ${of.id} AND token = ${of.token} AND state = 'running' AND (cancel_requested_at_ms IS NULL
    OR (cancel_requested_at_ms > ${of.ended_ms} AND cancel_told_at_ms IS NULL))`;
const completeAttempts = (of: Pick<Completion, "id" | "token" | "exit_code"> & { last_line: string; beats: string }) =>
  `UPDATE attempts SET ended_at_ms = ?2, cause = 'success', exit_code = ${of.exit_code}, signal = NULL, error = NULL,
  last_line = coalesce(${of.last_line}, last_line), beats = max(beats, ${of.beats}), cpu_ms = NULL, memory_bytes = NULL
  FROM json_each(?1) AS r WHERE job_id = ${of.id} AND attempt = ${of.token}`;

/** {id: token}, and the rest is the same of all. */
const ALIKE = { id: "CAST(r.key AS INTEGER)", token: "r.value" } as const;
/** The how-manieth of a list. */
const listed = (index: number) => `r.value ->> ${index}`;

export const SQL = {
  promote: `UPDATE jobs SET state = 'pending'
    WHERE id IN (SELECT id FROM jobs WHERE state = 'scheduled' AND run_at_ms <= ?1 ORDER BY run_at_ms LIMIT ?2)`,
  acquireOne: `${GRANT} WHERE id = ?4 AND state = 'pending' RETURNING ${JOB_COLUMNS}`,
  acquireBounded: `${GRANT}, held = ?5 WHERE id = ?4 AND state = 'pending' RETURNING ${JOB_COLUMNS}`,
  atGate: "SELECT queue, gate FROM jobs WHERE id = ?1 AND state = 'pending'",
  nextQueue: "SELECT min(queue) AS queue FROM jobs WHERE state = 'pending' AND queue > ?1",
  inputOf: "SELECT data FROM inputs WHERE job_id = ?1",
  inputsOf: "SELECT job_id, data FROM inputs WHERE job_id IN (SELECT value FROM json_each(?1))",
  insertAttempt: `${BEGIN_ATTEMPT} VALUES (?1, ?2, ?3, ?4, ?5, ?6) ${BEGUN_BEFORE}`,
  // [id, token, lease] of each.
  insertAttempts: `${BEGIN_ATTEMPT} SELECT ${listed(0)}, ${listed(1)}, ?2, ?3, ?4, ${listed(2)} FROM json_each(?1) AS r
    WHERE true ${BEGUN_BEFORE}`,
  insertAttemptsAlike: `${BEGIN_ATTEMPT} SELECT ${ALIKE.id}, ${ALIKE.token}, ?2, ?3, ?4, ?5 FROM json_each(?1) AS r
    WHERE true ${BEGUN_BEFORE}`,
  previousProcess: `SELECT boot_id, pid, pid_started FROM attempts
    WHERE job_id = ?1 AND attempt < ?2 AND host = ?3 AND pid IS NOT NULL ORDER BY attempt DESC LIMIT 1`,
  lastProgress: `SELECT text FROM checkpoints WHERE job_id = ?1 AND kind = 'progress' ORDER BY id DESC LIMIT 1`,

  extend: EXTEND,
  countBeats: COUNT_BEATS,
  countRefusal: `UPDATE attempts SET extension_refusals = ${bounded("extension_refusals")} + 1
    WHERE job_id = ?1 AND attempt = ?2`,
  noteProcess: `UPDATE attempts SET boot_id = ?3, pid = ?4, pid_started = ?5, fence = ?6
    WHERE job_id = ?1 AND attempt = ?2 AND ended_at_ms IS NULL`,
  insertLog: "INSERT OR IGNORE INTO logs (job_id, attempt, start, bytes, data) VALUES (?1, ?2, ?3, ?4, ?5)",
  trimLog: "DELETE FROM logs WHERE job_id = ?1 AND attempt = ?2 AND start >= ?3 AND start + bytes <= ?4",
  logs: `SELECT start, bytes, data FROM logs WHERE job_id = ?1 AND attempt = ?2 AND start >= ?3
    ORDER BY start LIMIT ?4`,
  logsBefore: `SELECT start, bytes, data FROM logs WHERE job_id = ?1 AND attempt = ?2 AND start >= ?3 AND start < ?4
    ORDER BY start DESC LIMIT ?5`,
  lastLogs: `SELECT start, bytes, data FROM logs WHERE job_id = ?1 AND attempt = ?2 ORDER BY start DESC LIMIT ?3`,
  settle: `UPDATE jobs SET ${OUTCOME} WHERE id = ?1 AND token = ?2 AND ${UNDISTURBED_END}`,
  // [id, token, finished at, ended at, failures, exit code, output] of each.
  complete: complete({
    id: listed(0),
    token: listed(1),
    finished_ms: listed(2),
    ended_ms: listed(3),
    failures: listed(4),
    exit_code: listed(5),
    output: listed(6),
  }),
  completeAlike: complete({
    ...ALIKE,
    finished_ms: "?2",
    ended_ms: "?3",
    failures: "?4",
    exit_code: "?5",
    output: "?6",
  }),
  // [id, token, exit code, last line, beats] of each.
  completeAttempts: completeAttempts({
    id: listed(0),
    token: listed(1),
    exit_code: listed(2),
    last_line: listed(3),
    beats: listed(4),
  }),
  completeAttemptsAlike: completeAttempts({ ...ALIKE, exit_code: "?3", last_line: "?4", beats: "?5" }),
  completePrograms: `UPDATE attempts SET ended_at_ms = ?2, cause = 'success', exit_code = r.value ->> 2,
    signal = r.value ->> 5, error = NULL, last_line = coalesce(r.value ->> 3, last_line),
    beats = max(beats, r.value ->> 4), boot_id = coalesce(boot_id, r.value ->> 6), pid = coalesce(pid, r.value ->> 7),
    pid_started = coalesce(pid_started, r.value ->> 8), fence = coalesce(r.value ->> 9, fence),
    cpu_ms = r.value ->> 10, memory_bytes = r.value ->> 11
    FROM json_each(?1) AS r WHERE job_id = r.value ->> 0 AND attempt = r.value ->> 1`,
  // Where nobody waits for anybody, the list is not read.
  parentsAmong: `SELECT ${ALIKE.id} AS id FROM json_each(?1) AS r WHERE EXISTS (SELECT 1 FROM dependencies)
    AND EXISTS (SELECT 1 FROM dependencies WHERE parent_id = ${ALIKE.id})`,
  recover: RECOVER,
  recoverTelling: `${RECOVER} RETURNING id`,
  changed: "SELECT changes() AS rows",
  endAttempts: `UPDATE attempts SET ended_at_ms = ?3, cause = ?4, exit_code = ?5, signal = ?6, error = ?7
    FROM json_each(?1) AS r WHERE job_id = r.value AND attempt = ?2`,
  setLastLine: "UPDATE attempts SET last_line = ?3 WHERE job_id = ?1 AND attempt = ?2",
  endAttempt: END_ATTEMPT,
  insertCheckpoint: INSERT_CHECKPOINT,

  // Without their input: a sweep has no use for it.
  expired: `${HELD} AND jobs.expires_at_ms < ?1 ${BY_END}`,
  expiredOrHeldBy: `${HELD} AND (jobs.expires_at_ms < ?1 OR jobs.holder IN (SELECT value FROM json_each(?5))) ${BY_END}`,

  job: `${JOB_WITH_INPUT} WHERE id = ?1`,
  attempts: "SELECT * FROM attempts WHERE job_id = ?1 ORDER BY attempt",

  nextDue: "SELECT min(run_at_ms) AS at_ms FROM jobs WHERE state = 'scheduled'",

  getMeta: "SELECT value FROM meta WHERE name = ?1",
  setMeta: "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2",
} as const;

/** Whose turn it is, for an acquirer of everything and for one of commands alone. */
export const TURNS = { all: turns(null), commands: turns(true) } as const;

export const SELECT_JOB = JOB_WITH_INPUT;
/** Where nobody asks for it. */
export const SELECT_WITHOUT_INPUT = `SELECT ${JOB_COLUMNS} FROM jobs`;
