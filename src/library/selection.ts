/** Which jobs somebody means, as values. */

import { checkName } from "../core/check_job.ts";
import { LeaseError } from "../core/errors.ts";
import type { ShownState } from "../core/job.ts";
import { choice, NAME, readJson, type Value } from "../core/values.ts";
import { defined } from "../lookup/selected.ts";
import type { Selection, SORTS } from "../store/queries.ts";
import { readOptions } from "./options.ts";

/** Which jobs: an id, several, what `enqueue` answered, or all of a task or a queue. */
export type JobSelection =
  number | { id: number } | readonly (number | { id: number })[] | { task?: string; queue?: string };

export function idOf(job: number | { id: number }): number {
  const id = typeof job === "number" ? job : job?.id;
  if (Number.isSafeInteger(id) && id > 0) return id;
  const given: unknown = id ?? job;
  throw new LeaseError("usage", `${JSON.stringify(given) ?? String(given)} is not a job's id`);
}

export function isOne(jobs: JobSelection): jobs is number | { id: number } {
  return typeof jobs === "number" || (typeof jobs === "object" && jobs !== null && "id" in jobs);
}

/** Never everything by accident. */
export function jobsMeant(jobs: JobSelection): Selection {
  if (isOne(jobs)) return { ids: [idOf(jobs)] };
  if (Array.isArray(jobs)) return { ids: (jobs as readonly (number | { id: number })[]).map(idOf) };
  const { task, queue } = readOptions(jobs, { task: NAME, queue: NAME });
  if (task === undefined && queue === undefined)
    throw new LeaseError("usage", "which jobs? Name ids, a task or a queue");
  return defined({ task, queues: queue === undefined ? undefined : [queue] });
}

export function queuesMeant(queues: readonly string[]): readonly string[] {
  if (queues.length === 0) throw new LeaseError("usage", "which queue? Name one");
  for (const queue of queues) {
    checkName("queue", queue);
    if (queue.includes(",") || queue === "*") throw new LeaseError("usage", `${queue} is not one queue: name each`);
  }
  return queues;
}

export function statesOf<const T extends string>(
  given: T | readonly T[] | undefined,
  known: readonly T[],
): T[] | undefined {
  if (given === undefined) return undefined;
  const one: Value<T> = choice(known);
  return (typeof given === "string" ? [given] : [...given]).map((state) => readJson(one, state, "status"));
}

/** What `list` narrows by; names and values of the flags of `lease inspect jobs`. */
export interface ListOptions {
  status?: ShownState | readonly ShownState[];
  queue?: string;
  task?: string;
  key?: string;
  /** Something happened to it since: `"2h"`, or RFC 3339. */
  since?: string;
  /** 20 unless told. */
  limit?: number;
  sort?: (typeof SORTS)[number];
  /** The oldest first instead of the newest. */
  reverse?: boolean;
}
