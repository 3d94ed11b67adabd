/**
 * A list for people, at a price that does not grow with the store. Where only few jobs are in the states that are asked
 * for, those are looked at, by the index of the state; else the newest ones, whatever they are.
 */

import type { SearchAnswer, SearchQuery } from "../queries.ts";
import { narrowSearch, SEARCHED, SHOWN } from "../shared/filters.ts";
import { toJob } from "../shared/rows.ts";
import type { Database } from "./open.ts";
import { select } from "./read.ts";
import { SELECT_JOB } from "./statements.ts";

const position = (needle: string, text: string) => `instr(lower(${text}), lower(${needle}))`;
const NEWEST = Number.MAX_SAFE_INTEGER;

export function search(db: Database, query: SearchQuery): SearchAnswer {
  const { behind_id = NEWEST, among, limit } = query;
  const only = select(query);
  narrowSearch(only, query, position);
  const [behind, most, count] = [only.bind(behind_id), only.bind(among), only.bind(limit)];
  const newest = `FROM jobs WHERE id < ${behind} ORDER BY id DESC LIMIT ${most}`;
  const few = fewIn(db, query);
  // The `+` keeps from walking through all ids to find those few in order.
  const looked_at = few?.map((state) => `SELECT ${SEARCHED} FROM jobs WHERE ${SHOWN[state]} AND +id < ${behind}`);
  const source = looked_at?.join(" UNION ALL ") ?? `SELECT ${SEARCHED} ${newest}`;
  const found = `SELECT id FROM (${source}) ${only.where()} ORDER BY id DESC LIMIT ${count}`;
  const rows = db.sql(`${SELECT_JOB} WHERE id IN (${found}) ORDER BY id DESC`).all(...only.params);
  const jobs = rows.map(toJob);
  const last = jobs.at(-1);
  if (last !== undefined && jobs.length === limit) return { jobs, behind_id: last.id };
  if (few !== null) return { jobs, behind_id: null };
  const walked = `SELECT count(*) AS jobs, min(id) AS last FROM (SELECT id FROM jobs WHERE id < ?1 ORDER BY id DESC LIMIT ?2)`;
  const seen = db.sql(walked).get(behind_id, among);
  return { jobs, behind_id: seen?.["jobs"] === among ? (seen["last"] as number) : null };
}

/** The states asked for, if there are no more jobs in them than may be looked at. */
function fewIn(db: Database, { states, among }: SearchQuery): SearchQuery["states"] | null {
  if (states === undefined) return null;
  let room = among;
  const fits = [...new Set(states)].filter((state) => {
    if (room < 0) return false;
    const some = `SELECT count(*) AS jobs FROM (SELECT 1 FROM jobs WHERE ${SHOWN[state]} LIMIT ?1)`;
    room -= db.sql(some).get(room + 1)?.["jobs"] as number;
    return room >= 0;
  });
  return room < 0 || fits.length === 0 ? null : fits;
}
