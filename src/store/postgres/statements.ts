/**
 * Every SQL statement of the hot paths, by the verb it serves. Each write by a holder carries
 * `RUNNING AND token = …`: that is the fence. Statements take lists and answer for all of them at once; the
 * clock is read once in each, and `lease.` stands for the store's schema.
 */

import { UNLEARNED_LEASE_MS } from "../../core/learning.ts";
import { SHAPES } from "../copy/transfer.ts";
import { LONGEST_LEASE_MS, MOST_GRANTS } from "../shared/columns.ts";
import { CLASS_BOUNDS_MS, LONGEST_NOTED_MS, MINUTE_MS } from "../../core/history.ts";
import { BOUNDED, FULL, GATES, NEXT_START, isLimit } from "./limits.ts";
import { isPaused } from "./pause.ts";
import { perRow } from "./session/arrays.ts";
import { COMPLETIONS, COMPLETIONS_ALIKE, ENDS } from "./session/ends.ts";
import { ONE_PLAN } from "./session/link.ts";
import { GRANT_COLUMNS, OPEN_ATTEMPTS, reopening } from "./session/granted.ts";

const JOB_COLUMNS = SHAPES.jobs.names;

const columnsOf = (job: string) => JOB_COLUMNS.map((column) => `${job}.${column}`).join(", ");

const inputOf = (job: string) =>
  `CASE WHEN ${job}.has_input THEN (SELECT data FROM lease.inputs WHERE job_id = ${job}.id) END AS input`;

export const SELECT_JOB = `SELECT ${columnsOf("jobs")}, ${inputOf("jobs")} FROM lease.jobs`;

/** Where nobody asks for its input. */
export const SELECT_WITHOUT_INPUT = `SELECT ${columnsOf("jobs")} FROM lease.jobs`;

export const CLOCK = "clock AS MATERIALIZED (SELECT lease.now_ms() AS ms)";

/** Only a running job has an expiry. Said by it and not by the state, lest the planner walk through all that run. */
const RUNNING = "jobs.expires_at_ms IS NOT NULL";

// ── History ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Durations are whole: the first bound that is not exceeded is the number of those that are. */
const sizeClass = (duration: string) =>
  `width_bucket(${duration}, ARRAY[${CLASS_BOUNDS_MS.map((bound_ms) => bound_ms + 1).join(", ")}]::bigint[])`;
const elapsed = (from: string, to: string) => `least(greatest(${to} - ${from}, 0), ${LONGEST_NOTED_MS})`;
const THIS_MINUTE = `clock.ms / ${MINUTE_MS} * ${MINUTE_MS}`;

/** What an end leaves to be counted. Its job was running, which is counted by itself. `same`: what is so of all of them. */
const ENDED = (recovered: boolean, same?: { state: string; end_cause: string }) => {
  const [state, cause] = same === undefined ? ["state", "end_cause"] : [`'${same.state}'`, `'${same.end_cause}'`];
  const differing = same === undefined ? "state, end_cause, " : "";
  return `took AS MATERIALIZED (
    SELECT queue, ${differing}retries, token, ${THIS_MINUTE} AS at_ms, ${elapsed("started_at_ms", "clock.ms")} AS run_ms,
      -- As it was before this statement: a retry has another time.
      ${elapsed("coalesce(kept_run_at_ms, (SELECT run_at_ms FROM lease.jobs WHERE jobs.id = ended.id))", "started_at_ms")} AS wait_ms
    FROM ended, clock
  ), tallied AS (
    INSERT INTO lease.deltas (kind, recovered, queue, state, retries, cause, class, at_ms, count, sum_ms, max_ms)
    SELECT 'end', ${recovered}, queue, ${state}, retries, ${cause}, ${sizeClass("run_ms")} AS class, min(at_ms), count(*),
      sum(run_ms), max(run_ms) FROM took GROUP BY ${differing}queue, retries, class
    UNION ALL SELECT 'wait', FALSE, queue, NULL, 0, NULL, ${sizeClass("wait_ms")} AS class, min(at_ms), count(*),
      sum(wait_ms), max(wait_ms) FROM took WHERE token = 1 GROUP BY queue, class)`;
};

