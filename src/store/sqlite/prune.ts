/**
 * Deleting what is not needed any more: finished jobs, oldest first, with all that belongs to them, and all but the newest
 * checkpoints. Which tasks and jobs have too many of these is read without the lock.
 */

import type { StateName } from "../../core/job.ts";
import type { PrunePlace, Pruned, PruneQuery, PruneStep, Retention } from "../queries.ts";
import { SATISFIED } from "../shared/columns.ts";
import { narrowPrune, type Conditions } from "../shared/filters.ts";
import { LAST_TRIM, RETENTION, USUAL_RETENTION, fromJson } from "../shared/facts.ts";
import { trimFrom } from "../shared/verdicts.ts";
import type { Database } from "./open.ts";
import { inRanges } from "./ranges.ts";
import { select } from "./read.ts";
import { SQL } from "./statements.ts";

/** A job that has ended otherwise than another waits for is needed until that runs, or can't: it may yet be retried. */
const NOT_AWAITED = `NOT EXISTS (SELECT 1 FROM dependencies AS d JOIN jobs AS child ON child.id = d.job_id
  WHERE d.parent_id = jobs.id AND child.state = 'blocked'
    AND NOT ${SATISFIED.replaceAll("parent.", "jobs.")})`;

const ANY_BLOCKED = "SELECT 1 AS found FROM jobs WHERE state = 'blocked' LIMIT 1";

/**
 * One state at a time: each is a range of the index on (state, finished_at_ms). Where a task is named, its own index
 * leads to fewer jobs, as do ids; the `+` keeps the engine from the other.
 */
function old(
  db: Database,
  { states, older_than_ms, ...selection }: PruneQuery,
  by_id = false,
): [StateName, Conditions][] {
  const before_ms = db.now_ms() - older_than_ms;
  // To ask of each takes as long as all the rest of the search.
  const any_awaits = db.sql(ANY_BLOCKED).get() !== null;
  const by = selection.task === undefined && !by_id ? "" : "+";
  return [...new Set(states)].map((state) => {
    const only = select(selection);
    only.add(`${by}state = ?`, state);
    only.add(`${by}finished_at_ms <= ?`, before_ms);
    if (any_awaits) only.say(NOT_AWAITED);
    return [state, only];
  });
}

export function prunable(db: Database, query: PruneQuery) {
  return old(db, query).map(([state, only]) => {
    const sql = `SELECT count(*) AS count FROM jobs ${only.where()}`;
    return { state, count: db.sql(sql).get(...only.params)?.["count"] as number };
  });
}

/** All that goes with a job, as the schema says. */
const OWNED = `SELECT tables.name, links."from" AS "column" FROM sqlite_schema AS tables
  JOIN pragma_foreign_key_list(tables.name) AS links WHERE tables.type = 'table' AND links."table" = 'jobs'`;
const LISTED = "IN (SELECT value FROM json_each(?1))";
const BETWEEN = "BETWEEN ?1 AND ?2";

/** The next of them, found without the lock: on the way to them there may be very many others. */
export function oldest(db: Database, { limit, behind = null, ...query }: PruneStep): PrunePlace[] {
  const found = old(db, query).flatMap(([, only]) => {
    narrowPrune(only, behind);
    const text = `SELECT finished_at_ms, id FROM jobs ${only.where()} ORDER BY finished_at_ms, id LIMIT ${only.bind(limit)}`;
    return db.sql(text).all(...only.params) as unknown as PrunePlace[];
  });
  return found.toSorted((a, b) => a.finished_at_ms - b.finished_at_ms || a.id - b.id).slice(0, limit);
}

/** In a commit in which the engine follows no links: each table is asked once, and not once for each job. */
export function prune(db: Database, found: readonly PrunePlace[], { limit, ...query }: PruneStep): Pruned {
  const listed = JSON.stringify(found.map(({ id }) => id));
  // One may have been retried since, or be awaited.
  const ids = old(db, query, true).flatMap(([, only]) => {
    only.say(`id IN (SELECT value FROM json_each(${only.bind(listed)}))`);
    return db.sql(`SELECT id FROM jobs ${only.where()}`).all(...only.params) as unknown as { id: number }[];
  });
  const { ranges, others } = inRanges(ids.map(({ id }) => id).toSorted((a, b) => a - b));
  for (const { name, column } of [...db.sql(OWNED).all(), { name: "jobs", column: "id" }]) {
    const remove = (which: string) => db.sql(`DELETE FROM "${name}" WHERE "${column}" ${which}`);
    for (const range of ranges) remove(BETWEEN).run(...range);
    if (others.length > 0) remove(LISTED).run(JSON.stringify(others));
  }
  return { count: ids.length, next: found.length < limit ? null : (found.at(-1) ?? null) };
}

const NEWEST = "SELECT max(id) AS id FROM checkpoints";
const full = (group: "task" | "job_id", of_group: string) => `SELECT DISTINCT ${group} AS name FROM checkpoints AS new
  WHERE id > ?1 AND ${of_group} AND EXISTS (SELECT 1 FROM checkpoints WHERE ${group} = new.${group} LIMIT 1 OFFSET ?2)`;
/** All but the newest, and but the progress that the next attempt of an unfinished job starts from. */
const trim = (group: "task" | "job_id") => `DELETE FROM checkpoints WHERE ${group} = ?1
  AND NOT (kind = 'progress'
    AND EXISTS (SELECT 1 FROM jobs WHERE jobs.id = checkpoints.job_id AND finished_at_ms IS NULL)
    AND id = (SELECT max(id) FROM checkpoints AS c WHERE c.job_id = checkpoints.job_id AND c.kind = 'progress'))
  AND id NOT IN (SELECT id FROM checkpoints WHERE ${group} = ?1 ORDER BY id DESC LIMIT ?2)`;
const TRIMS = [
  { full: full("task", "task IS NOT NULL"), trim: trim("task") },
  { full: full("job_id", "task IS NULL"), trim: trim("job_id") },
];

export function retention(db: Database): Retention {
  const said = fromJson(RETENTION, db.sql(SQL.getMeta).get("retention")?.["value"]);
  return { ...USUAL_RETENTION, ...said } as Retention;
}

export function setRetention(db: Database, given: Partial<Retention>): void {
  db.sql(SQL.setMeta).run("retention", JSON.stringify({ ...retention(db), ...given }));
}

/** Tasks or jobs that are trimmed in one commit. */
const TRIMMED_TOGETHER = 200;

/** What there is to trim, as one write for each commit; the last notes how far it got. */
export function trims(db: Database, keep: number): (() => number)[] {
  const last = fromJson(LAST_TRIM, db.sql(SQL.getMeta).get("trim")?.["value"]);
  const newest = db.sql(NEWEST).get()?.["id"] as number | null;
  const from_id = trimFrom(last, keep, newest);
  if (from_id === null) return [];
  const writes: (() => number)[] = [];
  for (const sql of TRIMS) {
    const names = db.sql(sql.full).all(from_id, keep);
    for (let from = 0; from < names.length; from += TRIMMED_TOGETHER) {
      const some = names.slice(from, from + TRIMMED_TOGETHER);
      writes.push(() => some.reduce((sum, { name = null }) => sum + db.sql(sql.trim).run(name, keep).changes, 0));
    }
  }
  writes.push(() => {
    db.sql(SQL.setMeta).run("trim", JSON.stringify({ id: newest, keep }));
    return 0;
  });
  return writes;
}
