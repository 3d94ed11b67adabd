/**
 * New jobs as the lists that a statement unnests. Most batches say the same of every job but its words: what is the same
 * is sent once, and its list stays empty.
 */

import type { NewJob } from "../../core/job.ts";
import { envColumn, leaseColumn, settingsColumn } from "../columns.ts";
import { booleans, numbers, texts } from "./arrays.ts";
import type { Param } from "./link.ts";

interface Column<T extends Param> {
  type: string;
  value: (job: NewJob) => T;
  list: (values: T[]) => string;
}

const text = (value: (job: NewJob) => string | null): Column<string | null> => ({ type: "text", value, list: texts });
const number = (value: (job: NewJob) => number | null): Column<number | null> => ({
  type: "bigint",
  value,
  list: numbers,
});
const boolean = (value: (job: NewJob) => boolean): Column<boolean> => ({ type: "boolean", value, list: booleans });

const COLUMNS = {
  queue: text((job) => job.queue),
  priority: number((job) => job.priority),
  run_at_ms: number((job) => job.run_at_ms),
  delay_ms: number((job) => job.delay_ms),
  retries: number((job) => job.settings.retries),
  lease_ms: number((job) => leaseColumn(job.settings)),
  task: text((job) => job.task),
  key: text((job) => job.key),
  cwd: text((job) => job.cwd),
  settings: text((job) => settingsColumn(job.settings)),
  env: text((job) => envColumn(job.env)),
  blocked: boolean((job) => job.after.length + job.after_any.length > 0),
  has_input: boolean((job) => job.input !== null),
};

const names = Object.keys(COLUMNS);
const columns = Object.values(COLUMNS) as unknown as Column<Param>[];

/** $1 is always as long as there are jobs; then the lists, then what stands for all where a list is empty. */
export const NEW_JOBS = `(SELECT n, argv, ${names
  .map((name, index) => `coalesce(${name}, $${names.length + 2 + index}::${columns[index]?.type}) AS ${name}`)
  .join(", ")}
  FROM unnest($1::text[], ${columns.map(({ type }, index) => `$${index + 2}::${type}[]`).join(", ")})
    WITH ORDINALITY AS list (argv, ${names.join(", ")}, n))`;

export function jobColumns(jobs: readonly NewJob[]): Param[] {
  const lists: string[] = [];
  const common: Param[] = [];
  for (const { value, list } of columns) {
    const values = jobs.map(value);
    const [first = null] = values;
    const same = values.every((other) => other === first);
    lists.push(same ? "{}" : list(values));
    common.push(same ? first : null);
  }
  return [texts(jobs.map((job) => JSON.stringify(job.argv))), ...lists, ...common];
}
