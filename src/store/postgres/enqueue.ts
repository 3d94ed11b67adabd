/**
 * Enqueue. Jobs with neither key nor dependency are one statement for any number of callers; the others go by a
 * transaction that looks at the live keys, decides, and begins again when somebody else was faster.
 */

import { checkNewJob } from "../../core/check_job.ts";
import { LeaseError } from "../../core/errors.ts";
import type { NewJob, StateName } from "../../core/job.ts";
import type { SqlRow } from "../../platform/platform.ts";
import type { Acquirer, EnqueueOptions, Enqueued, Grant } from "../store.ts";
import { acquire } from "./acquire.ts";
import { cancelWaiting } from "./cancel.ts";
import { addDependencies, freeChildren } from "./dependencies.ts";
import { bytes, numbers, texts } from "./session/arrays.ts";
import type { Connection } from "./session/link.ts";
import type { Statements } from "./session/sql.ts";
import { here, settle } from "./settle.ts";
import { NEW_JOBS } from "./statements.ts";

/** Somebody else took a key or started a job between our look and our write. */
class Overtaken extends Error {
  readonly code = "40001";
}

const CHUNK = 5_000;

/** Needs no look at other jobs. */
export function isPlain(job: NewJob): boolean {
  return job.key === null && job.after.length + job.after_any.length === 0;
}

export function checkAll(jobs: readonly NewJob[]): void {
  for (const [index, job] of jobs.entries()) {
    try {
      checkNewJob(job);
    } catch (error) {
      throw atIndex(error, index);
    }
  }
}

/** An error about a job, with the job's place among those that were given. */
export function atIndex(error: unknown, offset: number): unknown {
  if (!(error instanceof LeaseError)) return error;
  return new LeaseError(error.code, error.message, { cause: error.cause, index: offset + (error.index ?? 0) });
}

/** One statement, unless there is input. */
export async function insertPlain(
  statements: Statements,
  connection: Connection,
  jobs: readonly NewJob[],
): Promise<number[]> {
  return insert(statements, connection, jobs, "insertJobs");
}

/** Inside a transaction; jobs are checked already. */
export async function enqueue(
  statements: Statements,
  connection: Connection,
  jobs: readonly NewJob[],
  options: EnqueueOptions = {},
): Promise<Enqueued[]> {
  const answers: Enqueued[] = [];
  for (let from = 0; from < jobs.length; from += CHUNK) {
    try {
      answers.push(...(await enqueueChunk(statements, connection, jobs.slice(from, from + CHUNK), options)));
    } catch (error) {
      throw atIndex(error, from);
    }
  }
  const { acquire: acquirer } = options;
  if (acquirer !== undefined) {
    for (const answer of answers) answer.grant = await acquireOne(statements, connection, acquirer, answer.id);
  }
  return answers;
}

/** In the transaction that added it, or found it: before anybody else can. */
async function acquireOne(
  statements: Statements,
  connection: Connection,
  acquirer: Acquirer,
  job: number,
): Promise<Grant | null> {
  const request = { ...acquirer, count: 1, queues: null, task: null, job };
  const acquired = await acquire(statements, connection, request, { number: 0, due_first: false, again: false });
  if (acquired === null) return null;
  if (acquired.damaged.length > 0) await settle(statements, here(connection), acquired.damaged);
  return acquired.grants[0] ?? null;
}

type Live = { id: number; state: StateName; awaited: boolean };

async function enqueueChunk(
  statements: Statements,
  connection: Connection,
  jobs: readonly NewJob[],
  { done_answers = false }: EnqueueOptions,
): Promise<Enqueued[]> {
  if (jobs.every(isPlain)) {
    const ids = await insertPlain(statements, connection, jobs);
    return ids.map((id) => ({ id, created: true }));
  }
  const live = await liveByKey(statements, connection, jobs, done_answers);
  const answers: Enqueued[] = [];
  for (let from = 0; from < jobs.length;) {
    const plan = planNext(jobs, from, live);
    await makeRoom(statements, connection, plan.replaced);
    const wanted = plan.steps.flatMap((step, index) => ("job" in step ? [{ job: step.job, index: from + index }] : []));
    const inserted = wanted.map(({ job }) => job);
    const ids = await insert(statements, connection, inserted, "insertKeyed");
    if (ids.length < wanted.length) throw new Overtaken("a key was taken meanwhile");
    const created = wanted.map((step, at) => ({ id: ids[at] as number, ...step }));
    await addDependencies(statements, connection, created);
    for (const { id, job } of created)
      if (job.key !== null) live.set(job.key, { id, state: "pending", awaited: false });
    let next = 0;
    for (const step of plan.steps) {
      if ("job" in step) answers.push({ id: ids[next++] as number, created: true });
      else answers.push({ id: live.get(step.key)?.id as number, created: false });
    }
    from += plan.steps.length;
  }
  return answers;
}

