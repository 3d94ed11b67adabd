/**
 * Enqueue. Jobs with neither key nor dependency are one statement for any number of callers; the others go by a
 * transaction that looks at the live keys, decides, and begins again when somebody else was faster.
 */

import { checkNewJob } from "../../core/check_job.ts";
import { LeaseError } from "../../core/errors.ts";
import { gateText } from "../../core/gate.ts";
import type { NewJob, StateName } from "../../core/job.ts";
import { envColumn, isBlocked, leaseColumn, settingsColumn } from "../shared/columns.ts";
import { answersWhenDone, replaces } from "../shared/verdicts.ts";
import type { BulkEnqueued } from "../queries.ts";
import type { DoneState, Acquirer, EnqueueOptions, Enqueued, Grant } from "../store.ts";
import { acquire, acquireBounded } from "./acquire.ts";
import { cancelWaiting } from "./cancel.ts";
import { addDependencies, freeChildren } from "./dependencies.ts";
import { Columns, fromList, idsOf } from "./session/arrays.ts";
import { ONE_PLAN } from "./session/link.ts";
import type { Connection } from "./session/session.ts";
import { settle, within } from "./settle.ts";
import { CLOCK, SQL } from "./statements.ts";

/** Somebody else took a key or started a job between our look and our write. */
class Overtaken extends Error {
  readonly code = "40001";
}

const CHUNK = 5_000;

const NEW_JOBS = new Columns<NewJob>({
  argv: ["text", (job) => JSON.stringify(job.argv)],
  queue: ["text", (job) => job.queue],
  priority: ["bigint", (job) => job.priority],
  run_at_ms: ["bigint", (job) => job.run_at_ms],
  delay_ms: ["bigint", (job) => job.delay_ms],
  retries: ["bigint", (job) => job.settings.retries],
  lease_ms: ["bigint", (job) => leaseColumn(job.settings)],
  task: ["text", (job) => job.task],
  key: ["text", (job) => job.key],
  cwd: ["text", (job) => job.cwd],
  settings: ["text", (job) => settingsColumn(job.settings)],
  gate: ["text", gateText],
  blocked: ["boolean", isBlocked],
  has_input: ["boolean", (job) => job.input !== null],
});

/** Each counts what it adds, and says so in `counted`: the trigger, which is for everybody else, would do it row by row. */
const insertJobs = (counts: string) => `WITH ${CLOCK}, given AS (
    SELECT *, greatest(coalesce(run_at_ms, clock.ms), clock.ms + delay_ms) AS due_ms FROM ${NEW_JOBS.sql} AS job, clock
  ), ${counts} INSERT INTO lease.jobs (state, queue, priority, run_at_ms, retries, lease_ms, created_at_ms, task, key, argv,
    cwd, settings, gate, has_input, counted)
  SELECT CASE WHEN blocked THEN 'blocked' WHEN due_ms > ms THEN 'scheduled' ELSE 'pending' END, queue, priority, due_ms,
    retries, lease_ms, ms, task, key, argv, cwd, settings, gate, has_input, 1
  FROM given ORDER BY n`;

/** Of jobs that are pending at once there is nothing to look at: how many there are of each queue comes with them. */
const COUNTED = `counted AS (INSERT INTO lease.deltas (kind, queue, state, count)
    SELECT 'tally', queue, 'all', count FROM unnest($${NEW_JOBS.size + 1}::text[], $${NEW_JOBS.size + 2}::bigint[])
      AS made (queue, count))`;
const INSERT_PENDING = `${ONE_PLAN}${insertJobs(COUNTED)} RETURNING id`;
/** To send and to read a row for each of many takes as long as half of the insert. */
const INSERT_MANY = `${ONE_PLAN}${insertJobs(`${COUNTED}, added AS (`)} RETURNING id) SELECT array_agg(id)::text AS ids FROM added`;
const FEW = 8;

/** A key that somebody else has just taken leaves its job out. */
const INSERT_OTHERS = `${insertJobs("added AS (")}
    ON CONFLICT (key) WHERE key IS NOT NULL AND finished_at_ms IS NULL DO NOTHING RETURNING id, queue, state
  ), counted AS (INSERT INTO lease.deltas (kind, queue, state, count)
    SELECT 'tally', queue, 'all', count(*) FROM added GROUP BY queue
    UNION ALL SELECT 'tally', queue, state, count(*) FROM added WHERE state <> 'pending' GROUP BY queue, state
  ) SELECT id FROM added`;

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
  return insert(db, jobs);
}

/** Inside a transaction; jobs are checked already. */
export async function enqueue(
  db: Connection,
  jobs: readonly NewJob[],
  options: EnqueueOptions = {},
  offset = 0,
): Promise<Enqueued[]> {
  const answers: Enqueued[] = [];
  // Of jobs that need no look at others the next are made ready, and sent, while the server is at the ones before.
  const needs_look = !jobs.every((job) => isPlain(job) && envColumn(job.env) === null);
  let before: Promise<Enqueued[]> | null = null;
  for (let from = 0; from < jobs.length; from += CHUNK) {
    const chunk = enqueueChunk(db, jobs.slice(from, from + CHUNK), options).catch((error: unknown) => {
      throw withIndex(error, offset + from);
    });
    // When the one before has failed, that is what is told.
    chunk.catch(() => {});
    if (before !== null) answers.push(...(await before));
    before = chunk;
    if (needs_look) await chunk;
  }
  answers.push(...((await before) ?? []));
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
    const ids = await insert(db, inserted);
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

/** Whatever the server's clock says. */
function isPendingAtOnce(job: NewJob): boolean {
  return isPlain(job) && job.run_at_ms === null && job.delay_ms === 0;
}

function queueCounts(jobs: readonly NewJob[]): [queues: string[], counts: number[]] {
  const counts = new Map<string, number>();
  for (const { queue } of jobs) counts.set(queue, (counts.get(queue) ?? 0) + 1);
  return [[...counts.keys()], [...counts.values()]];
}

async function insertRows(db: Connection, jobs: readonly NewJob[]): Promise<number[]> {
  const given = NEW_JOBS.params(jobs);
  if (!jobs.every(isPendingAtOnce)) return idsOf(await db.query(INSERT_OTHERS, given));
  const params = [...given, ...queueCounts(jobs)];
  if (jobs.length <= FEW) return idsOf(await db.query(INSERT_PENDING, params));
  const [row] = await db.query<{ ids: string | null }>(INSERT_MANY, params);
  return fromList(row?.ids ?? null);
}

async function insert(db: Connection, jobs: readonly NewJob[]): Promise<number[]> {
  if (jobs.length === 0) return [];
  const ids = await insertRows(db, jobs);
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
