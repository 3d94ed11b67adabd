/**
 * A store's own history, held against what the design promises: of each job (promises.ts), and here of what only many jobs
 * show together, or what is told as JSON. Both engines answer the same text (`lease.` stands before the names of tables).
 *
 * Jobs are asked about in spans of their ids: the price in memory and the time of one answer don't grow with the store.
 * Every answer is one statement, so that it sees one moment, also of a store that is in use.
 */

import { OPEN_GATE, limitsOf, readGate } from "../../core/gate.ts";
import type { JobSettings } from "../../core/job.ts";
import { sizeOf } from "../../core/resources.ts";
import { GIVEN_UP } from "../../core/transition.ts";
import type { SqlRow, SqlValue } from "../../platform/platform.ts";
import type { Audited, Broken } from "../queries.ts";
import { CLOCK_SET_BACK, fromJson } from "./facts.ts";
import { CLOCK_CAVEAT, JOB_PROMISES, OWNED_TABLES, UNCOUNTED, type JobPromise } from "./promises.ts";
import { toHeld, toLimit } from "./room.ts";
import { SETTINGS } from "./settings.ts";

export type Ask = (sql: string, params?: readonly SqlValue[]) => Promise<SqlRow[]>;

const SPAN_JOBS = 20_000;
/** Of each rule so many are named. */
const NAMED = 100;

/** Everything that a store's history shows against the promises, and against an engine's `own`; one answer per promise. */
export async function findBreaches(ask: Ask, own: readonly JobPromise[] = []): Promise<Audited[]> {
  const found = new Map([...JOB_PROMISES, ...own].map((rule) => [rule, [] as Broken[]]));
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
  const answers = [
    ...[...found].map(([rule, broken]) => answer(rule, broken)),
    answer(RECOVERED, await recoveredEarly(ask)),
    answer(HOOKS, await hookedTwice(ask)),
    answer(TIMES, await firedTwice(ask)),
    answer(HELD, await heldTwice(ask)),
    answer(LIMITS, await beyondLimits(ask)),
  ];
  return inDoubt(ask, answers);
}

/** Where somebody has noticed that the clock was set back, what times show of jobs of before is worth a look, and no more. */
async function inDoubt(ask: Ask, answers: readonly Audited[]): Promise<Audited[]> {
  const [row] = await ask("SELECT value FROM lease.meta WHERE name = 'clock_set_back'");
  const noted = fromJson(CLOCK_SET_BACK, row?.["value"]);
  if (noted === null) return [...answers];
  const { at_ms, by_ms, until_ms } = noted;
  const how = `by ${by_ms} ms, noticed ${new Date(at_ms).toISOString()}`;
  const doubted: Audited[] = [];
  for (const one of answers) {
    const ids = one.caveat === CLOCK_CAVEAT ? one.broken.map(({ job }) => job).join(", ") : "";
    if (ids === "") {
      doubted.push(one);
      continue;
    }
    const later = await ask(`SELECT id FROM lease.jobs WHERE id IN (${ids}) AND created_at_ms > $1`, [until_ms]);
    const certain = new Set(later.map(({ id }) => Number(id)));
    const [sure, old] = [true, false].map((is) =>
      one.broken.filter(({ job }) => certain.has(job ?? Number.NaN) === is),
    );
    const explained_by = `it comes from the clock, which was set back (${how})`;
    if (sure?.length) doubted.push({ ...one, broken: sure });
    if (old?.length) doubted.push({ ...one, broken: old, explained_by });
  }
  return doubted;
}