// ── Acquire ────────────────────────────────────────────────────────────────────────────────────────────────────────

// $1 holder, $2 host, $3 lease_ms, $4 count, $5 request, $6 whether due jobs come first, $7 what the acquirer has by
// name, then the variant's own. Where a job that is bounded may start, it only says so: see acquireBounded.

type Kind = "all" | "commands";
export const COMMAND_KINDS = { all: "VALUES (0), (1)", commands: "VALUES (0)" } as const;

/** The queues that hold pending jobs, by stepping through the index. */
export const readyQueues = (task: string) => `ready (name) AS (
    SELECT min(queue) FROM lease.jobs WHERE state = 'pending' ${task}
    UNION ALL
    SELECT (SELECT min(queue) FROM lease.jobs WHERE state = 'pending' AND queue > ready.name ${task})
      FROM ready WHERE ready.name IS NOT NULL
  )`;

/** 1 for a job without a command, in the words of the index that keeps these apart: only who has a handler takes them. */
export const WITHOUT_COMMAND = "(CASE WHEN argv = '[]' THEN 1 ELSE 0 END)";

const TURN = "ORDER BY priority DESC, run_at_ms, id LIMIT $4";

const pickOf = (queue: string, task: string, without: string) => `SELECT jobs.id, jobs.priority, jobs.run_at_ms
    FROM lease.jobs WHERE state = 'pending' AND jobs.queue = ${queue} ${task} AND ${WITHOUT_COMMAND} = ${without}
      AND gate = '' AND NOT due.found AND NOT due.bounded ${TURN} FOR UPDATE SKIP LOCKED`;

/** Whose turn it is in a queue: of those with a command, or of all. */
const pickFrom = (queue: string, task: string, kind: Kind) =>
  kind === "commands"
    ? pickOf(queue, task, "0")
    : `SELECT either.* FROM (${COMMAND_KINDS.all}) AS kind (n)
      CROSS JOIN LATERAL (${pickOf(queue, task, "kind.n")}) AS either ${TURN}`;

/** A lease of 0 is a learned one: by the job's key, or else by its queue (see subjectOf). */
const GRANTED_MS = `least(coalesce(nullif(coalesce(jobs.lease_ms, $3::bigint), 0), (SELECT learned.lease_ms FROM lease.learned
  WHERE subject = CASE WHEN jobs.key IS NULL THEN 'queue ' || jobs.queue ELSE 'key ' || jobs.key END
  ), ${UNLEARNED_LEASE_MS}), ${LONGEST_LEASE_MS})`;

const answer = `SELECT CASE WHEN due.found THEN 'due' WHEN due.bounded THEN 'bounded' END AS instead, ${GRANT_COLUMNS},
  ${inputOf("granted")} FROM due LEFT JOIN granted ON TRUE`;

const acquire = (picked: string, { more = "", bounded = BOUNDED, held = "" } = {}) => `WITH RECURSIVE ${CLOCK},
  ${GATES}, ${FULL}, due AS MATERIALIZED (
    SELECT $6::boolean AND (EXISTS (SELECT 1 FROM lease.freeing) OR EXISTS (
      SELECT 1 FROM lease.jobs WHERE state = 'scheduled' AND run_at_ms <= clock.ms)) AS found, ${bounded} AS bounded
    FROM clock
  ), ${more} picked AS MATERIALIZED (${picked}), granted AS (
    -- Absurd numbers are cut, so that a damaged job can be granted, and then be seen and set aside.
    UPDATE lease.jobs SET state = 'running', token = least(token, ${MOST_GRANTS - 1}) + 1, holder = $1, started_at_ms = clock.ms,
      last_beat_at_ms = clock.ms, expires_at_ms = clock.ms + ${GRANTED_MS}, beats = 0, extensions = 0, progress = NULL, message = NULL,
      reason = NULL ${held}
    FROM clock WHERE jobs.id = ANY (ARRAY(SELECT id FROM picked)) RETURNING jobs.*
  ), opened AS (${OPEN_ATTEMPTS}) ${answer}`;

