/**
 * Enqueue. Jobs with neither key nor dependency are one statement for any number of callers; the others go by a
 * transaction that looks at the live keys, decides, and begins again when somebody else was faster.
 */

import { checkNewJob } from "../../core/check_job.ts";
import { LeaseError } from "../../core/errors.ts";
import type { NewJob, StateName } from "../../core/job.ts";
import { envColumn, isBlocked } from "../shared/columns.ts";
import { answersWhenDone, replaces } from "../shared/verdicts.ts";
import type { BulkEnqueued } from "../queries.ts";
import type { DoneState, Acquirer, EnqueueOptions, Enqueued, Grant } from "../store.ts";
import { acquire, acquireBounded } from "./acquire.ts";
import { cancelWaiting } from "./cancel.ts";
import { addDependencies, freeChildren } from "./dependencies.ts";
import { idsOf } from "./session/arrays.ts";
import type { Connection } from "./session/session.ts";
import { settle, within } from "./settle.ts";
import { NEW_JOBS, SQL } from "./statements.ts";

/** Somebody else took a key or started a job between our look and our write. */
class Overtaken extends Error {
  readonly code = "40001";
}

const CHUNK = 5_000;

/** Needs no look at other jobs. */
export function isPlain(job: NewJob): boolean {
  return job.key === null && !isBlocked(job);
}

/** `offset`: so many were given before these. */
export function checkAll(jobs: readonly NewJob[], offset = 0): void {
  for (const [index, job] of jobs.entries()) atIndex(offset + index, () => checkNewJob(job));
}

/** An error about a job says which of those that were given it is. */
function atIndex<T>(index: number, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw withIndex(error, index);
  }
}

function withIndex(error: unknown, offset: number): unknown {
  if (!(error instanceof LeaseError)) return error;
  return new LeaseError(error.code, error.message, { cause: error.cause, index: offset + (error.index ?? 0) });
}

/** Whether an insert is one statement: input and variables go by statements of their own. */
export function isOneStatement(job: NewJob): boolean {
  return job.input === null && envColumn(job.env) === null;
}

/** One statement, unless there is input or there are variables. */
export async function insertPlain(db: Connection, jobs: readonly NewJob[]): Promise<number[]> {
  return insert(db, jobs, SQL.insertJobs);
}

/** Inside a transaction; jobs are checked already. */
export async function enqueue(
  db: Connection,
  jobs: readonly NewJob[],
  options: EnqueueOptions = {},
  offset = 0,
): Promise<Enqueued[]> {
  const answers: Enqueued[] = [];
  for (let from = 0; from < jobs.length; from += CHUNK) {
    try {
      answers.push(...(await enqueueChunk(db, jobs.slice(from, from + CHUNK), options)));
    } catch (error) {
      throw withIndex(error, offset + from);
    }
  }
  const { acquire: acquirer } = options;
  if (acquirer !== undefined) {
    for (const answer of answers) answer.grant = await acquireOne(db, acquirer, answer.id);
  }
  return answers;
}

/** In the transaction that added it, or found it: before anybody else can. */
async function acquireOne(db: Connection, acquirer: Acquirer, job: number): Promise<Grant | null> {
  const request = { ...acquirer, count: 1, queues: null, task: null, job };
  const more = { number: 0, due_first: false, again: false };
  const found = await acquire(db, request, more);
  if (found === "due") return null;
  const acquired = found === "bounded" ? await acquireBounded(db, request, more) : found;
  if (acquired.damaged.length > 0) await settle(within(db), acquired.damaged);
  return acquired.grants[0] ?? null;
}

interface KeyOwner {
  id: number;
  state: StateName;
}

async function enqueueChunk(
  db: Connection,
  jobs: readonly NewJob[],
  { done_answers = [] }: EnqueueOptions,
): Promise<Enqueued[]> {
  if (jobs.every(isPlain)) {
    const ids = await insertPlain(db, jobs);
    return ids.map((id) => ({ id, created: true }));
  }
  const owners = await ownersOf(db, jobs, done_answers);
  const answers: Enqueued[] = [];
  for (let from = 0; from < jobs.length;) {
    const plan = planNext(jobs, from, owners);
    await makeRoom(db, plan.replaced);
    const wanted = plan.steps.flatMap((step, index) => ("job" in step ? [{ job: step.job, index: from + index }] : []));
    const inserted = wanted.map(({ job }) => job);
    const ids = await insert(db, inserted, SQL.insertKeyed);
    if (ids.length < wanted.length) throw new Overtaken("a key was taken meanwhile");
    const created = wanted.map((step, at) => ({ id: ids[at] as number, ...step }));
    await addDependencies(db, created);
    for (const { id, job } of created) if (job.key !== null) owners.set(job.key, { id, state: "pending" });
    let next = 0;
    for (const step of plan.steps) {
      if ("job" in step) answers.push({ id: ids[next++] as number, created: true });
      else answers.push({ id: owners.get(step.key)?.id as number, created: false });
    }
    from += plan.steps.length;
  }
  return answers;
}