const NEXT_ID = `SELECT min(id) AS id FROM (${[
  ["jobs", "id"],
  ...OWNED_TABLES.map((table) => [table, "job_id"]),
  ["dependencies", "parent_id"],
  ["freeing", "parent_id"],
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

const RECOVERED = {
  name: "recovery",
  promise: "a lease is taken for expired only after its end",
  caveat: CLOCK_CAVEAT,
};
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

const HOOKS = {
  name: "hooks",
  promise: "an attempt by which a job failed for good has one hook, and no other has any",
};

/** What a hook is about is JSON too. */
async function hookedTwice(ask: Ask): Promise<Broken[]> {
  const doubles = await ask(`SELECT min(id) AS job, count(*) AS hooks FROM lease.jobs
    WHERE settings LIKE '%"hook":{"job":%' GROUP BY settings HAVING count(*) > 1 LIMIT ${NAMED + 1}`);
  const broken: Broken[] = doubles.map(({ job, hooks }) => ({
    job: Number(job),
    text: `there are ${hooks} hooks of one attempt`,
  }));
  for (let behind = 0, rows: SqlRow[] = []; behind === 0 || rows.length === PAGE;) {
    rows = await ask(
      `SELECT id, settings FROM lease.jobs WHERE settings LIKE '%"hook":{"job":%' AND id > $1 ORDER BY id LIMIT ${PAGE}`,
      [behind],
    );
    broken.push(...(await hooksOfNothing(ask, rows)));
    behind = Number(rows.at(-1)?.["id"] ?? -1);
    if (broken.length > NAMED) break;
  }
  return broken;
}

/** Of these hooks, those about an attempt that never was, or did not fail; a job that was pruned says nothing about its own. */
async function hooksOfNothing(ask: Ask, rows: readonly SqlRow[]): Promise<Broken[]> {
  const hooks = rows.flatMap(({ id, settings }) => {
    const about = (fromJson(SETTINGS, settings) as { hook?: JobSettings["hook"] } | null)?.hook ?? null;
    return about === null ? [] : [{ id: Number(id), ...about }];
  });
  if (hooks.length === 0) return [];
  const ids = [...new Set(hooks.map(({ job }) => job))].join(", ");
  const found = await ask(`SELECT jobs.id, a.attempt FROM lease.jobs AS jobs LEFT JOIN lease.attempts AS a
    ON a.job_id = jobs.id AND a.cause NOT IN ${UNCOUNTED} WHERE jobs.id IN (${ids})`);
  const there = new Set(found.map(({ id }) => Number(id)));
  const failed = new Set(found.map(({ id, attempt }) => `${id} ${attempt}`));
  const wrong = hooks.filter(({ job, attempt }) => there.has(job) && !failed.has(`${job} ${attempt}`));
  return wrong.map(({ id, job, attempt }) => ({
    job: id,
    text: `it is the hook of attempt ${attempt} of job ${job}, which did not fail`,
  }));
}

const TIMES = { name: "schedules", promise: "each time of a schedule is a job of its own" };

async function firedTwice(ask: Ask): Promise<Broken[]> {
  // One with a key may answer for several, as for anybody who enqueues.
  const rows = await ask(`SELECT job_id AS job, count(*) AS times FROM lease.fired
    JOIN lease.jobs ON jobs.id = fired.job_id WHERE jobs.key IS NULL
    GROUP BY job_id HAVING count(*) > 1 LIMIT ${NAMED + 1}`);
  return rows.map(({ job, times }) => ({ job: Number(job), text: `it stands for ${times} times of its schedule` }));
}

const HELD = {
  name: "resources",
  promise: "no two running jobs of a machine hold the same id, nor all together more than it has",
};

async function heldTwice(ask: Ask): Promise<Broken[]> {
  const rows = await ask(`SELECT jobs.id AS job, jobs.held, a.host, w.have FROM lease.jobs AS jobs
    JOIN lease.attempts AS a ON a.job_id = jobs.id AND a.attempt = jobs.token
    LEFT JOIN lease.workers AS w ON w.id = a.worker
    WHERE jobs.state = 'running' AND jobs.gate <> '' ORDER BY jobs.id`);
  const holders = new Map<string, number>();
  const uses = new Map<string, { what: string; taken: number; has: number }>();
  const broken: Broken[] = [];
  for (const { job, held, host, have } of rows) {
    const of_worker = toHeld(have);
    for (const [name, given] of Object.entries(toHeld(held))) {
      const place = `${host}\0${name}`;
      const use = uses.get(place) ?? { what: `${name} of ${String(host)}`, taken: 0, has: 0 };
      // Whoever was last to be granted one had room for all; what a holder has that did not register is not known.
      const has = of_worker[name] === undefined ? Infinity : sizeOf(of_worker[name]);
      uses.set(place, { ...use, taken: use.taken + sizeOf(given), has: Math.max(use.has, has) });
      for (const id of typeof given === "number" ? [] : given) {
        const first = holders.get(`${place}\0${id}`);
        if (first === undefined) holders.set(`${place}\0${id}`, Number(job));
        else broken.push({ job: Number(job), text: `it holds ${name} ${id} of ${String(host)}, as does job ${first}` });
      }
    }
  }
  const over = [...uses.values()].filter(({ taken, has }) => taken > has);
  return [
    ...broken,
    ...over.map(({ what, taken, has }) => ({ job: null, text: `${taken} of ${has} ${what} are held` })),
  ];
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
