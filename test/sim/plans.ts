/**
 * What bounds and plans jobs, under the eyes of the checker: limits and rates, what a machine has, paused queues, whose
 * turn it is, schedules, priorities that rise, and what may be pruned. Invariants from 21 on, beside those of DESIGN §5.
 */

import { isDeepStrictEqual } from "node:util";
import type { LimitSettings } from "../../src/core/gate.ts";
import { limitsOf } from "../../src/core/gate.ts";
import { isFinished, type Job } from "../../src/core/job.ts";
import type { PruneQuery } from "../../src/store/queries.ts";
import type { AcquireRequest, Grant } from "../../src/store/store.ts";
import { object, type Jobs, type Write } from "./objection.ts";

/** What every machine of the simulation has. */
export const HAVE = { gpu: ["0", "1"], mem: 8 };

/** The ends that a parent may come to, by job. */
export type Parents = ReadonlyMap<number, readonly string[]>;

export class Plans {
  readonly #note: (what: string) => void;
  readonly #limits = new Map<string, LimitSettings>();
  /** By limit that has a rate, when jobs of it began. */
  readonly #starts = new Map<string, number[]>();
  readonly #paused = new Set<string>();
  /** What its newest attempt was given, by job. */
  readonly #held = new Map<number, Grant["held"]>();
  /** Times of schedules that have become jobs. */
  readonly #fired = new Set<string>();

  constructor(note: (what: string) => void) {
    this.#note = note;
  }

  /** The clock was set: what was counted by it does not count any more. */
  jumped(): void {
    this.#starts.clear();
  }

  setLimit(name: string, limit: LimitSettings | null): void {
    if (limit?.rate === undefined || limit.rate === null) this.#starts.delete(name);
    if (limit === null) this.#limits.delete(name);
    else this.#limits.set(name, limit);
  }

  setPaused(queues: readonly string[], paused: boolean): void {
    for (const queue of queues) {
      if (paused) this.#paused.add(queue);
      else this.#paused.delete(queue);
    }
  }

  /** `request` is null for a job that was granted as it was enqueued. */
  granted({ before, after }: Write, request: AcquireRequest | null, grants: readonly Grant[]): void {
    for (const { job } of grants) {
      if (request !== null && request.job === undefined && this.#paused.has(job.queue))
        object(24, `job ${job.id} was granted from queue ${job.queue}, which is paused`);
    }
    this.#limited(before, after);
    this.#rated(grants);
    for (const { job, held } of grants) this.#given(job, held);
    this.#shared(after);
    if (request !== null && request.job === undefined) this.#inTurn(after, request, grants);
  }

  #limited(before: Jobs, after: Jobs): void {
    for (const [name, { most }] of this.#limits) {
      if (most === null) continue;
      const [had, has] = [countRunning(before, name), countRunning(after, name)];
      if (has >= most && after.values().some((job) => job.state.name === "pending" && counts(job, name)))
        this.#note("limit full");
      if (has > Math.max(most, had)) object(21, `${has} jobs of limit ${name} run, and ${most} may`);
    }
  }

  #rated(grants: readonly Grant[]): void {
    for (const { job } of grants) {
      const now_ms = job.started_at_ms ?? 0;
      for (const [name, { rate }] of this.#limits) {
        if (rate === null || !counts(job, name)) continue;
        const starts = [...(this.#starts.get(name) ?? []), now_ms].filter((at_ms) => at_ms > now_ms - rate.per_ms);
        this.#starts.set(name, starts);
        this.#note("rated start");
        if (starts.length > rate.count)
          object(25, `${starts.length} jobs of limit ${name} began within ${rate.per_ms} ms, and ${rate.count} may`);
      }
    }
  }

  #given({ id, needs }: Job, held: Grant["held"]): void {
    this.#held.set(id, held);
    for (const [name, need] of Object.entries(needs)) {
      const got = held[name] ?? 0;
      this.#note("held");
      if ((typeof got === "number" ? got : got.length) !== need)
        object(22, `job ${id} needs ${need} of ${name} and was given ${JSON.stringify(got)}`);
    }
  }

  /** All simulated jobs run on one machine. */
  #shared(after: Jobs): void {
    const running = [...after.values()].filter(({ state }) => state.name === "running");
    const held = running.map(({ id }) => this.#held.get(id) ?? {});
    const ids = held.flatMap(({ gpu }) => (Array.isArray(gpu) ? (gpu as string[]) : []));
    if (new Set(ids).size < ids.length) object(22, `two jobs hold the same of ${ids.toSorted().join()}`);
    const used = held.reduce((sum, { mem }) => sum + (typeof mem === "number" ? mem : 0), 0);
    if (used > HAVE.mem) object(22, `jobs hold ${used} of mem, and there are ${HAVE.mem}`);
  }

  /** Of those that nothing bounds nobody is left behind for one whose turn comes later. */
  #inTurn(after: Jobs, { queues, task }: AcquireRequest, grants: readonly Grant[]): void {
    const free = ({ limits, needs, queue }: Job) =>
      limits.length === 0 && Object.keys(needs).length === 0 && !this.#paused.has(queue) && !this.#limits.has(queue);
    const waiting = [...after.values()].filter((job) => job.state.name === "pending" && free(job));
    for (const { job } of grants) {
      const behind = (other: Job) =>
        (queues === null ? true : other.queue === job.queue) &&
        (task === null || other.task === task) &&
        (other.priority > job.priority || (other.priority === job.priority && other.run_at_ms < job.run_at_ms));
      const passed = free(job) ? waiting.find(behind) : undefined;
      if (passed !== undefined) object(26, `job ${job.id} was granted before job ${passed.id}, whose turn it was`);
    }
  }

  fired({ id, env }: Job): void {
    this.#note("fired");
    const time = `${env["LEASE_SCHEDULE"]} ${env["LEASE_SCHEDULED_AT"]}`;
    if (this.#fired.has(time)) object(23, `${time} became a second job, ${id}`);
    this.#fired.add(time);
  }

  /** Only what waits rises, and nothing else of it changes. */
  aged(was: Job, job: Job): void {
    if (was === job) return;
    const { priority, settings } = was;
    if (was.state.name !== "pending" || job.priority < priority)
      object(27, `job ${job.id} went from priority ${priority} to ${job.priority} while ${was.state.name}`);
    if (!isDeepStrictEqual({ ...job, priority, settings }, was)) object(27, `age changed more of job ${job.id}`);
    this.#note("aged");
  }

  /** Only what has ended long ago goes, and not while somebody waits for it to end otherwise. */
  pruned({ id, state }: Job, { older_than_ms, states }: PruneQuery, now_ms: number, awaited: Job | undefined): void {
    this.#note("pruned");
    if (!isFinished(state) || !states.includes(state.name))
      return object(28, `job ${id} was pruned while ${state.name}`);
    const age_ms = now_ms - state.finished_at_ms;
    if (age_ms < older_than_ms) object(28, `job ${id} was pruned after ${age_ms} ms`);
    if (awaited !== undefined) object(28, `job ${id} was pruned, and job ${awaited.id} waits for it`);
  }
}

const counts = (job: Job, name: string): boolean => limitsOf(job.queue, job).includes(name);

function countRunning(jobs: Jobs, name: string): number {
  let count = 0;
  for (const job of jobs.values()) if (job.state.name === "running" && counts(job, name)) count += 1;
  return count;
}
