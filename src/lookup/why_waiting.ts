/**
 * Why jobs are not running: the facts around them, asked for with a few questions for all of them together, never one
 * per job.
 */

import type { Job } from "../core/job.ts";
import type { WorkerRecord } from "../core/records.ts";
import type { Glance } from "../store/store.ts";
import { reasonOf, type Parent, type ReasonFacts } from "../view/reason.ts";
import { workerState } from "../view/workers.ts";
import { boundsAround } from "./bounds.ts";
import { leasesByEnd, withHeldJobs, workersNow } from "./workers.ts";

export interface Around {
  reason: (job: Job, now_ms: number) => string | null;
  /** What it still waits for. */
  parents: (job: Job) => readonly Parent[];
  /** Nobody takes it: its queue is paused, or no worker serves it. */
  standsStill: (job: Job) => boolean;
}

/** Lines of up to so many jobs together are read to tell each one its position. */
const MOST_IN_LINE = 300;
/** With more leases than this nobody waits for the count of free slots. */
const MOST_LEASES = 500;

export async function around(store: Glance, jobs: readonly Job[], now_ms: number): Promise<Around> {
  const blocked = jobs.filter(({ state }) => state.name === "blocked").map(({ id }) => id);
  const pending = jobs.filter(({ state }) => state.name === "pending");
  const waiting = jobs.some(({ state }) => state.name === "pending" || state.name === "scheduled");
  const due = jobs.some(({ state }) => state.name === "scheduled" && state.run_at_ms <= now_ms);
  const ready = due || pending.length > 0;
  const running = jobs.some(({ state }) => state.name === "running");
  const [held_back, workers, unmet] = await Promise.all([
    waiting ? store.pausedQueues() : [],
    ready || running ? workersNow(store) : [],
    blocked.length > 0 ? store.parents(blocked) : [],
  ]);
  const paused = new Set<string>(held_back);
  const live = workers.filter((worker) => workerState(worker, now_ms) === "live");
  const serving = (queue: string) => live.filter(({ queues }) => queues === null || queues.includes(queue));
  const ofTask = (job: Job) => serving(job.queue).filter(({ task }) => task === null || task === job.task);
  const takers = (job: Job) => ofTask(job).filter(({ commands_only }) => !commands_only || job.argv.length > 0);
  // Where nothing moves, a place in line says nothing.
  const moving = new Set(pending.map(({ queue }) => queue)).difference(paused);
  const served = [...moving].filter((queue) => serving(queue).length > 0);
  const [line, free] = await Promise.all([lines(store, served), moving.size > 0 ? freeSlots(store, live) : null]);
  const bounds = await boundsAround(store, pending, live, now_ms);
  const dead = new Set(workers.filter(({ ended }) => ended === "dead").map(({ id }) => id));
  const unmetByJob = Map.groupBy(unmet, ({ job }) => job);
  const parentsOf = ({ id: job }: Job): Parent[] =>
    (unmetByJob.get(job) ?? []).map(({ parent: id, state, since_ms }) => ({ id, state, since_ms }));
  const factsOf = (job: Job): ReasonFacts => ({
    queue_paused: paused.has(job.queue),
    workers: ready ? takers(job).length : null,
    other_tasks: ready && serving(job.queue).length > 0 && ofTask(job).length === 0,
    free_slots: free === null ? null : takers(job).reduce((sum, { id }) => sum + (free.get(id) ?? 0), 0),
    jobs_before: line.positions.get(job.id) ?? null,
    in_line: line.lengths.get(job.queue) ?? null,
    parents: parentsOf(job),
    holder_dead: job.state.name === "running" && dead.has(job.state.holder),
    bound: job.state.name === "pending" ? bounds(job, takers(job)) : null,
  });
  const standsStill = (job: Job) => paused.has(job.queue) || (ready && takers(job).length === 0);
  return { reason: (job, at_ms) => reasonOf(job, factsOf(job), at_ms), parents: parentsOf, standsStill };
}

/** Null: there are too many leases to tell. */
async function freeSlots(store: Glance, workers: readonly WorkerRecord[]): Promise<Map<string, number> | null> {
  if (workers.length === 0) return null;
  const leases = await leasesByEnd(store, { most: MOST_LEASES });
  if (!leases.all) return null;
  const rows = await withHeldJobs(store, workers, leases);
  return new Map(rows.map(({ worker: { id, slots }, held }) => [id, Math.max(0, slots - held.length)]));
}

interface Lines {
  /** Job → how many of its queue are acquired before it; the long queues are not in here. */
  positions: Map<number, number>;
  /** Queue → how many are pending in it. */
  lengths: Map<string, number>;
}

async function lines(store: Glance, queues: readonly string[]): Promise<Lines> {
  const counts = queues.length === 0 ? [] : await store.counts();
  const pending = counts.filter(({ queue, state }) => state === "pending" && queues.includes(queue));
  const lengths = new Map(pending.map(({ queue, count }) => [queue, count]));
  let room = MOST_IN_LINE;
  const short = pending
    .toSorted((a, b) => a.count - b.count)
    .filter(({ count }) => (room -= count) >= 0)
    .map(({ queue }) => queue);
  const query = { states: ["pending"], queues: short, sort: "priority", newest_first: true } as const;
  // One more: a job that came in between makes the line too long to be sure about it.
  const found = short.length === 0 ? [] : await store.list({ ...query, limit: MOST_IN_LINE + 1 });
  return { lengths, positions: found.length > MOST_IN_LINE ? new Map() : positionsOf(found) };
}

function positionsOf(pending: readonly Job[]): Map<number, number> {
  // The order in which they are acquired.
  const inLine = pending.toSorted((a, b) => b.priority - a.priority || a.run_at_ms - b.run_at_ms || a.id - b.id);
  const byQueue = Map.groupBy(inLine, ({ queue }) => queue);
  return new Map([...byQueue.values()].flatMap((line) => line.map(({ id }, position) => [id, position] as const)));
}