/** By key, who has it: the live job, or where that is wanted the newest, if it came to an end by itself. */
async function liveByKey(
  statements: Statements,
  connection: Connection,
  jobs: readonly NewJob[],
  done_answers: boolean,
) {
  const keys = [...new Set(jobs.flatMap(({ key }) => (key === null ? [] : [key])))];
  const live = new Map<string, Live>();
  if (keys.length === 0) return live;
  for (const row of done_answers ? await statements.run(connection, "newestByKey", [texts(keys)]) : []) {
    if (row["state"] !== "cancelled") live.set(row["key"] as string, row as unknown as Live);
  }
  for (const row of await statements.run(connection, "liveByKey", [texts(keys)])) {
    live.set(row["key"] as string, row as unknown as Live);
  }
  return live;
}

interface Plan {
  steps: ({ job: NewJob } | { key: string })[];
  replaced: { key: string; live: Live }[];
}

/** As many jobs as can be inserted at once: up to one that takes the place of another in the same batch. */
function planNext(jobs: readonly NewJob[], from: number, live: ReadonlyMap<string, Live>): Plan {
  const plan: Plan = { steps: [], replaced: [] };
  const fresh = new Set<string>();
  for (const [at, job] of jobs.slice(from).entries()) {
    const { key } = job;
    if (key !== null && fresh.has(key)) {
      if (job.if_exists !== "skip") break;
      plan.steps.push({ key });
      continue;
    }
    const other = key === null ? undefined : live.get(key);
    if (key !== null && other !== undefined) {
      if (job.if_exists === "skip" || isDone(other)) {
        plan.steps.push({ key });
        continue;
      }
      refuseUnlessReplaceable(job, other, from + at);
      plan.replaced.push({ key, live: other });
    }
    if (key !== null) fresh.add(key);
    plan.steps.push({ job });
  }
  return plan;
}

function isDone({ state }: Live): boolean {
  return state === "completed" || state === "failed";
}

function refuseUnlessReplaceable(job: NewJob, { id, state }: Live, index: number): void {
  if (job.if_exists === "fail") {
    const message = `key ${job.key} is taken by job ${id} (${state}): wait for it, or cancel it`;
    throw new LeaseError("key_exists", message, { index });
  }
  if (state === "running") {
    const message = `key ${job.key} can't be replaced while job ${id} is running: cancel it first`;
    throw new LeaseError("key_exists", message, { index });
  }
}

async function makeRoom(statements: Statements, connection: Connection, replaced: Plan["replaced"]): Promise<void> {
  for (const { key, live } of replaced) {
    const gone = await cancelWaiting(statements, connection, [live.id], `replaced by a new job with key ${key}`);
    if (gone.length === 0) throw new Overtaken("a job started meanwhile");
    await freeChildren(statements, connection, gone);
  }
}

async function insert(
  statements: Statements,
  connection: Connection,
  jobs: readonly NewJob[],
  statement: "insertJobs" | "insertKeyed",
): Promise<number[]> {
  if (jobs.length === 0) return [];
  const rows: SqlRow[] = await statements.run(connection, statement, NEW_JOBS.params(jobs));
  const ids = rows.map(({ id }) => id as number);
  const inputs = jobs.flatMap(({ input }, index) => (input === null ? [] : [{ id: ids[index] as number, input }]));
  if (inputs.length > 0 && ids.length === jobs.length) {
    const lists = [numbers(inputs.map(({ id }) => id)), bytes(inputs.map(({ input }) => input))];
    await statements.run(connection, "insertInputs", lists);
  }
  return ids;
}
