/**
 * A list for people, at a price that does not grow with the store. Where only few jobs are in the states that are asked
 * for, those are looked at; else the newest ones, whatever they are.
 */

import type { SearchAnswer, SearchQuery } from "../queries.ts";
import { narrowSearch, SEARCHED, SHOWN } from "../shared/filters.ts";
import { toJob } from "../shared/rows.ts";
import { select } from "./read.ts";
import type { Connection } from "./session/session.ts";
import { SELECT_JOB } from "./statements.ts";

const position = (needle: string, text: string) => `position(lower(${needle}::text) IN lower(${text}))`;
const NEWEST = Number.MAX_SAFE_INTEGER;

export async function search(db: Connection, query: SearchQuery): Promise<SearchAnswer> {
  const { behind_id = NEWEST, among, limit } = query;
  const only = select(query);
  narrowSearch(only, query, position);
  const few = await fewIn(db, query);
  const behind = only.bind(behind_id);
  const looked_at =
    few?.map((state) => `SELECT ${SEARCHED} FROM lease.jobs WHERE ${SHOWN[state]} AND id < ${behind}`) ?? null;
  const newest = () =>
    `SELECT ${SEARCHED} FROM lease.jobs WHERE id < ${behind} ORDER BY id DESC LIMIT ${only.bind(among)}`;
  const source = looked_at?.join(" UNION ALL ") ?? newest();
  const found = `SELECT id FROM (${source}) AS looked_at ${only.where()} ORDER BY id DESC LIMIT ${only.bind(limit)}`;
  const jobs = (await db.query(`${SELECT_JOB} WHERE id IN (${found}) ORDER BY id DESC`, only.params)).map(toJob);
  const last = jobs.at(-1);
  if (last !== undefined && jobs.length === limit) return { jobs, behind_id: last.id };
  if (few !== null) return { jobs, behind_id: null };
  const walked = `SELECT count(*) AS jobs, min(id) AS last
    FROM (SELECT id FROM lease.jobs WHERE id < $1 ORDER BY id DESC LIMIT $2) AS newest`;
  const [seen] = await db.query(walked, [behind_id, among]);
  return { jobs, behind_id: seen?.["jobs"] === among ? (seen["last"] as number) : null };
}

/** The states asked for, if there are no more jobs in them than may be looked at. */
async function fewIn(db: Connection, { states, among }: SearchQuery): Promise<SearchQuery["states"] | null> {
  if (states === undefined || states.length === 0) return null;
  const asked = [...new Set(states)];
  const some = asked.map((state) => `SELECT 1 FROM (SELECT 1 FROM lease.jobs WHERE ${SHOWN[state]} LIMIT $1) AS first`);
  const [seen] = await db.query(`SELECT count(*) AS jobs FROM (${some.join(" UNION ALL ")}) AS found`, [among + 1]);
  return (seen?.["jobs"] as number) <= among ? asked : null;
}
