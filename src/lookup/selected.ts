/** The jobs that somebody selected: by ids, or by what a task, a queue or a state has. */

import { LeaseError } from "../core/errors.ts";
import type { Job, ShownState } from "../core/job.ts";
import type { Selection } from "../store/queries.ts";
import type { Store } from "../store/store.ts";
import { queueRemarks } from "./queues.ts";

export const FINISHED_STATES = ["completed", "failed", "cancelled"] as const;

/** Without what is undefined: a query has only what it asks for. */
export function defined<T extends object>(fields: { [K in keyof T]: T[K] | undefined }): Partial<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>;
}

/** To be thrown: flags selected nothing; perhaps a queue's name is misspelt. */
export async function nothingMatched(store: Store, verb: string, { task, queues }: Selection): Promise<LeaseError> {
  const [remark] = queues === undefined ? [] : await queueRemarks(store, queues);
  const where = [task === undefined ? "" : ` with task ${task}`, queues === undefined ? "" : ` in queue ${queues[0]}`];
  return new LeaseError("nothing_matched", `there is nothing to ${verb}${remark ? `: ${remark}` : where.join("")}`);
}

const PAGE = 1_000;

/** In the order of their ids, in pages; `states` narrows what flags select, ids mean themselves. */
export async function* idPages(
  store: Store,
  verb: string,
  selection: Selection,
  states: readonly ShownState[],
  fits: (job: Job) => boolean = () => true,
): AsyncGenerator<number[]> {
  const { ids } = selection;
  if (ids !== undefined) {
    for (let from = 0; from < ids.length; from += PAGE) yield ids.slice(from, from + PAGE);
    return;
  }
  let found = false;
  for (let behind_id = 0; ;) {
    const jobs = await store.list({ ...selection, states, behind_id, limit: PAGE, newest_first: false });
    const fitting = jobs.filter(fits);
    found ||= fitting.length > 0;
    if (fitting.length > 0) yield fitting.map(({ id }) => id);
    const last = jobs.at(-1);
    if (last === undefined || jobs.length < PAGE) break;
    behind_id = last.id;
  }
  if (!found) throw await nothingMatched(store, verb, selection);
}
