/** Lists of jobs. */

import type { Job } from "../../core/job.ts";
import type { ListQuery, Selection } from "../queries.ts";
import { Conditions, SHOWN, narrowList, orderOf } from "../shared/filters.ts";
import { toJob } from "../shared/rows.ts";
import { numbers, texts } from "./session/arrays.ts";
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

/** With placeholders and lists as this engine has them. */
export function select({ ids, queues, task }: Selection): Conditions {
  const only = new Conditions("$");
  if (ids) only.add("id = ANY (?::bigint[])", numbers(ids));
  if (queues) only.add("queue = ANY (?::text[])", texts(queues));
  if (task !== undefined) only.add("task = ?", task);
  return only;
}
