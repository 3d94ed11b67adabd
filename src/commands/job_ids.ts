/** Which jobs a command is about: ids and ranges, or everything that a task or a queue has. */

import { parseIds } from "../config/values.ts";
import { LeaseError } from "../core/errors.ts";
import type { StateName } from "../core/job.ts";
import type { Store } from "../store/store.ts";
import { queueRemarks } from "./queue_names.ts";

export const SELECTION_FLAGS = {
  task: { type: "string", alias: "t", valueHint: "NAME", description: "All jobs with this label" },
  queue: { type: "string", alias: "q", valueHint: "NAME", description: "All jobs of this queue" },
} as const;

interface Selection {
  task: string | undefined;
  queue: string | undefined;
}

const MOST_JOBS = 1_000_000;

/** `states` narrows what task and queue select; ids mean themselves. */
export async function selectIds(
  store: Store,
  verb: string,
  words: readonly string[],
  selection: Selection,
  states: readonly StateName[],
): Promise<number[]> {
  const { task, queue } = selection;
  if (words.length > 0) {
    if (task !== undefined || queue !== undefined) {
      throw new LeaseError("usage", `${verb} takes ids, or --task and --queue, not both`);
    }
    return parseIds(words, verb);
  }
  if (task === undefined && queue === undefined) {
    throw new LeaseError("usage", `${verb} what? Name ids (7 9-12), --task or --queue`);
  }
  const jobs = await store.list({
    states,
    ...(task === undefined ? {} : { task }),
    ...(queue === undefined ? {} : { queues: [queue] }),
    limit: MOST_JOBS,
    newest_first: false,
  });
  if (jobs.length === 0) {
    const [remark] = queue === undefined ? [] : await queueRemarks(store, [queue]);
    const where = [task === undefined ? "" : ` with task ${task}`, queue === undefined ? "" : ` in queue ${queue}`];
    throw new LeaseError("nothing_matched", `there is nothing to ${verb}${remark ? `: ${remark}` : where.join("")}`);
  }
  return jobs.map(({ id }) => id);
}
