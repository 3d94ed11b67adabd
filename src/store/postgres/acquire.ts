/** Grants: whose turn it is, and what they get. */

import * as v from "valibot";
import { limitsOf, OPEN_GATE, readGate, type Limit } from "../../core/gate.ts";
import { once } from "../../core/once.ts";
import type { SqlRow } from "../../platform/platform.ts";
import { Room, pickInTurn, toHeld, toLimit, type GateCount, type Picked, type Waiting } from "../shared/room.ts";
import { toJob, toProcess } from "../shared/rows.ts";
import { byTurn, setAside } from "../shared/verdicts.ts";
import type { AcquireRequest, Grant, SettleRequest } from "../store.ts";
import { FULL, GATES, isOpenGate, namesIn, needsNothing } from "./limits.ts";
import { isPaused } from "./pause.ts";
import { byId, perRow } from "./session/arrays.ts";
import type { Connection, Param } from "./session/session.ts";
import { UNIQUE_VIOLATION, codeOf } from "./failure.ts";
import { grantedOf, reopening } from "./session/granted.ts";
import { CLOCK, COMMAND_KINDS, SQL, TURNS, WITHOUT_COMMAND, readyQueues } from "./statements.ts";

/** Due jobs that are promoted in one commit: few enough that a beat never waits long behind it. */
export const PROMOTE_LIMIT = 5_000;

export async function promote(db: Connection): Promise<number> {
  return (await db.query(SQL.promote, [PROMOTE_LIMIT])).length;
}

export async function promoteAll(db: Connection): Promise<number> {
  for (let total = 0; ;) {
    const count = await promote(db);
    total += count;
    if (count < PROMOTE_LIMIT) return total;
  }
}

export interface Acquired {
  grants: Grant[];
  /** The ends of those that were granted and turned out to be damaged; they are written by whoever asked. */
  damaged: SettleRequest[];
}

interface More {
  /** Names this call, so that one whose answer was lost can be told again. */
  number: number;
  due_first: boolean;
  again: boolean;
}

/**
 * `due`: jobs have to be promoted first, only then is it known whose turn it is. `bounded`: a job that a limit or a
 * need bounds may be next, which takes `acquireBounded`.
 */
export async function acquire(
  db: Connection,
  request: AcquireRequest,
  more: More,
): Promise<Acquired | "due" | "bounded"> {
  if (more.again) {
    const given = await db.query(SQL.acquired, [request.holder, more.number]);
    const acquired = await toGrants(db, given, request);
    if (acquired.grants.length + acquired.damaged.length > 0) return acquired;
  }
  const [statement, own] = variant(request);
  const params = [...paramsOf(request, more), ...own];
  const rows = await db.query(statement, params).catch((error: unknown) => {
    if (codeOf(error) !== UNIQUE_VIOLATION || statement === SQL.acquireOne) throw error;
    return db.query(reopening(statement), params);
  });
  const instead = rows[0]?.["instead"];
  return instead === "due" || instead === "bounded" ? instead : toGrants(db, rows, request);
}

/** In a transaction, whose locks keep every limit; jobs that nothing bounds have their turn among the others. */
export async function acquireBounded(db: Connection, request: AcquireRequest, more: More): Promise<Acquired> {
  if (more.again) {
    const given = await toGrants(db, await db.query(SQL.acquired, [request.holder, more.number]), request);
    if (given.grants.length + given.damaged.length > 0) return given;
  }
  const picks = await pickBounded(db, request);
  if (picks.length === 0) return { grants: [], damaged: [] };
  const params = [...paramsOf(request, { ...more, due_first: false }), ...pickedParams(picks)];
  const rows = grantedOf(await db.query(SQL.acquirePicked, params), request.holder);
  await noteStarts(db, picks, rows);
  return toGrants(db, rows, request);
}

/** What the machine has by name, as the text of a gate has it. */
const haveOf = ({ have = {} }: AcquireRequest) => Object.keys(have).map((name) => `%["${name}",%`);

function paramsOf(request: AcquireRequest, { number, due_first }: More): Param[] {
  const { holder, host, lease_ms, count } = request;
  return [holder, host, lease_ms, count, number, due_first, haveOf(request)];
}

function variant(request: AcquireRequest): [statement: string, params: Param[]] {
  const { job, queues, task, commands_only = false } = request;
  const turns = commands_only ? TURNS.commands : TURNS.all;
  if (job !== undefined) return [SQL.acquireOne, [job]];
  if (queues === null) return task === null ? [turns.all, []] : [turns.allTask, [task]];
  // A queue that is named twice has only one turn.
  const names = [...new Set(queues)];
  return task === null ? [turns.named, [names]] : [turns.namedTask, [names, task]];
}