/** By key, who has it: the live job, or where that is wanted the newest, if it came to an end by itself. */
async function ownersOf(
  db: Connection,
  jobs: readonly NewJob[],
  done_answers: readonly DoneState[],
): Promise<Map<string, KeyOwner>> {
  const keys = [...new Set(jobs.flatMap(({ key }) => (key === null ? [] : [key])))];
  if (keys.length === 0) return new Map();
  const done = done_answers.length > 0 ? await db.query(SQL.newestByKey, [keys]) : [];
  const live = await db.query(SQL.liveByKey, [keys]);
  const owners = [...done.filter(({ state }) => done_answers.some((name) => name === state)), ...live];
  return new Map(owners.map((row) => [row["key"] as string, row as unknown as KeyOwner]));
}

interface Plan {
  steps: ({ job: NewJob } | { key: string })[];
  replaced: { key: string; owner: KeyOwner }[];
}

/** As many jobs as can be inserted at once: up to one that replaces another of the same batch. */
function planNext(jobs: readonly NewJob[], from: number, owners: ReadonlyMap<string, KeyOwner>): Plan {
  const plan: Plan = { steps: [], replaced: [] };
  const fresh = new Set<string>();
  for (const [at, job] of jobs.slice(from).entries()) {
    const { key } = job;
    if (key === null) {
      plan.steps.push({ job });
      continue;
    }
    if (fresh.has(key) && job.if_exists !== "skip") break;
    const owner = owners.get(key);
    const answers = fresh.has(key) || (owner !== undefined && answersFor(job, owner, from + at));
    plan.steps.push(answers ? { key } : { job });
    if (answers) continue;
    if (owner !== undefined) plan.replaced.push({ key, owner });
    fresh.add(key);
  }
  return plan;
}

function answersFor(job: NewJob, owner: KeyOwner, index: number): boolean {
  return answersWhenDone(owner.state) || !atIndex(index, () => replaces(job, owner));
}

async function makeRoom(db: Connection, replaced: Plan["replaced"]): Promise<void> {
  for (const { key, owner } of replaced) {
    const gone = await cancelWaiting(db, [owner.id], `replaced by a new job with key ${key}`);
    if (gone.length === 0) throw new Overtaken("a job started meanwhile");
    await freeChildren(db, gone);
  }
}

async function insert(db: Connection, jobs: readonly NewJob[], statement: string): Promise<number[]> {
  if (jobs.length === 0) return [];
  const rows = await db.query(statement, NEW_JOBS.params(jobs));
  const ids = idsOf(rows);
  const inputs = jobs.flatMap(({ input }, index) => (input === null ? [] : [{ id: ids[index] as number, input }]));
  if (ids.length < jobs.length) return ids;
  if (inputs.length > 0) await SQL.insertInputs.run(db, inputs);
  await writeEnvs(
    db,
    jobs.map(({ env }, index) => [ids[index] as number, envColumn(env)]),
  );
  return ids;
}

/** Of jobs that were just inserted without. Never as parameters, which a server may log: they are people's secrets. */
export async function writeEnvs(
  db: Connection,
  envs: readonly (readonly [id: number, env: string | null])[],
): Promise<void> {
  const given = envs.filter(([, env]) => env !== null);
  if (given.length === 0) return;
  await db.copyIn(SQL.copyEnv, given);
  await db.query(SQL.setEnv, [given.map(([id]) => id)]);
}

/** Of more jobs than fit in memory, batch after batch inside one transaction; only ranges of ids are kept. */
export async function enqueueAll(db: Connection, batches: AsyncIterable<readonly NewJob[]>): Promise<BulkEnqueued> {
  const ranges: [number, number][] = [];
  let created = 0;
  let offset = 0;
  for await (const batch of batches) {
    checkAll(batch, offset);
    for (const queued of await enqueue(db, batch, {}, offset)) {
      if (queued.created) created += 1;
      const last = ranges.at(-1);
      if (last?.[1] === queued.id - 1) last[1] = queued.id;
      else ranges.push([queued.id, queued.id]);
    }
    offset += batch.length;
  }
  return { ranges, created };
}

/** What has been read from a stream can't be read again: a transaction that has to begin anew fails instead. */
export function onlyOnce<T>(batches: AsyncIterable<T>): AsyncIterable<T> {
  let begun = false;
  return {
    [Symbol.asyncIterator]() {
      if (begun) throw new LeaseError("store_failed", "the store was in trouble before all jobs were in: try again");
      begun = true;
      return batches[Symbol.asyncIterator]();
    },
  };
}
