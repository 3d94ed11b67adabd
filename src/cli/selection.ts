/** Which jobs a command is about: ids and ranges, or what a task, a queue or a state has. */

import { QUEUE, readIds, TASK } from "../core/values.ts";
import { LeaseError } from "../core/errors.ts";
import type { ShownState } from "../core/job.ts";
import type { Selection } from "../store/queries.ts";
import type { Store } from "../store/store.ts";
import { queueRemarks } from "../lookup/queues.ts";

export const SELECTION_FLAGS = {
  task: { type: "string", alias: "t", value: TASK, description: "All jobs with this label" },
  queue: { type: "string", alias: "q", value: QUEUE, description: "All jobs of this queue" },
} as const;

interface Flags {
  task: string | undefined;
  queue: string | undefined;
}

/** Never everything by accident: without a word or a flag there is no selection. */
export function selectionOf(
  verb: string,
  words: readonly string[],
  { task, queue }: Flags,
  statuses: readonly ShownState[] = [],
): Selection {
  const by_flag = task !== undefined || queue !== undefined || statuses.length > 0;
  if (words.length > 0) {
    if (by_flag) throw new LeaseError("usage", `${verb} takes ids, or flags that select jobs, not both`);
    return { ids: readIds(words, verb) };
  }
  if (!by_flag) throw new LeaseError("usage", `${verb} what? Name ids (7 9-12), --task or --queue`);
  return { ...(task === undefined ? {} : { task }), ...(queue === undefined ? {} : { queues: [queue] }) };
}

/** To be thrown: flags selected nothing; perhaps a queue's name is misspelt. */
export async function nothingMatched(store: Store, verb: string, { task, queues }: Selection): Promise<LeaseError> {
  const [remark] = queues === undefined ? [] : await queueRemarks(store, queues);
  const where = [task === undefined ? "" : ` with task ${task}`, queues === undefined ? "" : ` in queue ${queues[0]}`];
  return new LeaseError("nothing_matched", `there is nothing to ${verb}${remark ? `: ${remark}` : where.join("")}`);
}

/** One line per gap, not per job: a range may be much larger than the store. */
export function noSuchJobs(ids: readonly number[]): string[] {
  const gaps: [from: number, to: number][] = [];
  for (const id of ids) {
    const last = gaps.at(-1);
    if (last?.[1] === id - 1) last[1] = id;
    else gaps.push([id, id]);
  }
  return gaps.map(([from, to]) => (from === to ? `there is no job ${from}` : `there are no jobs ${from}-${to}`));
}

const PAGE = 1_000;

/** In the order of their ids, in pages; `states` narrows what flags select, ids mean themselves. */
export async function* idPages(
  store: Store,
  verb: string,
  selection: Selection,
  states: readonly ShownState[],
): AsyncGenerator<number[]> {
  const { ids } = selection;
  if (ids !== undefined) {
    for (let from = 0; from < ids.length; from += PAGE) yield ids.slice(from, from + PAGE);
    return;
  }
  let behind_id = 0;
  for (;;) {
    const jobs = await store.list({ ...selection, states, behind_id, limit: PAGE, newest_first: false });
    if (jobs.length === 0 && behind_id === 0) throw await nothingMatched(store, verb, selection);
    if (jobs.length > 0) yield jobs.map(({ id }) => id);
    const last = jobs.at(-1);
    if (last === undefined || jobs.length < PAGE) return;
    behind_id = last.id;
  }
}
