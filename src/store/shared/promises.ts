/**
 * What a store's own history must never show: each promise that the design makes of jobs (its invariants), as a question
 * about those from id $1 to $2 that answers with what breaks it. Both engines are asked the same text; `lease.` stands
 * before the names of tables.
 *
 * A promise is here if rows can show a breach of it for as long as they are there, and nothing else that people may do,
 * nor a lease of an earlier schema, looks the same; where something does, the promise says what.
 */

import { JUMP_MS } from "../../core/clock.ts";
import { GIVEN_UP } from "../../core/transition.ts";
import type { SqlRow } from "../../platform/platform.ts";
import type { Audited } from "../queries.ts";
import { SATISFIED } from "./columns.ts";

export interface JobPromise extends Omit<Audited, "broken" | "more"> {
  /** What breaks it, with the id of its `job`, among jobs from $1 to $2. */
  find: string;
  says: (row: SqlRow) => string;
}

export const CLOCK_CAVEAT = "times are compared: a clock that was set back looks the same";

/** What belongs to a job, by its `job_id`. */
export const OWNED_TABLES = ["inputs", "attempts", "checkpoints", "logs", "dependencies"] as const;

const within = (column: string) => `${column} BETWEEN $1 AND $2`;
/** Somebody whom we don't hold locks against may set a job's time anew in the moment of its grant. */
const GRANT_SLACK_MS = 5_000;
/** Ends after which a job goes on only by a person's word, which moves its `run_at_ms` behind them. */
const FINAL = "('success', 'cancelled')";
export const UNCOUNTED = "('success', 'cancelled', 'returned')";