async function toGrants(db: Connection, rows: readonly SqlRow[], request: AcquireRequest): Promise<Acquired> {
  const { queues, holder, host } = request;
  const turn = (row: SqlRow) => (queues === null ? 0 : queues.indexOf(row["queue"] as string));
  const granted = grantedOf(rows, holder).toSorted((a, b) => turn(a) - turn(b) || byTurn(a, b));
  const again = granted.filter(({ token }) => (token as number) > 1);
  const before = byId(again.length === 0 ? [] : await SQL.earlier.run(db, again, host));
  const grants: Grant[] = [];
  const damaged: SettleRequest[] = [];
  for (const row of granted) {
    const [granted_at_ms, expires_at_ms] = [row["started_at_ms"] as number, row["expires_at_ms"] as number];
    const job = toJob(row);
    const known = before.get(job.id);
    const checkpoint = (known?.["checkpoint"] ?? null) as string | null;
    const previous = known === undefined ? null : toProcess(known);
    if (job.damaged !== undefined) damaged.push(setAside(job, granted_at_ms));
    else {
      const [lease_ms, held] = [expires_at_ms - granted_at_ms, toHeld(row["held"])];
      grants.push({ job, lease_ms, expires_at_ms, checkpoint, previous, held });
    }
  }
  return { grants, damaged };
}

// ── What is bounded ────────────────────────────────────────────────────────────────────────────────────────────────

/** Beside those that are wanted, so many gates that are open are looked at. */
const MORE_GATES = 32;

/** The first of a line. */
const placeOf = (
  queue: string,
  gate: string,
  kind: string,
  most: string,
) => `SELECT id, queue, gate, priority, run_at_ms
      FROM lease.jobs WHERE state = 'pending' AND jobs.queue = ${queue} AND jobs.gate = ${gate} AND ${WITHOUT_COMMAND} = ${kind}
        AND ($4::text IS NULL OR task = $4::text)
      ORDER BY priority DESC, run_at_ms, id LIMIT ${most}`;

/**
 * All that decides whose turn it is, as JSON. $1 host, $2 count, $3 queues (null: all), $4 task (null: any), $5 the one
 * job (null: any), $6 whether jobs without a command count.
 */
const BOUNDS = `WITH RECURSIVE ${CLOCK}, ${GATES}, ${FULL}, ${readyQueues("")}, head AS MATERIALIZED (
    SELECT place.*, kind.n AS kind, place.queue NOT IN (SELECT f.name FROM full_limits AS f)
      AND ${isOpenGate("place.gate")} AS open FROM (
      SELECT name FROM unnest($3::text[]) AS asked (name)
      UNION SELECT name FROM ready WHERE $3::text[] IS NULL AND name IS NOT NULL
    ) AS queue CROSS JOIN (SELECT name FROM gates WHERE name IS NOT NULL UNION ALL SELECT '') AS gate
    CROSS JOIN (SELECT n FROM (${COMMAND_KINDS.all}) AS kinds (n) WHERE n = 0 OR $6::boolean) AS kind
    CROSS JOIN LATERAL (${placeOf("queue.name", "gate.name", "kind.n", "1")}) AS place
    WHERE $5::bigint IS NULL AND NOT ${isPaused("queue.name")}
  ), chosen AS (
    -- Of very many that are open no more than may be granted; the others are as few as what runs.
    (SELECT * FROM head WHERE open AND ${needsNothing("gate")}
      ORDER BY array_position($3::text[], queue), priority DESC, run_at_ms, id LIMIT $2 + ${MORE_GATES})
    UNION ALL SELECT * FROM head WHERE NOT open OR NOT ${needsNothing("gate")}
  ), line AS MATERIALIZED (
    SELECT place.* FROM chosen CROSS JOIN LATERAL (
      ${placeOf("chosen.queue", "chosen.gate", "chosen.kind", "CASE WHEN chosen.open THEN $2 ELSE 1 END")}) AS place
    UNION ALL SELECT id, queue, gate, priority, run_at_ms FROM lease.jobs WHERE id = $5::bigint AND state = 'pending'
  ), names AS (SELECT queue AS name FROM line UNION SELECT named.name FROM line CROSS JOIN LATERAL (
    ${namesIn("line.gate")}) AS named (name)
  ) SELECT clock.ms AS now_ms,
    (SELECT json_agg(line) FROM line)::text AS lines,
    (SELECT json_agg(l) FROM (SELECT limits.*, (SELECT count(*) FROM lease.starts
        WHERE starts.name = limits.name AND at_ms > clock.ms - rate_ms) AS started
      FROM names JOIN lease.limits USING (name)) AS l)::text AS limits,
    (SELECT json_agg(r) FROM (SELECT queue, gate, count(*) AS count FROM lease.jobs WHERE state = 'running'
        GROUP BY queue, gate) AS r)::text AS running,
    (SELECT json_agg(jobs.held) FROM lease.jobs JOIN lease.attempts ON job_id = id AND attempt = token
      WHERE state = 'running' AND gate <> '' AND host = $1)::text AS held
  FROM clock`;