const NAMED = (task: string, kind: Kind) => `SELECT picked.id FROM due, (
    SELECT name FROM unnest($8::text[]) AS asked (name)
    WHERE NOT ${isPaused("asked.name")} AND NOT ${isLimit("asked.name")}
  ) AS queue CROSS JOIN LATERAL (${pickFrom("queue.name", task, kind)}) AS picked LIMIT $4`;

const ALL = (task: string, kind: Kind) => `SELECT picked.id FROM due, (
    SELECT name FROM ready WHERE name IS NOT NULL AND NOT ${isPaused("ready.name")} AND NOT ${isLimit("ready.name")}
  ) AS queue CROSS JOIN LATERAL (${pickFrom("queue.name", task, kind)}) AS picked
  ORDER BY picked.priority DESC, picked.run_at_ms, picked.id LIMIT $4`;

// ── Settle ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const NOT_RUNNING = `holder = NULL, expires_at_ms = NULL, cancel_requested_at_ms = NULL, held = NULL,
      cancel_grace_ms = NULL, cancel_told_at_ms = NULL, counted = jobs.counted + 1`;

/** With its last parameter false it leaves alone what others wait for: their fate belongs in the same transaction. */
const settle = (fence: string, recovered: boolean) => `WITH ${CLOCK}, asked AS MATERIALIZED ${ENDS.sql}, ended AS (
    UPDATE lease.jobs SET state = asked.state, run_at_ms = coalesce(asked.run_at_ms, jobs.run_at_ms),
      finished_at_ms = asked.finished_at_ms, failures = asked.failures, cause = asked.cause,
      exit_code = asked.exit_code, error = asked.error, output = asked.output,
      reason = CASE WHEN asked.state = 'cancelled' THEN coalesce(asked.reason, jobs.reason) ELSE asked.reason END,
      ${NOT_RUNNING}
    FROM asked WHERE jobs.id = asked.id AND ${RUNNING} AND jobs.token = asked.token
      -- Nobody asked for an end of which this outcome knows nothing, or only when its program had ended for good.
      AND (jobs.cancel_requested_at_ms IS NULL OR asked.state = 'cancelled'
        OR (jobs.cancel_requested_at_ms > asked.ended_at_ms AND jobs.cancel_told_at_ms IS NULL
          AND asked.state IN ('completed', 'failed')))
      AND (NOT jobs.awaited OR asked.finished_at_ms IS NULL OR $${ENDS.size + 1}::boolean) ${fence}
    RETURNING asked.n, jobs.id, jobs.task, jobs.awaited, asked.token, asked.end_cause, asked.end_exit_code, asked.signal,
      asked.end_error, asked.last_line, greatest(asked.beats, jobs.beats) AS beats, jobs.extensions, asked.boot_id, asked.pid,
      asked.pid_started, asked.fence, asked.cpu_ms, asked.memory_bytes, asked.audit, jobs.queue, asked.state, jobs.started_at_ms,
      CASE WHEN asked.finished_at_ms IS NULL THEN 1 ELSE asked.token - 1 END AS retries,
      CASE WHEN asked.run_at_ms IS NULL THEN jobs.run_at_ms END AS kept_run_at_ms
  ), ${ENDED(recovered)}, closed AS (
    UPDATE lease.attempts SET ended_at_ms = clock.ms, cause = ended.end_cause, exit_code = ended.end_exit_code,
      signal = ended.signal, error = ended.end_error, last_line = coalesce(ended.last_line, attempts.last_line),
      beats = greatest(attempts.beats, ended.beats), extensions = greatest(attempts.extensions, ended.extensions),
      boot_id = coalesce(attempts.boot_id, ended.boot_id),
      pid = coalesce(attempts.pid, ended.pid), pid_started = coalesce(attempts.pid_started, ended.pid_started),
      fence = coalesce(ended.fence, attempts.fence), cpu_ms = ended.cpu_ms, memory_bytes = ended.memory_bytes
    FROM ended, clock
    WHERE attempts.job_id = ended.id AND attempts.attempt = ended.token AND ended.end_cause IS NOT NULL
  ), noted AS (
    INSERT INTO lease.checkpoints (job_id, task, kind, token, at_ms, text)
    SELECT id, task, 'error', token, clock.ms, audit FROM ended, clock WHERE audit IS NOT NULL ORDER BY n
  ) SELECT array_agg(id)::text AS ids FROM ended`;

/**
 * Takes a fifth less than to ask of each what it may say besides. What it leaves alone has the other way. Ids come in
 * their order, so that what is given for a job is found by its place among them, without a join.
 */
const completing = (given: (column: string) => string) => `WITH ${CLOCK}, ended AS (
    UPDATE lease.jobs SET state = 'completed', finished_at_ms = ${given("finished_at_ms")}, failures = ${given("failures")},
      cause = 'success', exit_code = ${given("exit_code")}, error = NULL, output = ${given("output")}, reason = NULL, ${NOT_RUNNING}
    WHERE jobs.id = ANY ($1::bigint[]) AND ${RUNNING} AND jobs.token = ${given("token")}
      AND jobs.cancel_requested_at_ms IS NULL AND NOT jobs.awaited
    RETURNING jobs.id, jobs.token, jobs.exit_code, ${given("last_line")} AS last_line,
      greatest(${given("beats")}, jobs.beats) AS beats, jobs.extensions, jobs.queue, jobs.started_at_ms, jobs.token - 1 AS retries,
      jobs.run_at_ms AS kept_run_at_ms
  ), ${ENDED(false, { state: "completed", end_cause: "success" })}, closed AS (
    UPDATE lease.attempts SET ended_at_ms = clock.ms, cause = 'success', exit_code = ended.exit_code, signal = NULL,
      error = NULL, last_line = coalesce(ended.last_line, attempts.last_line), beats = greatest(attempts.beats, ended.beats),
      extensions = greatest(attempts.extensions, ended.extensions), cpu_ms = NULL, memory_bytes = NULL
    FROM ended, clock WHERE attempts.job_id = ended.id AND attempts.attempt = ended.token
  ) SELECT array_agg(id)::text AS ids FROM ended`;

const PLACE = "width_bucket(jobs.id, $1::bigint[])";
const complete = completing(COMPLETIONS.at(PLACE));
const completeAlike = completing(COMPLETIONS_ALIKE.at(PLACE));

// ── The rest ───────────────────────────────────────────────────────────────────────────────────────────────────────

const extend = perRow`${ONE_PLAN}WITH ${CLOCK}, asked AS MATERIALIZED (SELECT *, clock.ms - beat_age_ms AS beat_at_ms,
      coalesce(clock.ms - beat_age_ms, clock.ms) + expires_in_ms AS wanted_ms
    FROM ${{
      id: "bigint",
      token: "integer",
      expires_in_ms: "bigint",
      beat_age_ms: "bigint",
      at_least: "boolean",
      beats: "bigint",
      interval_ms: "bigint",
      by_job: "boolean",
      progress: "double precision",
      message: "text",
    }}, clock)
  UPDATE lease.jobs SET
    -- A beat from the future shows that the clock was set back: then nothing longer is kept than was left at that beat,
    -- which is as much as the holder can believe in.
    expires_at_ms = CASE WHEN NOT asked.at_least THEN asked.wanted_ms
      WHEN last_beat_at_ms > asked.ms
        THEN greatest(asked.wanted_ms, asked.ms + least(expires_at_ms - last_beat_at_ms, ${String(LONGEST_LEASE_MS)}))
      WHEN asked.wanted_ms - expires_at_ms >= asked.interval_ms THEN asked.wanted_ms ELSE expires_at_ms END,
    extensions = jobs.extensions + CASE WHEN NOT asked.at_least OR last_beat_at_ms > asked.ms
      OR asked.wanted_ms - expires_at_ms >= asked.interval_ms THEN 1 ELSE 0 END,
    cancel_told_at_ms = CASE WHEN asked.by_job AND cancel_requested_at_ms IS NOT NULL
      THEN coalesce(cancel_told_at_ms, asked.ms) ELSE cancel_told_at_ms END,
    last_beat_at_ms = CASE WHEN asked.at_least AND last_beat_at_ms <= asked.ms
      THEN greatest(last_beat_at_ms, asked.beat_at_ms) ELSE coalesce(asked.beat_at_ms, last_beat_at_ms) END,
    beats = greatest(jobs.beats, asked.beats), progress = coalesce(asked.progress, jobs.progress),
    message = coalesce(asked.message, jobs.message)
  FROM asked WHERE jobs.id = asked.id AND jobs.token = asked.token AND ${RUNNING}
    AND jobs.expires_at_ms >= asked.ms
  RETURNING asked.n, jobs.expires_at_ms, jobs.cancel_requested_at_ms, jobs.cancel_grace_ms`;

/** The beats of the running attempt are with the job. */
const ATTEMPTS = `SELECT attempts.*, CASE WHEN jobs.state = 'running' AND jobs.token = attempts.attempt
    THEN greatest(attempts.beats, jobs.beats) ELSE attempts.beats END AS beats,
    CASE WHEN jobs.state = 'running' AND jobs.token = attempts.attempt
    THEN greatest(attempts.extensions, jobs.extensions) ELSE attempts.extensions END AS extensions
  FROM lease.attempts JOIN lease.jobs ON jobs.id = attempts.job_id`;

/** The head of each queue is enough. $1 queues, $2 task. */
const topPriority = (kind: Kind) => `WITH RECURSIVE ${readyQueues("")} SELECT max(head.priority) AS priority FROM (
      SELECT name FROM unnest($1::text[]) AS asked (name)
      UNION ALL SELECT name FROM ready WHERE $1::text[] IS NULL AND name IS NOT NULL
    ) AS queue CROSS JOIN (${COMMAND_KINDS[kind]}) AS kind (n) CROSS JOIN LATERAL (
      SELECT priority FROM lease.jobs WHERE state = 'pending' AND jobs.queue = queue.name
        AND ($2::text IS NULL OR task = $2::text) AND ${WITHOUT_COMMAND} = kind.n AND gate = ''
        ORDER BY priority DESC, run_at_ms, id LIMIT 1
    ) AS head WHERE NOT ${isPaused("queue.name")}`;

const statementsOf = (kind: Kind) => ({
  named: ONE_PLAN + acquire(NAMED("", kind)),
  namedTask: ONE_PLAN + acquire(NAMED("AND task = $9", kind)),
  all: ONE_PLAN + acquire(ALL("", kind), { more: `${readyQueues("")}, ` }),
  allTask: ONE_PLAN + acquire(ALL("AND task = $8", kind), { more: `${readyQueues("AND task = $8")}, ` }),
});

/** Whose turn it is, for an acquirer of everything and for one of commands alone. */
export const TURNS = { all: statementsOf("all"), commands: statementsOf("commands") } as const;

export const SQL = {
  acquireOne: reopening(
    acquire(
      `SELECT id FROM lease.jobs, due WHERE id = $8 AND state = 'pending' AND gate = '' AND NOT due.found AND NOT due.bounded
      LIMIT $4 FOR UPDATE OF jobs`,
      {
        bounded: `EXISTS (SELECT 1 FROM lease.jobs
        WHERE id = $8 AND state = 'pending' AND (gate <> '' OR ${isLimit("jobs.queue")}) AND $7::text[] IS NOT NULL)`,
      },
    ),
  ),
  /** Those that were picked under the lock, with what each is given. */
  acquirePicked: reopening(
    acquire(
      "SELECT id FROM lease.jobs WHERE id = ANY ($8::bigint[]) AND state = 'pending' LIMIT $4 FOR UPDATE SKIP LOCKED",
      {
        bounded: "$7::text[] IS NULL",
        held: ", held = (SELECT given.held FROM unnest($8::bigint[], $9::text[]) AS given (id, held) WHERE given.id = jobs.id)",
      },
    ),
  ),
  /** What an acquire was given whose answer was lost. $1 holder, $2 request. */
  acquired: `WITH due AS (SELECT FALSE AS found, FALSE AS bounded), granted AS (
      SELECT jobs.* FROM lease.jobs JOIN lease.attempts ON job_id = id AND attempt = token
      WHERE state = 'running' AND holder = $1 AND request = $2::bigint) ${answer}`,
  /** For jobs that have run before: where they left off, and what may be left of them on this host. */
  earlier: perRow`SELECT given.id, (SELECT text FROM lease.checkpoints
      WHERE job_id = given.id AND kind = 'progress' ORDER BY id DESC LIMIT 1) AS checkpoint,
      attempt.boot_id, attempt.pid, attempt.pid_started
    FROM ${{ id: "bigint", token: "integer" }} LEFT JOIN LATERAL (
      SELECT boot_id, pid, pid_started FROM lease.attempts
      WHERE job_id = given.id AND attempt < given.token AND host = $3 AND pid IS NOT NULL
      ORDER BY attempt DESC LIMIT 1) AS attempt ON TRUE`,
  promote: `WITH ${CLOCK}, due AS MATERIALIZED (SELECT id FROM lease.jobs, clock
      WHERE state = 'scheduled' AND run_at_ms <= clock.ms ORDER BY run_at_ms LIMIT $1 FOR UPDATE OF jobs SKIP LOCKED),
    promoted AS (
      UPDATE lease.jobs SET state = 'pending', counted = counted + 1 WHERE id = ANY (ARRAY(SELECT id FROM due))
      RETURNING id, queue, least(token, 1) AS retries
    ), tallied AS (
      INSERT INTO lease.deltas (kind, queue, state, retries, count)
      SELECT 'tally', queue, 'scheduled', retries, -count(*) FROM promoted GROUP BY queue, retries
    ) SELECT id FROM promoted`,

  insertInputs: perRow`INSERT INTO lease.inputs (job_id, data) SELECT id, input FROM ${{ id: "bigint", input: "bytea" }}`,
  copyEnv: "COPY lease.incoming_env (job_id, env) FROM STDIN",
  setEnv: `WITH incoming AS (DELETE FROM lease.incoming_env WHERE job_id = ANY ($1::bigint[]) RETURNING job_id, env)
    UPDATE lease.jobs SET env = incoming.env FROM incoming WHERE jobs.id = incoming.job_id`,
  liveByKey: `SELECT id, key, state FROM lease.jobs WHERE key = ANY ($1::text[]) AND finished_at_ms IS NULL`,

  newestByKey: `SELECT DISTINCT ON (key) id, key, state FROM lease.jobs WHERE key = ANY ($1::text[])
    ORDER BY key, id DESC`,

  lockJobs: "SELECT id, state, key FROM lease.jobs WHERE id = ANY ($1::bigint[]) ORDER BY id FOR NO KEY UPDATE",
  extend,
  /** Of what a holder or a job itself says of its extensions, where there is more to say than that one was made. */
  countExtensions: perRow`UPDATE lease.attempts SET self_beats = attempts.self_beats + given.self_beats,
    extension_failures = greatest(extension_failures, given.failures),
    extension_refusals = extension_refusals + given.refusals
    FROM ${{ id: "bigint", token: "integer", self_beats: "bigint", failures: "bigint", refusals: "bigint" }}
    WHERE job_id = given.id AND attempt = given.token`,
  countBeats: perRow`UPDATE lease.attempts SET beats = given.beats
    FROM ${{ id: "bigint", token: "integer", beats: "bigint" }}
    WHERE job_id = given.id AND attempt = given.token AND attempts.beats < given.beats AND ended_at_ms IS NULL`,
  fences: "SELECT id, state, token, awaited FROM lease.jobs WHERE id = ANY ($1::bigint[])",
  noteProcess: perRow`${ONE_PLAN}UPDATE lease.attempts
    SET boot_id = given.boot_id, pid = given.pid, pid_started = given.pid_started, fence = given.fence
    FROM ${{ id: "bigint", token: "integer", boot_id: "text", pid: "bigint", pid_started: "bigint", fence: "text" }}
    WHERE job_id = given.id AND attempt = given.token AND ended_at_ms IS NULL`,
  insertLogs: perRow`${ONE_PLAN}INSERT INTO lease.logs (job_id, attempt, start, bytes, data)
    SELECT given.id, given.token, given.start, given.bytes, given.data
    FROM ${{ id: "bigint", token: "integer", start: "bigint", bytes: "bigint", data: "bytea" }}
    JOIN lease.jobs ON jobs.id = given.id AND jobs.token = given.token AND ${RUNNING}
    ON CONFLICT DO NOTHING`,
  trimLogs: perRow`DELETE FROM lease.logs
    USING ${{ id: "bigint", token: "integer", head_bytes: "bigint", keep_from: "bigint" }}, lease.jobs
    WHERE logs.job_id = given.id AND logs.attempt = given.token AND logs.start >= given.head_bytes
      AND logs.start + logs.bytes <= given.keep_from
      AND jobs.id = given.id AND jobs.token = given.token AND ${RUNNING}`,
  lastLogs: perRow`SELECT given.job_id, piece.* FROM ${{ job_id: "bigint", attempt: "integer" }}
    CROSS JOIN LATERAL (SELECT start, bytes, data FROM lease.logs
      WHERE logs.job_id = given.job_id AND logs.attempt = given.attempt ORDER BY start DESC LIMIT $3) AS piece
    ORDER BY given.job_id, piece.start`,
  logs: `SELECT start, bytes, data FROM lease.logs WHERE job_id = $1 AND attempt = $2 AND start >= $3
    ORDER BY start LIMIT $4`,
  logsBefore: `SELECT start, bytes, data FROM lease.logs WHERE job_id = $1 AND attempt = $2 AND start >= $3
    AND start < $4 ORDER BY start DESC LIMIT $5`,

  settle: ONE_PLAN + settle("", false),
  complete: ONE_PLAN + complete,
  completeAlike: ONE_PLAN + completeAlike,
  recover: settle("AND jobs.expires_at_ms = asked.expires_at_ms", true),
  /** What a settle did whose answer was lost: an attempt has one end, and its cause tells whose it was. */
  ended: perRow`SELECT job_id AS id FROM lease.attempts
    JOIN ${{ id: "bigint", token: "integer", cause: "text" }} ON job_id = given.id AND attempt = given.token
    WHERE attempts.cause = given.cause`,
  insertStale: perRow`INSERT INTO lease.checkpoints (job_id, task, kind, token, at_ms, text)
    SELECT jobs.id, jobs.task, 'error', given.token, lease.now_ms(), given.text
    FROM ${{ id: "bigint", token: "integer", text: "text" }} JOIN lease.jobs ON jobs.id = given.id
    ORDER BY given.n`,
  checkpoint: perRow`WITH ${CLOCK}, held AS MATERIALIZED (
      SELECT given.*, jobs.task, clock.ms FROM ${{ id: "bigint", token: "integer", text: "text" }}
      JOIN lease.jobs ON jobs.id = given.id AND jobs.token = given.token AND ${RUNNING}, clock
      WHERE jobs.expires_at_ms >= clock.ms ORDER BY jobs.id FOR NO KEY UPDATE OF jobs
    ) INSERT INTO lease.checkpoints (job_id, task, kind, token, at_ms, text)
    SELECT id, task, 'progress', token, ms, text FROM held ORDER BY n RETURNING job_id AS id, token`,

  topPriority: topPriority("all"),
  topCommandPriority: topPriority("commands"),

  attempts: `${ATTEMPTS} WHERE job_id = $1 ORDER BY attempt`,
  currentAttempts: `${ATTEMPTS} WHERE job_id = ANY ($1::bigint[]) AND attempt = token`,
  now: "SELECT lease.now_ms() AS ms",
  getMeta: "SELECT value FROM lease.meta WHERE name = $1",
  setMeta: "INSERT INTO lease.meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = $2",
  nextDue: `SELECT (SELECT min(run_at_ms) FROM lease.jobs WHERE state = 'scheduled') AS at_ms, ${NEXT_START} AS start_ms`,
  cancelRequests: `SELECT id, token, cancel_grace_ms FROM lease.jobs
    WHERE state = 'running' AND holder = $1 AND cancel_requested_at_ms IS NOT NULL`,
} as const;
