/**
 * What a store's own history must never show, as questions to it: each rule is one of the promises that the design makes,
 * asked after the fact of jobs, attempts, checkpoints, logs, dependencies and limits. A question answers with what breaks
 * it; both engines answer the same text (`lease.` stands before the names of tables).
 *
 * Jobs are asked about in spans of their ids: the price in memory and the time of one answer don't grow with the store.
 * Every answer is one statement, so that it sees one moment, also of a store that is in use.
 */

import { OPEN_GATE, limitsOf, readGate } from "../../core/gate.ts";
import { GIVEN_UP } from "../../core/transition.ts";
import type { SqlRow, SqlValue } from "../../platform/platform.ts";
import type { Audited, Broken } from "../queries.ts";
import { SATISFIED } from "./columns.ts";
import { toHeld, toLimit } from "./room.ts";

export type Ask = (sql: string, params?: readonly SqlValue[]) => Promise<SqlRow[]>;

interface Rule extends Omit<Audited, "broken" | "more"> {
  /** What breaks it, with the id of its `job`, among jobs from $1 to $2. */
  find: string;
  says: (row: SqlRow) => string;
}

const SPAN_JOBS = 20_000;
/** Of each rule so many are named. */
const NAMED = 100;

const within = (column: string) => `${column} BETWEEN $1 AND $2`;
const CLOCK = "times are compared: a clock that was set back looks the same";
/** Ends after which a job goes on only by a person's word, which moves its `run_at_ms` behind them. */
const FINAL = "('success', 'cancelled')";
const UNCOUNTED = "('success', 'cancelled', 'returned')";

const OWNED = ["inputs", "attempts", "checkpoints", "logs", "dependencies"] as const;

