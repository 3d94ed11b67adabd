/**
 * What is remembered about beginnings and ends. It is noted while a commit is put together and written with it, one
 * row for all jobs of a queue: so it is as right as the jobs are, and a commit of a hundred costs no more than one of
 * one.
 */

import {
  HOUR_MS,
  HOURS_KEPT_MS,
  MINUTES_KEPT_MS,
  MINUTE_MS,
  CLASS_BOUNDS_MS,
  elapsed,
  sizeClass,
  startOf,
} from "../../core/history.ts";
import type { HistoryPoint, QueueTotal } from "../../core/history.ts";
import { isFinished } from "../../core/job.ts";
import type { HistoryQuery } from "../queries.ts";
import { bounded } from "../shared/columns.ts";
import { FIGURES, FIGURE_COLUMNS, added, aggregated, emptyPoint, toPoint, toTotal } from "../shared/history.ts";
import type { SettleRequest } from "../store.ts";
import type { Database } from "./open.ts";

/** Durations, each size class with how many and their sum. */
interface Sizes {
  counts: number[];
  sums_ms: number[];
}

/** What a commit adds about one queue in one minute. Plain numbers: each job of a commit is added to them. */
interface MinuteNotes {
  point: HistoryPoint;
  waits: Sizes;
  runs: Sizes;
  ends: Map<string, { count: number; sum_ms: number }>;
}

export class Noted {
  readonly #minutes = new Map<string, MinuteNotes>();
  #last: MinuteNotes | null = null;