const LOCK_LIMITS = 'SELECT 1 FROM lease.limits WHERE name = ANY ($1::text[]) ORDER BY name COLLATE "C" FOR UPDATE';
const LOCK_HOST = "SELECT pg_advisory_xact_lock(hashtextextended('lease host ' || $1, 0))";
const ADD_STARTS = perRow`INSERT INTO lease.starts (name, at_ms, job_id, attempt)
  SELECT name, at_ms, id, token FROM ${{ name: "text", at_ms: "bigint", id: "bigint", token: "integer" }}
  ON CONFLICT DO NOTHING`;
const FORGET_STARTS = `DELETE FROM lease.starts USING lease.limits
  WHERE starts.name = limits.name AND limits.name = ANY ($1::text[]) AND at_ms <= lease.now_ms() - rate_ms`;

const RATED = "SELECT name FROM lease.limits WHERE rate_ms IS NOT NULL AND name = ANY ($1::text[])";

interface Bounds {
  now_ms: number;
  lines: readonly Waiting[];
  limits: readonly Limit[];
  room: Room;
}

const LIST = once(() => v.nullable(v.array(v.unknown())));

function listOf<T>(json: unknown): T[] {
  const parsed = v.safeParse(v.pipe(v.string(), v.parseJson(), LIST()), json);
  return (parsed.success ? (parsed.output ?? []) : []) as T[];
}

async function boundsNow(db: Connection, request: AcquireRequest): Promise<Bounds> {
  const { host, count, queues, task, job = null, have = {}, commands_only = false } = request;
  const names = queues === null ? null : [...new Set(queues)];
  const [row] = await db.query(BOUNDS, [host, count, names, task, job, !commands_only]);
  const rows = listOf<SqlRow>(row?.["limits"]);
  const all = rows.map(toLimit);
  const known = new Map(rows.map((one) => [one["name"], { ...toLimit(one), started: one["started"] as number }]));
  const facts = {
    limit: (name: string) => known.get(name) ?? null,
    running: listOf<GateCount>(row?.["running"]),
    held: listOf<string | null>(row?.["held"]).map(toHeld),
  };
  const lines = listOf<Waiting>(row?.["lines"]);
  return { now_ms: row?.["now_ms"] as number, lines, limits: all, room: new Room(facts, have) };
}

const namesOf = ({ queue, gate }: Pick<Waiting, "queue" | "gate">) => limitsOf(queue, readGate(gate) ?? OPEN_GATE);

/** Whose turn it is, the bounded among them, with what they are given. Its locks are held until the transaction ends. */
async function pickBounded(db: Connection, request: AcquireRequest): Promise<Picked[]> {
  const seen = await boundsNow(db, request);
  const pick = ({ lines, room, now_ms }: Bounds) => {
    const { count, at_once = count, queues } = request;
    const named = request.job === undefined ? queues : null;
    return pickInTurn(lines, room, { count, at_once, queues: named, now_ms });
  };
  const open = seen.lines.filter(({ queue, gate }) => seen.room.isOpen(queue, gate));
  if (open.length === 0) return [];
  const names = new Set(open.flatMap(namesOf));
  await db.query(LOCK_LIMITS, [[...names]]);
  if (Object.keys(request.have ?? {}).length > 0) await db.query(LOCK_HOST, [request.host]);
  // Counted again, now that nobody else can take what is counted. What came in between and is not locked waits.
  const now = await boundsNow(db, request);
  const unlocked = new Set(now.limits.map(({ name }) => name).filter((name) => !names.has(name)));
  return pick(now).filter((picked) => !namesOf(picked).some((name) => unlocked.has(name)));
}

/** The parameters of SQL.acquirePicked behind those that all acquires have. */
function pickedParams(picks: readonly Picked[]): Param[] {
  return [picks.map(({ id }) => id), picks.map(({ gate, held }) => (gate === "" ? null : JSON.stringify(held)))];
}

/** For those limits of granted jobs that have a rate; what they count no more is forgotten. */
async function noteStarts(db: Connection, picks: readonly Picked[], granted: readonly SqlRow[]): Promise<void> {
  const rated = await db.query(RATED, [[...new Set(picks.flatMap(namesOf))]]);
  if (rated.length === 0) return;
  const has_rate = new Set(rated.map(({ name }) => name as string));
  const rows = new Map(granted.map((row) => [row["id"] as number, row]));
  const starts = picks.flatMap((picked) => {
    const row = rows.get(picked.id);
    if (row === undefined) return [];
    const [at_ms, id, token] = [row["started_at_ms"], row["id"], row["token"]] as number[];
    return namesOf(picked)
      .filter((name) => has_rate.has(name))
      .map((name) => ({ name, at_ms: at_ms as number, id: id as number, token: token as number }));
  });
  if (starts.length === 0) return;
  await ADD_STARTS.run(db, starts);
  await db.query(FORGET_STARTS, [[...new Set(starts.map(({ name }) => name))]]);
}
