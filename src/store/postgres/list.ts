/** Lists of jobs. */

import type { Job } from "../../core/job.ts";
import type { ListQuery } from "../queries.ts";
import { SHOWN, narrowList, orderOf } from "../shared/filters.ts";
import { toJob } from "../shared/rows.ts";
import { select } from "./read.ts";
import type { Connection } from "./session/link.ts";
import { SELECT_JOB } from "./statements.ts";

export async function list(db: Connection, query: ListQuery): Promise<Job[]> {
  const only = select(query);
  if (query.states) only.say(`(${query.states.map((state) => SHOWN[state]).join(" OR ") || "FALSE"})`);
  if (query.holder !== undefined) only.add("state = 'running' AND holder = ?", query.holder);
  narrowList(only, query);
  const text = `${SELECT_JOB} ${only.where()} ORDER BY ${orderOf(query)} LIMIT ${only.bind(query.limit)}`;
  return (await db.query(text, only.params)).map(toJob);
}
