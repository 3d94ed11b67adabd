/** The jobs that somebody selected: by ids, or by what a task, a queue or a state has. */

import { LeaseError } from "../core/errors.ts";
import type { ShownState } from "../core/job.ts";
import { BETWEEN_STEPS_MS, FIRST_STEP, nextStep } from "../core/steps.ts";
import type { JobOutline, Selection } from "../store/queries.ts";
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

/** What somebody who changes the jobs does between two pages, and which of them are meant. */
interface Paging {
  fits?: (job: JobOutline) => boolean;
  /** Others want to write too: pages are as large as can be changed in a moment, and leave them one. */
  changing?: boolean;
}

/** In the order of their ids, in pages; `states` narrows what flags select, ids mean themselves. */
export async function* idPages(
  store: Store,
  verb: string,
  selection: Selection,
  states: readonly ShownState[],
  { fits = () => true, changing = false }: Paging = {},
): AsyncGenerator<number[]> {
  const { ids } = selection;
  let size = FIRST_STEP;
  let pause = Promise.resolve();
  const took = (since_ms: number) => {
    if (!changing) return;
    size = nextStep(size, performance.now() - since_ms);
    pause = betweenSteps();
  };
  if (ids !== undefined) {
    for (let from = 0; from < ids.length;) {
      await pause;
      const page = ids.slice(from, from + size);
      from += page.length;
      const since_ms = performance.now();
      yield page;
      took(since_ms);
    }
    return;
  }
  let found = false;
  for (let behind_id = 0; ;) {
    const limit = size;
    // While others write.
    const jobs = await store.outlines({ ...selection, states, behind_id, limit, newest_first: false });
    await pause;
    const fitting = jobs.filter(fits);
    found ||= fitting.length > 0;
    const since_ms = performance.now();
    if (fitting.length > 0) yield fitting.map(({ id }) => id);
    const last = jobs.at(-1);
    if (last === undefined || jobs.length < limit) break;
    behind_id = last.id;
    if (fitting.length > 0) took(since_ms);
  }
  if (!found) throw await nothingMatched(store, verb, selection);
}

/** Others may write. */
export function betweenSteps(): Promise<void> {
  return new Promise((done) => {
    setTimeout(done, BETWEEN_STEPS_MS);
  });
}