const RULES: readonly Rule[] = [
  {
    name: "rows",
    promise: "what is kept of a job belongs to a job that is there",
    find: [
      ...OWNED.map((table) => [table, "job_id"] as const),
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
    name: "overlap",
    promise: "no attempt is granted before the one before it has ended",
    caveat: CLOCK,
    find: `SELECT job_id AS job, attempt, before_ended_ms - started_at_ms AS by_ms FROM (
        SELECT job_id, attempt, started_at_ms, lag(ended_at_ms) OVER own AS before_ended_ms
        FROM lease.attempts WHERE ${within("job_id")} WINDOW own AS (PARTITION BY job_id ORDER BY attempt)
      ) AS grants WHERE before_ended_ms > started_at_ms`,
    says: ({ attempt, by_ms }) => `attempt ${attempt} was granted ${by_ms} ms before the one before it had ended`,
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
    find: `SELECT jobs.id AS job, jobs.state, jobs.token, a.cause FROM lease.jobs AS jobs
      LEFT JOIN lease.attempts AS a ON a.job_id = jobs.id AND a.attempt = jobs.token
      WHERE ${within("jobs.id")} AND ((jobs.state = 'completed' AND coalesce(a.cause, '') <> 'success')
        OR (jobs.state = 'failed' AND coalesce(a.cause, 'success') IN ${UNCOUNTED}))`,
    says: ({ state, token, cause }) => `it is ${state}, and its last attempt ${token} ended with ${cause ?? "nothing"}`,
  },
  {
    name: "done",
    promise: "what succeeded or was cancelled is granted again only after `lease retry`",
    caveat: CLOCK,
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
      WHERE ${within("id")} AND failures > retries + 1`,
    says: ({ failures, retries }) => `it has failed ${failures} times with ${retries} retries`,
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
    caveat: CLOCK,
    find: `SELECT c.job_id AS job, c.id, c.token FROM lease.checkpoints AS c
      JOIN lease.attempts AS a ON a.job_id = c.job_id AND a.attempt = c.token
      WHERE ${within("c.job_id")} AND c.kind = 'progress'
        AND (c.at_ms < a.started_at_ms OR c.at_ms > a.ended_at_ms)`,
    says: ({ id, token }) => `progress ${id} was taken when attempt ${token} did not run`,
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
    caveat: CLOCK,
    find: `SELECT jobs.id AS job, jobs.token FROM lease.jobs AS jobs
      JOIN lease.attempts AS a ON a.job_id = jobs.id AND a.attempt = jobs.token
      WHERE ${within("jobs.id")} AND jobs.cancel_requested_at_ms < a.started_at_ms`,
    says: ({ token }) => `attempt ${token} was granted after somebody had asked to cancel it`,
  },
  {
    name: "order",
    promise: "a job that waits for the success of another starts after it",
    caveat: CLOCK,
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

/** Everything that a store's history shows against the promises, one answer per promise. */
export async function findBreaches(ask: Ask): Promise<Audited[]> {
  const found = new Map(RULES.map((rule) => [rule, [] as Broken[]]));
  // From one that is there to the next: rows from elsewhere may stand anywhere among all numbers.
  for (
    let from = await nextId(ask, Number.MIN_SAFE_INTEGER);
    from !== null;
    from = await nextId(ask, from + SPAN_JOBS)
  ) {
    for (const [rule, broken] of found) {
      if (broken.length > NAMED) continue;
      const rows = await ask(`${rule.find} LIMIT ${NAMED + 1}`, [from, from + SPAN_JOBS - 1]);
      broken.push(...rows.map((row) => ({ job: Number(row["job"]), text: rule.says(row) })));
    }
  }
  return [
    ...[...found].map(([rule, broken]) => answer(rule, broken)),
    answer(RECOVERED, await recoveredEarly(ask)),
    answer(TIMES, await firedTwice(ask)),
    answer(HELD, await heldTwice(ask)),
    answer(LIMITS, await beyondLimits(ask)),
  ];
}

const NEXT_ID = `SELECT min(id) AS id FROM (${[
  ["jobs", "id"],
  ...OWNED.map((table) => [table, "job_id"]),
  ["dependencies", "parent_id"],
]
  .map(([table, column]) => `SELECT min(${column}) AS id FROM lease.${table} WHERE ${column} >= $1`)
  .join(" UNION ALL ")}) AS ids`;

/** Null: there is none from there on. */
async function nextId(ask: Ask, from: number): Promise<number | null> {
  if (!Number.isSafeInteger(from)) return null;
  const [row] = await ask(NEXT_ID, [from]);
  return row?.["id"] === null || row === undefined ? null : Number(row["id"]);
}

function answer({ name, promise, caveat, explained_by }: Omit<Audited, "broken" | "more">, broken: Broken[]): Audited {
  const more = broken.length > NAMED;
  return { name, promise, caveat, explained_by, broken: broken.slice(0, NAMED), more };
}

const RECOVERED = { name: "recovery", promise: "a lease is taken for expired only after its end", caveat: CLOCK };
const PAGE = 1_000;

/** What an error checkpoint says is JSON, which the engines read differently, and which may be damaged. */
async function recoveredEarly(ask: Ask): Promise<Broken[]> {
  const broken: Broken[] = [];
  for (let behind = 0, rows: SqlRow[] = []; behind === 0 || rows.length === PAGE;) {
    rows = await ask(
      `SELECT id, job_id, token, at_ms, text FROM lease.checkpoints WHERE kind = 'error'
      AND id > $1 AND text LIKE '{"cause":"expired"%' ORDER BY id LIMIT ${PAGE}`,
      [behind],
    );
    for (const row of rows) {
      const early_ms = expiry(String(row["text"])) - Number(row["at_ms"]);
      if (!(early_ms > 0)) continue;
      broken.push({
        job: Number(row["job_id"]),
        text: `attempt ${row["token"]} was recovered ${early_ms} ms before its lease ended`,
      });
    }
    behind = Number(rows.at(-1)?.["id"] ?? -1);
    if (broken.length > NAMED) break;
  }
  return broken;
}

/** Not a number where nothing is said, it can't be read, or the holder itself did not wait for it. */
function expiry(text: string): number {
  try {
    const { expires_at_ms, error } = JSON.parse(text) as { expires_at_ms?: unknown; error?: unknown };
    return String(error).startsWith(GIVEN_UP) ? Number.NaN : Number(expires_at_ms ?? Number.NaN);
  } catch {
    return Number.NaN;
  }
}

const TIMES = { name: "schedules", promise: "each time of a schedule is a job of its own" };

async function firedTwice(ask: Ask): Promise<Broken[]> {
  const rows = await ask(`SELECT job_id AS job, count(*) AS times FROM lease.fired WHERE job_id IS NOT NULL
    GROUP BY job_id HAVING count(*) > 1 LIMIT ${NAMED + 1}`);
  return rows.map(({ job, times }) => ({ job: Number(job), text: `it stands for ${times} times of its schedule` }));
}

const HELD = { name: "resources", promise: "no two running jobs of a machine hold the same id" };

async function heldTwice(ask: Ask): Promise<Broken[]> {
  const rows = await ask(`SELECT jobs.id AS job, jobs.held, a.host FROM lease.jobs AS jobs
    JOIN lease.attempts AS a ON a.job_id = jobs.id AND a.attempt = jobs.token
    WHERE jobs.state = 'running' AND jobs.gate <> '' ORDER BY jobs.id`);
  const holders = new Map<string, number>();
  const broken: Broken[] = [];
  for (const { job, held, host } of rows) {
    for (const [name, given] of Object.entries(toHeld(held as string | null))) {
      for (const id of typeof given === "number" ? [] : given) {
        const first = holders.get(`${host}\0${name}\0${id}`);
        if (first === undefined) holders.set(`${host}\0${name}\0${id}`, Number(job));
        else broken.push({ job: Number(job), text: `it holds ${name} ${id} of ${String(host)}, as does job ${first}` });
      }
    }
  }
  return broken;
}

const LIMITS = {
  name: "limits",
  promise: "no more run, or start in time, than a limit allows",
  explained_by: "somebody lowered the limit since",
};

async function beyondLimits(ask: Ask): Promise<Broken[]> {
  const limits = (await ask("SELECT name, most, rate_count, rate_ms FROM lease.limits ORDER BY name")).map(toLimit);
  const running = await ask(
    "SELECT queue, gate, count(*) AS count FROM lease.jobs WHERE state = 'running' GROUP BY queue, gate",
  );
  const broken: Broken[] = [];
  for (const { name, most, rate } of limits) {
    const counted = running.filter(({ queue, gate }) =>
      limitsOf(String(queue), readGate(String(gate)) ?? OPEN_GATE).includes(name),
    );
    const count = counted.reduce((sum, row) => sum + Number(row["count"]), 0);
    if (most !== null && count > most)
      broken.push({ job: null, text: `limit ${name}: ${count} run, and it allows ${most}` });
    if (rate === null) continue;
    const [close] = await ask(
      `SELECT job_id AS job, at_ms - before_ms AS apart_ms FROM (
        SELECT job_id, at_ms, lag(at_ms, ${rate.count}) OVER (ORDER BY at_ms, job_id, attempt) AS before_ms
        FROM lease.starts WHERE name = $1) AS s WHERE at_ms - before_ms < $2 LIMIT 1`,
      [name, rate.per_ms],
    );
    if (close === undefined) continue;
    const text = `limit ${name}: ${rate.count + 1} started within ${close["apart_ms"]} ms, and it allows ${rate.count} in ${rate.per_ms}`;
    broken.push({ job: Number(close["job"]), text });
  }
  return broken;
}