export const JOB_PROMISES: readonly JobPromise[] = [
  {
    name: "rows",
    promise: "what is kept of a job belongs to a job that is there",
    find: [
      ...OWNED_TABLES.map((table) => [table, "job_id"] as const),
      ["dependencies", "parent_id"] as const,
      ["freeing", "parent_id"] as const,
    ]
      .map(
        ([table, column]) => `SELECT DISTINCT '${table}' AS kind, owned.${column} AS job FROM lease.${table} AS owned
            WHERE ${within(`owned.${column}`)}
              AND NOT EXISTS (SELECT 1 FROM lease.jobs WHERE jobs.id = owned.${column})`,
      )
      .join(" UNION ALL "),
    says: ({ kind }) => `there are rows of ${String(kind)}, and no such job`,
  },
  {
    name: "tokens",
    promise: "tokens rise by one, and each is one grant",
    find: `SELECT jobs.id AS job, jobs.token, count(a.attempt) AS grants, coalesce(max(a.attempt), 0) AS newest
      FROM lease.jobs AS jobs LEFT JOIN lease.attempts AS a ON a.job_id = jobs.id
      WHERE ${within("jobs.id")} GROUP BY jobs.id, jobs.token
      HAVING count(a.attempt) <> jobs.token OR coalesce(max(a.attempt), 0) <> jobs.token`,
    says: ({ token, grants, newest }) => `its token is ${token} after ${grants} attempts, the newest of them ${newest}`,
  },
  {
    name: "grants",
    promise: "a job is as its newest attempt was granted: to that worker, and then",
    find: `SELECT jobs.id AS job, a.attempt, a.worker, jobs.holder, jobs.state FROM lease.jobs AS jobs
      JOIN lease.attempts AS a ON a.job_id = jobs.id AND a.attempt = jobs.token
      WHERE ${within("jobs.id")} AND (jobs.started_at_ms IS DISTINCT FROM a.started_at_ms
        OR (jobs.state = 'running' AND jobs.holder <> a.worker))`,
    says: ({ attempt, worker, holder, state }) =>
      state === "running" && holder !== worker
        ? `it runs at ${String(holder)}, and attempt ${attempt} was granted to ${String(worker)}`
        : `attempt ${attempt} began at another time than the job says`,
  },
  {
    name: "due",
    promise: "a job starts when it has been enqueued, and its time has come",
    caveat: CLOCK_CAVEAT,
    find: `SELECT jobs.id AS job, a.attempt, a.started_at_ms AS started, jobs.created_at_ms AS created,
        jobs.run_at_ms AS due FROM lease.jobs AS jobs
      JOIN lease.attempts AS a ON a.job_id = jobs.id AND a.attempt = jobs.token
      WHERE ${within("jobs.id")} AND (jobs.created_at_ms - a.started_at_ms > ${GRANT_SLACK_MS}
        OR (jobs.state IN ('running', 'completed', 'failed') AND jobs.run_at_ms - a.started_at_ms > ${GRANT_SLACK_MS}))`,
    says: ({ attempt, started, created, due }) =>
      Number(created) > Number(started)
        ? `attempt ${attempt} was granted ${Number(created) - Number(started)} ms before the job was enqueued`
        : `attempt ${attempt} was granted ${Number(due) - Number(started)} ms before the job was due`,
  },
  {
    name: "overlap",
    promise: "no attempt is granted before the one before it has ended",
    caveat: CLOCK_CAVEAT,
    find: `SELECT job_id AS job, attempt, before_ended_ms - started_at_ms AS by_ms FROM (
        SELECT job_id, attempt, started_at_ms, lag(ended_at_ms) OVER own AS before_ended_ms
        FROM lease.attempts WHERE ${within("job_id")} WINDOW own AS (PARTITION BY job_id ORDER BY attempt)
      ) AS grants WHERE before_ended_ms > started_at_ms`,
    says: ({ attempt, by_ms }) => `attempt ${attempt} was granted ${by_ms} ms before the one before it had ended`,
  },
  {
    name: "spans",
    promise: "an attempt begins before its last beat, and that comes before its end",
    caveat: CLOCK_CAVEAT,
    find: `SELECT a.job_id AS job, a.attempt, a.started_at_ms - a.ended_at_ms AS early_ms,
        jobs.last_beat_at_ms - a.ended_at_ms AS late_ms FROM lease.attempts AS a
      LEFT JOIN lease.jobs AS jobs ON jobs.id = a.job_id AND jobs.token = a.attempt
      WHERE ${within("a.job_id")} AND (a.started_at_ms - a.ended_at_ms > ${JUMP_MS}
        OR jobs.last_beat_at_ms - a.ended_at_ms > ${JUMP_MS})`,
    says: ({ attempt, early_ms, late_ms }) =>
      Number(early_ms) > JUMP_MS
        ? `attempt ${attempt} ended ${early_ms} ms before it was granted`
        : `a beat was taken ${late_ms} ms after attempt ${attempt} had ended`,
  },
  {
    name: "ends",
    promise: "an attempt has one end, and none only while its job runs under its token",
    find: `SELECT a.job_id AS job, a.attempt, a.cause, jobs.state FROM lease.attempts AS a
      JOIN lease.jobs AS jobs ON jobs.id = a.job_id WHERE ${within("a.job_id")}
        AND (a.ended_at_ms IS NULL) <> (jobs.state = 'running' AND jobs.token = a.attempt)`,
    says: ({ attempt, cause, state }) =>
      cause === null
        ? `attempt ${attempt} has no end, and the job is ${state}`
        : `it runs as attempt ${attempt}, which has ended (${cause})`,
  },
  {
    name: "results",
    promise: "a job ends as its last attempt did",
    find: `SELECT jobs.id AS job, jobs.state, jobs.token, a.cause, a.exit_code AS code, jobs.cause AS said,
        jobs.exit_code AS said_code FROM lease.jobs AS jobs LEFT JOIN lease.attempts AS a
        ON a.job_id = jobs.id AND a.attempt = jobs.token
      WHERE ${within("jobs.id")} AND ((jobs.state = 'completed' AND coalesce(a.cause, '') <> 'success')
        OR (jobs.state = 'failed' AND coalesce(a.cause, 'success') IN ${UNCOUNTED})
        OR (jobs.state IN ('completed', 'failed')
          AND (jobs.cause IS DISTINCT FROM a.cause OR jobs.exit_code IS DISTINCT FROM a.exit_code)))`,
    says: ({ state, token, cause, code, said, said_code }) =>
      `it is ${state} (${ending(said, said_code)}), and its last attempt ${token} ended with ${ending(cause, code)}`,
  },
  {
    name: "done",
    promise: "what succeeded or was cancelled is granted again only after `lease retry`",
    caveat: CLOCK_CAVEAT,
    find: `SELECT jobs.id AS job, a.attempt, a.cause, jobs.token, jobs.state FROM lease.jobs AS jobs
      JOIN lease.attempts AS a ON a.job_id = jobs.id AND a.cause IN ${FINAL}
      WHERE ${within("jobs.id")} AND jobs.run_at_ms < a.ended_at_ms
        AND (a.attempt < jobs.token OR jobs.finished_at_ms IS NULL)`,
    says: ({ attempt, cause, token, state }) =>
      `attempt ${attempt} ended with ${cause}, and nobody retried it, but it is ${state} with token ${token}`,
  },
  {
    name: "failures",
    promise: "a job counts no more failures than attempts that failed",
    find: `SELECT jobs.id AS job, jobs.failures, count(a.attempt) AS failed FROM lease.jobs AS jobs
      LEFT JOIN lease.attempts AS a ON a.job_id = jobs.id AND a.cause NOT IN ${UNCOUNTED}
      WHERE ${within("jobs.id")} GROUP BY jobs.id, jobs.failures HAVING jobs.failures > count(a.attempt)`,
    says: ({ failures, failed }) => `it counts ${failures} failures, and ${failed} attempts failed`,
  },
  {
    name: "retries",
    promise: "a job is tried no more often than its retries allow",
    explained_by: "somebody lowered its retries since (`lease edit`)",
    find: `SELECT id AS job, failures, retries FROM lease.jobs
      WHERE ${within("id")} AND failures > retries + CASE WHEN state = 'failed' THEN 1 ELSE 0 END`,
    says: ({ failures, retries }) =>
      `it has failed ${Number(failures) === 1 ? "once" : `${failures} times`} with ${retries} retries`,
  },
  {
    name: "checkpoints",
    promise: "checkpoints carry the token of an attempt, and progress only ever the current one",
    find: `SELECT c.job_id AS job, c.id, c.kind, c.token, c.newest FROM (
        SELECT job_id, id, kind, token, max(CASE WHEN kind = 'progress' THEN token END)
          OVER (PARTITION BY job_id ORDER BY id) AS newest
        FROM lease.checkpoints WHERE ${within("job_id")}
      ) AS c LEFT JOIN lease.attempts AS a ON a.job_id = c.job_id AND a.attempt = c.token
      WHERE a.job_id IS NULL OR (c.kind = 'progress' AND c.newest > c.token)`,
    says: ({ id, kind, token, newest }) =>
      Number(newest) > Number(token)
        ? `progress ${id} of token ${token} was taken after one of token ${newest}`
        : `the ${kind} checkpoint ${id} has token ${token}, which was never granted`,
  },
  {
    name: "progress",
    promise: "progress is taken only while its attempt runs",
    caveat: CLOCK_CAVEAT,
    find: `SELECT c.job_id AS job, c.id, c.token FROM lease.checkpoints AS c
      JOIN lease.attempts AS a ON a.job_id = c.job_id AND a.attempt = c.token
      WHERE ${within("c.job_id")} AND c.kind = 'progress'
        AND (c.at_ms < a.started_at_ms OR c.at_ms > a.ended_at_ms)`,
    says: ({ id, token }) => `progress ${id} was taken when attempt ${token} did not run`,
  },
  {
    name: "leases",
    promise: "nobody takes an attempt before the lease that it was granted is over",
    caveat: CLOCK_CAVEAT,
    // One that was extended ended later, or as its holder asked: of these an error checkpoint tells.
    find: `SELECT a.job_id AS job, a.attempt, a.started_at_ms + a.lease_ms - a.ended_at_ms AS early_ms
      FROM lease.attempts AS a WHERE ${within("a.job_id")} AND a.cause = 'expired' AND a.extensions = 0
        AND a.ended_at_ms - a.started_at_ms < a.lease_ms
        AND substr(coalesce(a.error, ''), 1, ${GIVEN_UP.length}) <> '${GIVEN_UP}'`,
    says: ({ attempt, early_ms }) => `attempt ${attempt} was recovered ${early_ms} ms before its lease ended`,
  },
  {
    name: "the dead",
    promise: "a worker that was taken for dead is not seen again",
    caveat: CLOCK_CAVEAT,
    find: `SELECT a.job_id AS job, a.attempt, a.worker, w.seen_at_ms - a.ended_at_ms AS late_ms FROM lease.attempts AS a
      JOIN lease.workers AS w ON w.id = a.worker
      WHERE ${within("a.job_id")} AND a.cause = 'lost' AND w.seen_at_ms > a.ended_at_ms`,
    says: ({ attempt, worker, late_ms }) =>
      `attempt ${attempt} was taken from ${String(worker)} as dead, which was seen ${late_ms} ms later`,
  },
  {
    name: "logs",
    promise: "what is logged is of an attempt that was granted, and no byte of it is there twice",
    find: `SELECT l.job_id AS job, l.attempt, l.start, l.before_end FROM (
        SELECT job_id, attempt, start, lag(start + bytes) OVER own AS before_end FROM lease.logs
        WHERE ${within("job_id")} WINDOW own AS (PARTITION BY job_id, attempt ORDER BY start)
      ) AS l LEFT JOIN lease.attempts AS a ON a.job_id = l.job_id AND a.attempt = l.attempt
      WHERE a.job_id IS NULL OR l.before_end > l.start`,
    says: ({ attempt, start, before_end }) =>
      Number(before_end) > Number(start)
        ? `the log of attempt ${attempt} has the bytes from ${start} to ${before_end} twice`
        : `there is a log of attempt ${attempt}, which was never granted`,
  },
  {
    name: "cancels",
    promise: "what was to be cancelled is not granted",
    caveat: CLOCK_CAVEAT,
    find: `SELECT jobs.id AS job, jobs.token FROM lease.jobs AS jobs
      JOIN lease.attempts AS a ON a.job_id = jobs.id AND a.attempt = jobs.token
      WHERE ${within("jobs.id")} AND jobs.cancel_requested_at_ms < a.started_at_ms`,
    says: ({ token }) => `attempt ${token} was granted after somebody had asked to cancel it`,
  },
  {
    name: "order",
    promise: "a job that waits for the success of another starts after it",
    caveat: CLOCK_CAVEAT,
    find: `SELECT d.job_id AS job, d.parent_id, child.token FROM lease.dependencies AS d
      JOIN lease.jobs AS child ON child.id = d.job_id AND child.state IN ('running', 'completed', 'failed')
      JOIN lease.attempts AS a ON a.job_id = child.id AND a.attempt = child.token
      WHERE ${within("d.job_id")} AND d.kind = 'success' AND NOT EXISTS (SELECT 1 FROM lease.attempts AS p
        WHERE p.job_id = d.parent_id AND p.cause = 'success' AND p.ended_at_ms <= a.started_at_ms)`,
    says: ({ token, parent_id }) =>
      `attempt ${token} began, and job ${parent_id}, which it waits for, had never succeeded`,
  },
  {
    name: "order now",
    promise: "a job starts when all that it waits for is as it should be",
    explained_by: "somebody retried or edited what it waits for, when it was free already",
    find: `SELECT d.job_id AS job, d.parent_id, child.token, parent.state FROM lease.dependencies AS d
      JOIN lease.jobs AS child ON child.id = d.job_id AND child.state IN ('running', 'completed', 'failed')
      JOIN lease.attempts AS a ON a.job_id = child.id AND a.attempt = child.token
      JOIN lease.jobs AS parent ON parent.id = d.parent_id
      WHERE ${within("d.job_id")} AND parent.run_at_ms <= a.started_at_ms
        AND NOT (${SATISFIED} AND parent.finished_at_ms <= a.started_at_ms)`,
    says: ({ token, parent_id, state }) =>
      `attempt ${token} began, and job ${parent_id}, which it waits for, was not done (${state})`,
  },
  {
    name: "blocked",
    promise: "a job that waits for nothing any more is free",
    find: `SELECT jobs.id AS job FROM lease.jobs AS jobs
      WHERE ${within("jobs.id")} AND jobs.state = 'blocked' AND NOT EXISTS (
        SELECT 1 FROM lease.dependencies AS d JOIN lease.jobs AS parent ON parent.id = d.parent_id
        WHERE d.job_id = jobs.id AND NOT ${SATISFIED})
      AND NOT EXISTS (SELECT 1 FROM lease.dependencies AS d JOIN lease.freeing AS f ON f.parent_id = d.parent_id
        WHERE d.job_id = jobs.id)`,
    says: () => "it is blocked, and all that it waits for is as it should be",
  },
  {
    name: "doomed",
    promise: "a job ends with those that it waits for, when they have not ended as they should",
    caveat: CLOCK_CAVEAT,
    // One that a person retries after that waits on, until those are retried as well.
    find: `SELECT jobs.id AS job, d.parent_id, parent.state FROM lease.jobs AS jobs
      JOIN lease.dependencies AS d ON d.job_id = jobs.id JOIN lease.jobs AS parent ON parent.id = d.parent_id
      WHERE ${within("jobs.id")} AND jobs.state = 'blocked' AND NOT ${SATISFIED}
        AND parent.finished_at_ms > jobs.run_at_ms
        AND NOT EXISTS (SELECT 1 FROM lease.freeing AS f WHERE f.parent_id = d.parent_id)`,
    says: ({ parent_id, state }) => `it is blocked, and job ${parent_id}, which it waits for, is ${state}`,
  },
  {
    name: "circles",
    promise: "no job waits for itself, in whatever way",
    // Whoever is new waits for what is older: a circle has a link that was made by an edit.
    find: `WITH RECURSIVE above (job, id) AS (
        SELECT job_id, parent_id FROM lease.dependencies WHERE ${within("job_id")} AND parent_id >= job_id
        UNION SELECT above.job, d.parent_id FROM above JOIN lease.dependencies AS d ON d.job_id = above.id
      ) SELECT DISTINCT job FROM above WHERE id = job`,
    says: () => "it waits for itself, or for one that waits for it",
  },
  {
    name: "keys",
    promise: "one live job at most has a key",
    find: `SELECT min(jobs.id) AS job, jobs.key, count(*) AS holders FROM lease.jobs AS jobs
      WHERE jobs.key IN (SELECT key FROM lease.jobs WHERE ${within("id")} AND key IS NOT NULL
        AND finished_at_ms IS NULL) AND jobs.finished_at_ms IS NULL GROUP BY jobs.key
      HAVING count(*) > 1 AND min(jobs.id) >= $1`,
    says: ({ key, holders }) => `${holders} live jobs have its key ${key}`,
  },
  {
    name: "bounded",
    promise: "a bounded job runs only with what it was given",
    find: `SELECT id AS job FROM lease.jobs
      WHERE ${within("id")} AND state = 'running' AND gate <> '' AND held IS NULL`,
    says: () => "it runs, needs or counts for something, and was given nothing",
  },
];

function ending(cause: unknown, code: unknown): string {
  return cause === null ? "nothing" : `${String(cause)}${code === null ? "" : ` ${String(code)}`}`;
}