  forget(): void {
    if (this.#last === null) return;
    this.#minutes.clear();
    this.#last = null;
  }

  all(): Iterable<MinuteNotes> {
    return this.#minutes.values();
  }

  /** Most jobs of a commit are of one queue. */
  of(queue: string, now_ms: number): MinuteNotes {
    const at_ms = startOf(now_ms, MINUTE_MS);
    const last = this.#last;
    if (last !== null && last.point.at_ms === at_ms && last.point.queue === queue) return last;
    const key = `${at_ms} ${queue}`;
    const known = this.#minutes.get(key) ?? noNotes(at_ms, queue);
    this.#minutes.set(key, known);
    return (this.#last = known);
  }
}

function noNotes(at_ms: number, queue: string): MinuteNotes {
  const sizes = (): Sizes => ({ counts: CLASSES.map(() => 0), sums_ms: CLASSES.map(() => 0) });
  return { point: emptyPoint(at_ms, queue), waits: sizes(), runs: sizes(), ends: new Map() };
}

const CLASSES = [...CLASS_BOUNDS_MS.keys(), CLASS_BOUNDS_MS.length];

function addSize({ counts, sums_ms }: Sizes, duration_ms: number): void {
  const size = sizeClass(duration_ms);
  counts[size] = (counts[size] ?? 0) + 1;
  sums_ms[size] = (sums_ms[size] ?? 0) + duration_ms;
}

/** Of an attempt that was ended now. `recovered`: by a sweep. */
export function noteEnd(
  { noted }: Database,
  { token, change }: SettleRequest,
  now_ms: number,
  recovered = false,
): void {
  const { state, before } = change;
  const started_at_ms = before.started_at_ms ?? now_ms;
  const run_ms = elapsed(started_at_ms, now_ms);
  const { point, waits, runs, ends } = noted.of(before.queue, now_ms);
  if (isFinished(state)) point[state.name] += 1;
  else point.retried += 1;
  if (recovered) point.recovered += 1;
  point.ended += 1;
  point.run_ms += run_ms;
  if (run_ms > point.run_max_ms) point.run_max_ms = run_ms;
  addSize(runs, run_ms);
  const end = ends.get(change.ended.cause);
  if (end === undefined) ends.set(change.ended.cause, { count: 1, sum_ms: run_ms });
  else {
    end.count += 1;
    end.sum_ms += run_ms;
  }
  if (token === 1) noteWait(point, waits, elapsed(before.run_at_ms, started_at_ms));
}

function noteWait(point: HistoryPoint, waits: Sizes, wait_ms: number): void {
  point.first_ended += 1;
  point.wait_ms += wait_ms;
  if (wait_ms > point.wait_max_ms) point.wait_max_ms = wait_ms;
  addSize(waits, wait_ms);
}

/** Jobs that never ran, or wait for their next turn. */
export function noteCancelled(db: Database, queue: string, now_ms: number, count = 1): void {
  writePoint(db, { ...emptyPoint(startOf(now_ms, MINUTE_MS), queue), cancelled: count });
}

const WRITE_POINT = `INSERT INTO history (span_ms, at_ms, queue, ${FIGURE_COLUMNS})
  VALUES (${MINUTE_MS}, ?, ?, ${FIGURES.map(() => "?").join(", ")}) ON CONFLICT DO UPDATE SET ${added("max")}`;
const WRITE_TOTAL = `INSERT INTO totals (queue, name, label, count, sum_ms) VALUES (?1, ?2, ?3, ?4, ?5)
  ON CONFLICT DO UPDATE SET count = ${bounded("count")} + ?4, sum_ms = ${bounded("sum_ms")} + ?5`;

/** At the end of a commit. */
export function writeNoted(db: Database): void {
  for (const { point, waits, runs, ends } of db.noted.all()) {
    const add = (name: QueueTotal["name"], label: string, count: number, sum_ms: number) =>
      db.sql(WRITE_TOTAL).run(point.queue, name, label, count, sum_ms);
    writePoint(db, point);
    for (const size of CLASSES) {
      const [waited = 0, ran = 0] = [waits.counts[size], runs.counts[size]];
      if (waited > 0) add("wait", String(size), waited, waits.sums_ms[size] ?? 0);
      if (ran > 0) add("run", String(size), ran, runs.sums_ms[size] ?? 0);
    }
    for (const [cause, { count, sum_ms }] of ends) add("end", cause, count, sum_ms);
  }
}

function writePoint(db: Database, point: HistoryPoint): void {
  db.sql(WRITE_POINT).run(point.at_ms, point.queue, ...FIGURES.map((figure) => point[figure]));
}

const QUEUES = "(?4 IS NULL OR queue IN (SELECT value FROM json_each(?4)))";
const history_sql = (spans: string) => `SELECT at_ms - at_ms % ?3 AS at_ms, queue, ${aggregated()} FROM history
  WHERE span_ms IN (${spans}) AND at_ms >= ?1 AND at_ms < ?2 AND ${QUEUES} GROUP BY 1, 2 ORDER BY 1, 2`;
const BY_MINUTE = history_sql(`${MINUTE_MS}`);
const BY_HOUR = history_sql(`${MINUTE_MS}, ${HOUR_MS}`);

export function history(db: Database, query: HistoryQuery): HistoryPoint[] {
  const { since_ms, until_ms = Number.MAX_SAFE_INTEGER, span_ms, queues } = query;
  const text = span_ms % HOUR_MS === 0 ? BY_HOUR : BY_MINUTE;
  const named = queues === undefined ? null : JSON.stringify(queues);
  return db.sql(text).all(startOf(since_ms, span_ms), until_ms, span_ms, named).map(toPoint);
}

export function totals(db: Database): QueueTotal[] {
  return db.sql("SELECT * FROM totals ORDER BY queue, name, label").all().map(toTotal);
}

const OLDEST_MINUTE = `SELECT min(at_ms) AS at_ms FROM history WHERE span_ms = ${MINUTE_MS}`;
const FOLD_HOUR = `INSERT INTO history (span_ms, at_ms, queue, ${FIGURE_COLUMNS})
  SELECT ${HOUR_MS}, ?1, queue, ${aggregated()} FROM history AS old
    WHERE span_ms = ${MINUTE_MS} AND at_ms >= ?1 AND at_ms < ?2 GROUP BY queue
  ON CONFLICT DO UPDATE SET ${added("max")}`;
const DROP_MINUTES = `DELETE FROM history WHERE span_ms = ${MINUTE_MS} AND at_ms >= ?1 AND at_ms < ?2`;
const DROP_HOURS = `DELETE FROM history WHERE span_ms = ${HOUR_MS} AND at_ms < ?1`;
const DROP_EMPTY = "DELETE FROM tallies WHERE count = 0";

/** The start of the oldest hour that is still kept by the minute and need not be; null: there is none. */
export function oldHour(db: Database): number | null {
  const oldest_ms = db.sql(OLDEST_MINUTE).get()?.["at_ms"] as number | null;
  const keep_from_ms = startOf(db.now_ms() - MINUTES_KEPT_MS, HOUR_MS);
  return oldest_ms === null || oldest_ms >= keep_from_ms ? null : startOf(oldest_ms, HOUR_MS);
}

/** One hour to a commit, so that nobody waits long behind it. */
export function foldHour(db: Database, hour_ms: number): void {
  const end_ms = hour_ms + HOUR_MS;
  db.sql(FOLD_HOUR).run(hour_ms, end_ms);
  db.sql(DROP_MINUTES).run(hour_ms, end_ms);
  db.sql(DROP_HOURS).run(startOf(db.now_ms() - HOURS_KEPT_MS, HOUR_MS));
  db.sql(DROP_EMPTY).run();
}
