/** Limits: who set them, what is in use of them, and how much room that leaves. Asked inside the write that grants. */

import type { Limit, LimitSettings, LimitUse } from "../../core/gate.ts";
import type { Holding, Resources } from "../../core/resources.ts";
import type { SqlRow } from "../../platform/platform.ts";
import { Room, limitUse, toHeld, toLimit, type GateCount } from "../shared/room.ts";
import type { Acquirer } from "../store.ts";
import type { Database } from "./open.ts";

const LIMITS = "SELECT name, most, rate_count, rate_ms FROM limits ORDER BY name";
const SET_LIMIT = `INSERT INTO limits (name, most, rate_count, rate_ms) VALUES (?1, ?2, ?3, ?4)
  ON CONFLICT (name) DO UPDATE SET most = ?2, rate_count = ?3, rate_ms = ?4`;
const DROP_LIMIT = "DELETE FROM limits WHERE name = ?1";
const DROP_STARTS = "DELETE FROM starts WHERE name = ?1";

const LIMIT = "SELECT name, most, rate_count, rate_ms FROM limits WHERE name = ?1";
const ANY_LIMIT = "SELECT 1 AS found FROM limits LIMIT 1";
const ANY_GATE = "SELECT 1 AS found FROM jobs WHERE state = 'pending' AND gate <> '' LIMIT 1";

/** As few as there are slots, out of the index alone. */
const RUNNING = `SELECT queue, gate, count(*) AS count FROM jobs INDEXED BY jobs_expiry
  WHERE state = 'running' GROUP BY queue, gate`;
const HELD = `SELECT jobs.id AS job, jobs.held, granted.host FROM jobs INDEXED BY jobs_expiry
  JOIN attempts AS granted ON granted.job_id = jobs.id AND granted.attempt = jobs.token
  WHERE jobs.state = 'running' AND jobs.gate <> ''`;

const STARTED = "SELECT count(*) AS count FROM starts WHERE name = ?1 AND at_ms > ?2";
const NEXT_START = "SELECT at_ms FROM starts WHERE name = ?1 AND at_ms > ?2 ORDER BY at_ms LIMIT 1 OFFSET ?3";
const ADD_START = "INSERT OR IGNORE INTO starts (name, at_ms, job_id, attempt) VALUES (?1, ?2, ?3, ?4)";
const FORGET_STARTS = "DELETE FROM starts WHERE name = ?1 AND at_ms <= ?2";

const WAITING = `SELECT queue, gate, count(*) AS count FROM jobs INDEXED BY jobs_gates
    WHERE state = 'pending' AND gate <> '' GROUP BY queue, gate
  UNION ALL SELECT name, '', (SELECT count(*) FROM jobs WHERE state = 'pending' AND queue = limits.name AND gate = '')
    FROM limits`;

export function setLimit(db: Database, name: string, limit: LimitSettings | null): boolean {
  if (limit !== null) {
    db.sql(SET_LIMIT).run(name, limit.most, limit.rate?.count ?? null, limit.rate?.per_ms ?? null);
    return true;
  }
  db.sql(DROP_STARTS).run(name);
  return db.sql(DROP_LIMIT).run(name).changes > 0;
}

function limitRows(db: Database): Limit[] {
  return db.sql(LIMITS).all().map(toLimit);
}

export function limits(db: Database): LimitUse[] {
  const all = limitRows(db);
  if (all.length === 0) return [];
  const now_ms = db.now_ms();
  const running = db.sql(RUNNING).all() as unknown as GateCount[];
  const waiting = db.sql(WAITING).all() as unknown as GateCount[];
  return all.map((limit) => limitUse(limit, running, waiting, starts(db, limit, now_ms)));
}

/** What running attempts were given. */
export function holdings(db: Database): Holding[] {
  const rows = db.sql(HELD).all();
  return rows.map((row) => ({ job: row["job"] as number, host: row["host"] as string, held: toHeld(row["held"]) }));
}

function starts(db: Database, { name, rate }: Limit, now_ms: number) {
  if (rate === null) return { started: 0, next_start_at_ms: null };
  const since_ms = now_ms - rate.per_ms;
  const started = db.sql(STARTED).get(name, since_ms)?.["count"] as number;
  const next = started < rate.count ? null : db.sql(NEXT_START).get(name, since_ms, started - rate.count);
  return { started, next_start_at_ms: next === null ? null : (next["at_ms"] as number) + rate.per_ms };
}

/** When a rate that is used up lets the next job start; null: none is. */
export function nextStart(db: Database): number | null {
  const rated = limitRows(db).filter(({ rate }) => rate !== null);
  const times = rated.flatMap((limit) => starts(db, limit, db.now_ms()).next_start_at_ms ?? []);
  return times.length === 0 ? null : Math.min(...times);
}

/** What bounds jobs now, looked up as it is asked for: there may be thousands of limits and few that matter. */
export interface Bounds {
  room: Room;
  limit: (name: string) => Limit | null;
  /** The most gates at which limits can be used up by what runs. */
  taken: number;
}

/** Null: nothing that waits is bounded, and nothing bounds a queue. */
export function boundsNow(db: Database, { host, have = {} }: Acquirer, now_ms: number): Bounds | null {
  if (db.sql(ANY_GATE).get() === null && db.sql(ANY_LIMIT).get() === null) return null;
  const running = db.sql(RUNNING).all() as unknown as GateCount[];
  const held: Resources[] = [];
  if (Object.keys(have).length > 0) for (const one of holdings(db)) if (one.host === host) held.push(one.held);
  const known = new Map<string, Limit | null>();
  const limit = (name: string) => {
    let found = known.get(name);
    if (found === undefined) {
      const row = db.sql(LIMIT).get(name);
      known.set(name, (found = row === null ? null : toLimit(row)));
    }
    return found;
  };
  const limitNow = (name: string) => {
    const found = limit(name);
    if (found === null || found.rate === null) return found === null ? null : { ...found, started: 0 };
    const started = db.sql(STARTED).get(name, now_ms - found.rate.per_ms)?.["count"] as number;
    return { ...found, started };
  };
  return { room: new Room({ limit: limitNow, running, held }, have), limit, taken: running.length };
}

/** For those limits of a job that have a rate; what they count no more is forgotten. */
export function noteStart(
  db: Database,
  names: readonly string[],
  { limit }: Bounds,
  row: SqlRow,
  now_ms: number,
): void {
  for (const name of names) {
    const per_ms = limit(name)?.rate?.per_ms;
    if (per_ms === undefined) continue;
    db.sql(ADD_START).run(name, now_ms, row["id"] as number, row["token"] as number);
    db.sql(FORGET_STARTS).run(name, now_ms - per_ms);
  }
}
