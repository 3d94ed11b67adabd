/**
 * The store in memory, as short as it can be said: a map of jobs, with `happen` as the only rule. It answers what
 * a real store must answer. Ids and the clock are the real store's, so that both speak of the same jobs and moments.
 */

import { expect } from "bun:test";
import type { JobChanges } from "../../src/core/changes.ts";
import type { Cause, Job, NewJob } from "../../src/core/job.ts";
import { isFinished, shownState, WAITED_FOR } from "../../src/core/job.ts";
import { isRefusal } from "../../src/core/transition.ts";
import type { EditAnswer, ExpiredQuery, ListQuery, PruneQuery } from "../../src/store/queries.ts";
import type * as Contract from "../../src/store/store.ts";
import { jobIn } from "../support/jobs.ts";
import { happen, type LifeChange, type LifeEvent, type LifeRefusal } from "./life.ts";

export interface ReferenceAttempt {
  token: number;
  worker: string;
  cause: Cause | null;
}

const SORT_KEYS: Readonly<Record<NonNullable<ListQuery["sort"]>, (job: Job) => number | null>> = {
  id: ({ id }) => id,
  priority: ({ priority }) => priority,
  due: ({ run_at_ms }) => run_at_ms,
  started: ({ started_at_ms }) => started_at_ms,
  finished: ({ state }) => (isFinished(state) ? state.finished_at_ms : null),
  attempts: ({ token }) => token,
};

const countsFor = ({ queue, limits }: Job, name: string): boolean => queue === name || limits.includes(name);

export class Reference {
  now_ms = 0;
  readonly jobs = new Map<number, Job>();
  readonly attempts = new Map<number, ReferenceAttempt[]>();
  /** Of all jobs that ever were. */
  newest_id = 0;
  readonly #progress = new Map<number, string>();
  /** Job → whom it waits for → in which states that may end. */
  readonly #waits = new Map<number, Map<number, readonly string[]>>();
  readonly #limits = new Map<string, number>();
  /** By job, what its newest attempt was given. */
  readonly #gpus = new Map<number, string[]>();

  /** What the batch would answer; null where an id is to be given out by the store. */
  plan(asked: NewJob): { id: number | null } | { error: "key_exists" } {
    const live = this.#live(asked.key);
    if (live === null) return { id: null };
    if (asked.if_exists === "skip") return { id: live.id };
    return asked.if_exists === "fail" || live.state.name === "running" ? { error: "key_exists" } : { id: null };
  }

  add(id: number, asked: NewJob): void {
    const live = this.#live(asked.key);
    if (live) this.#apply(live.id, { type: "cancel", reason: "replaced" });
    const run_at_ms = this.#dueAt(asked);
    const name = run_at_ms > this.now_ms ? "scheduled" : "pending";
    const { queue, task, key, priority, settings, limits, needs } = asked;
    this.jobs.set(
      id,
      jobIn({ name, run_at_ms }, { id, queue, task, key, priority, settings, limits, needs, run_at_ms }),
    );
    this.attempts.set(id, []);
    this.newest_id = id;
    this.#link(id, asked);
  }

  #dueAt({ run_at_ms, delay_ms }: Pick<NewJob, "run_at_ms" | "delay_ms">): number {
    return Math.max(run_at_ms ?? this.now_ms, this.now_ms + delay_ms);
  }

  #link(id: number, { after, after_any, after_failed }: Pick<NewJob, "after" | "after_any" | "after_failed">): void {
    const waits = new Map<number, readonly string[]>([
      ...after_any.map((parent) => [parent, ["completed", "failed", "cancelled"]] as const),
      ...after_failed.map((parent) => [parent, ["failed"]] as const),
      ...after.map((parent) => [parent, ["completed"]] as const),
    ]);
    if (waits.size === 0) return;
    this.#waits.set(id, waits);
    this.jobs.set(id, { ...this.#get(id), state: { name: "blocked" } });
    for (const parent of waits.keys()) this.#meet(id, parent);
  }

  /** What the end of one means for another that waits for it. */
  #meet(id: number, parent: number): void {
    const { name } = this.#get(parent).state;
    if (!["completed", "failed", "cancelled"].includes(name)) return;
    if (this.#waits.get(id)?.get(parent)?.includes(name) === true) this.#free(id);
    else this.#apply(id, { type: "doom", reason: `job ${parent}${WAITED_FOR}${name}` });
  }

  /** If all that it waits for have ended as they should. */
  #free(id: number): void {
    const waits = [...(this.#waits.get(id) ?? [])];
    const satisfied = waits.every(([parent, ends]) => ends.includes(this.jobs.get(parent)?.state.name ?? ends[0]!));
    if (satisfied) this.#apply(id, { type: "unblock" });
  }

  setLimit(name: string, most: number | null): void {
    if (most === null) this.#limits.delete(name);
    else this.#limits.set(name, most);
  }

  limits(): { name: string; most: number; running: number; waiting: number }[] {
    const count = (name: string, state: string): number =>
      this.#all().filter((job) => job.state.name === state && countsFor(job, name)).length;
    return [...this.#limits]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, most]) => ({ name, most, running: count(name, "running"), waiting: count(name, "pending") }));
  }

  acquire(request: Contract.AcquireRequest): { id: number; token: number; checkpoint: string | null; held: object }[] {
    this.promote();
    const { queues, task, count } = request;
    const rank = (job: Job): number => (queues === null ? 0 : queues.indexOf(job.queue));
    const isAskedFor = (job: Job): boolean =>
      request.job === undefined ? rank(job) >= 0 && (task === null || job.task === task) : job.id === request.job;
    const ready = this.#all()
      .filter((job) => job.state.name === "pending" && isAskedFor(job))
      .toSorted((a, b) => rank(a) - rank(b) || b.priority - a.priority || a.run_at_ms - b.run_at_ms || a.id - b.id);
    const granted = [];
    const kept = new Map<number, number>();
    for (const job of ready) {
      if (granted.length === count) break;
      const { gpu = 0 } = job.needs;
      const free = this.#freeGpus(request);
      const left = free.length - kept.values().reduce((sum, some) => sum + some, 0);
      const full = this.limits().some(({ name, most, running }) => countsFor(job, name) && running >= most);
      if (!full && (gpu === 0 || left >= gpu))
        granted.push(this.#grant(job, request, gpu === 0 ? {} : { gpu: free.slice(0, gpu) }));
      // It has waited long enough, and the machine has as many: those behind it get what is left.
      else if (!full && request.have !== undefined && this.now_ms - job.run_at_ms >= 60_000) kept.set(gpu, gpu);
    }
    return granted;
  }

  #grant({ id, settings }: Job, { holder, ...request }: Contract.AcquireRequest, held: { gpu?: string[] }) {
    const lease_ms = typeof settings.lease_ms === "number" ? settings.lease_ms : request.lease_ms;
    this.#apply(id, { type: "acquire", holder, lease_ms });
    const granted = this.#get(id);
    const { token } = granted;
    this.jobs.set(id, { ...granted, started_at_ms: this.now_ms });
    this.attempts.get(id)?.push({ token, worker: holder, cause: null });
    this.#gpus.set(id, held.gpu ?? []);
    return { id, token, checkpoint: this.#progress.get(id) ?? null, held };
  }

  #freeGpus({ have }: Contract.AcquireRequest): string[] {
    const running = this.#all().filter(({ state }) => state.name === "running");
    const taken = new Set(running.flatMap(({ id }) => this.#gpus.get(id) ?? []));
    return ((have?.["gpu"] ?? []) as string[]).filter((id) => !taken.has(id));
  }

  extend({ id, token, expires_in_ms, beat_age_ms }: Contract.ExtendRequest): string {
    if (!this.jobs.has(id)) return "expired";
    const asked = this.#isAsked(id);
    const refusal = this.#apply(id, { type: "extend", token, lease_ms: expires_in_ms - (beat_age_ms ?? 0) });
    return refusal ? refusal.refused : asked ? "extended, cancel requested" : "extended";
  }

  settle({ id, token, change, ended_at_ms }: Contract.SettleRequest): string {
    if (!this.jobs.has(id)) return "stale, expired";
    const job = this.#get(id);
    const { ended } = change;
    const event = { type: "settle", token, end: ended, ...(ended_at_ms === undefined ? {} : { ended_at_ms }) } as const;
    const outcome = happen(job, event, this.#moment());
    if (isRefusal(outcome)) return `stale, ${outcome.refused}`;
    // The worker may not have known of a request to stop; only what comes to the same is taken from it.
    if (outcome.state.name !== change.state.name) return "cancelling";
    this.#write(id, outcome);
    return "applied";
  }

  checkpoint({ id, token, text }: Contract.CheckpointRequest): string {
    if (!this.jobs.has(id)) return "expired";
    const refusal = happen(this.#get(id), { type: "extend", token, lease_ms: 0 }, this.#moment());
    if (isRefusal(refusal)) return refusal.refused;
    this.#progress.set(id, text);
    return "accepted";
  }

  expired({ grace_ms, dead_holders }: ExpiredQuery): number[] {
    const found = this.#all().flatMap(({ id, state }) => (state.name === "running" ? [{ id, ...state }] : []));
    return found
      .filter((lease) => lease.expires_at_ms + grace_ms < this.now_ms || dead_holders.includes(lease.holder))
      .toSorted((a, b) => a.expires_at_ms - b.expires_at_ms || a.id - b.id)
      .map(({ id }) => id);
  }

  recover({ id, token, expires_at_ms, change }: Contract.RecoverRequest): "recovered" | "changed" {
    if (!this.jobs.has(id)) return "changed";
    const { state, token: current, reason } = this.#get(id);
    if (state.name !== "running" || current !== token || state.expires_at_ms !== expires_at_ms) return "changed";
    if (this.#isAsked(id) && change.state.name !== "cancelled") return "changed";
    // A second request to stop may have brought a reason since the sweep looked.
    this.#write(id, change.state.name === "cancelled" ? { ...change, reason: change.reason ?? reason } : change);
    return "recovered";
  }

  cancel(id: number, reason: string | null): string {
    const { state } = this.#get(id);
    if (this.#apply(id, { type: "cancel", reason })) return "finished";
    return state.name === "running" ? "cancelling" : "cancelled";
  }

  retry(ids: readonly number[]): string[] {
    const answers = ids.map((id) => {
      const { state, key } = this.#get(id);
      if (isFinished(state) && this.#live(key)) return "key_taken";
      if (this.#apply(id, { type: "retry", waits: this.#waits.has(id) })) return "not_finished";
      this.jobs.set(id, { ...this.#get(id), run_at_ms: this.now_ms });
      return null;
    });
    return answers.map((answer, index) => {
      const id = ids[index] as number;
      if (answer === null) this.#free(id);
      return answer ?? this.#get(id).state.name;
    });
  }

  /** All or none. One of them may be cancelled by what became of another before it. */
  edit(ids: readonly number[], changes: JobChanges): EditAnswer[] | "dependency" {
    const before = { jobs: [...this.jobs], waits: [...this.#waits] };
    const answers: EditAnswer[] = [];
    for (const id of ids) {
      const job = this.#get(id);
      const state = job.state.name;
      const waits = state === "blocked" || state === "scheduled" || state === "pending";
      answers.push({ id, status: waits ? "changed" : "not_waiting", state });
      if (!waits) continue;
      this.#change(job, changes);
      if (!this.#above(id).has(id)) continue;
      this.#waits.clear();
      for (const [child, parents] of before.waits) this.#waits.set(child, parents);
      for (const [one, was] of before.jobs) this.jobs.set(one, was);
      return "dependency";
    }
    return answers;
  }

  #change(job: Job, { parents, when, settings, ...rest }: JobChanges): void {
    const { id } = job;
    const run_at_ms = when === undefined ? job.run_at_ms : this.#dueAt(when);
    const ready: Job["state"] = { name: run_at_ms > this.now_ms ? "scheduled" : "pending", run_at_ms };
    const { name } = job.state;
    // What was due once stays so, whatever the clock says.
    const stays = parents === undefined ? name === "blocked" : false;
    const state = stays || (name === "pending" && when === undefined) ? job.state : ready;
    this.jobs.set(id, { ...job, ...rest, settings: { ...job.settings, ...settings }, run_at_ms, state });
    if (parents === undefined) return;
    this.#waits.delete(id);
    this.#link(id, parents);
  }

  /** Whom it waits for, and whom those wait for, and so on. */
  #above(id: number): Set<number> {
    const above = new Set(this.#waits.get(id)?.keys());
    for (const one of above) for (const parent of this.#waits.get(one)?.keys() ?? []) above.add(parent);
    return above;
  }

  /** Who waits for whom, or has waited. */
  links(): string[] {
    return [...this.#waits].flatMap(([id, waits]) => [...waits.keys()].map((parent) => `${id} ${parent}`));
  }

  promote(): number {
    return this.#all().filter(({ id }) => this.#apply(id, { type: "due" }) === null).length;
  }

  cancelRequests(holder: string): string[] {
    return this.#all()
      .filter(({ id, state }) => state.name === "running" && state.holder === holder && this.#isAsked(id))
      .map(({ id, token }) => `${id} ${token}`);
  }

  prune({ older_than_ms, states, queues, task, limit }: PruneQuery & { limit: number }): number {
    const before_ms = this.now_ms - older_than_ms;
    const old = this.#all().flatMap((job) => {
      const { state } = job;
      if (!isFinished(state) || !states.includes(state.name) || state.finished_at_ms > before_ms) return [];
      const isMissed = (id: number): boolean =>
        this.#get(id).state.name === "blocked" && this.#waits.get(id)?.get(job.id)?.includes(state.name) === false;
      if (this.#children(job.id).some(isMissed)) return [];
      if (queues?.includes(job.queue) === false || (task !== undefined && job.task !== task)) return [];
      return [{ id: job.id, finished_at_ms: state.finished_at_ms }];
    });
    const gone = old.toSorted((a, b) => a.finished_at_ms - b.finished_at_ms || a.id - b.id).slice(0, limit);
    for (const { id } of gone) {
      this.jobs.delete(id);
      this.attempts.delete(id);
      this.#progress.delete(id);
      for (const waits of this.#waits.values()) waits.delete(id);
      for (const [child, waits] of this.#waits) if (child === id || waits.size === 0) this.#waits.delete(child);
    }
    return gone.length;
  }

  list(query: ListQuery): number[] {
    const { ids, queues, states, behind_id, newest_first } = query;
    const sign = newest_first ? -1 : 1;
    const found = this.#all().filter((job) => {
      const { state } = job;
      return (
        (ids?.includes(job.id) ?? true) &&
        (queues?.includes(job.queue) ?? true) &&
        (states?.includes(shownState(job)) ?? true) &&
        (query.task === undefined || job.task === query.task) &&
        (query.key === undefined || job.key === query.key) &&
        (query.holder === undefined || (state.name === "running" && state.holder === query.holder)) &&
        (behind_id === undefined || sign * (job.id - behind_id) > 0)
      );
    });
    const by = SORT_KEYS[query.sort ?? "id"];
    // Those without a value come last, whichever way round.
    const order = (a: number | null, b: number | null): number =>
      a === b ? 0 : a === null ? 1 : b === null ? -1 : sign * (a - b);
    const sorted = found.toSorted((a, b) => order(by(a), by(b)) || order(a.id, b.id));
    return sorted.slice(0, query.limit).map(({ id }) => id);
  }

  /** Each queue and state with how many jobs it has; how many that ran to their end took how many retries. */
  figures(): { counts: Record<string, number>; retries: Record<string, number> } {
    const counts: Record<string, number> = {};
    const retries: Record<string, number> = {};
    const add = (to: Record<string, number>, name: string): void => {
      to[name] = (to[name] ?? 0) + 1;
    };
    for (const { queue, state, token } of this.#all()) {
      add(counts, `${queue} ${state.name}`);
      if (state.name === "completed" || state.name === "failed") add(retries, String(token - 1));
    }
    return { counts, retries };
  }

  /** Awaited: those that wait, and others for them. */
  ids(which: "all" | "waiting" | "awaited" | "ended"): number[] {
    const is = ({ id, state }: Job): boolean => {
      if (which === "ended") return isFinished(state);
      const waits = state.name !== "running" && !isFinished(state);
      return which === "all" || (waits && (which === "waiting" || this.blockedBy(id).length > 0));
    };
    return this.#all()
      .filter(is)
      .map(({ id }) => id);
  }

  blockedBy(parent: number): number[] {
    return this.#children(parent).filter((id) => this.#get(id).state.name === "blocked");
  }

  #children(parent: number): number[] {
    return [...this.#waits].flatMap(([id, waits]) => (waits.has(parent) ? [id] : []));
  }

  #all(): Job[] {
    return [...this.jobs.values()];
  }

  #get(id: number): Job {
    const job = this.jobs.get(id);
    if (!job) throw new Error(`the model has no job ${id}`);
    return job;
  }

  #live(key: string | null): Job | null {
    return this.#all().find((job) => key !== null && job.key === key && !isFinished(job.state)) ?? null;
  }

  #isAsked(id: number): boolean {
    const { state } = this.#get(id);
    return state.name === "running" && state.cancel_requested_at_ms !== null;
  }

  #moment(): { now_ms: number; random: () => number } {
    return { now_ms: this.now_ms, random: () => 0.5 };
  }

  #apply(id: number, event: LifeEvent): LifeRefusal | null {
    const answer = happen(this.#get(id), event, this.#moment());
    if (isRefusal(answer)) return answer;
    this.#write(id, answer);
    return null;
  }

  #write(id: number, { state, token, failures, result, reason, ended }: LifeChange): void {
    const job = this.#get(id);
    const run_at_ms = "run_at_ms" in state ? state.run_at_ms : job.run_at_ms;
    this.jobs.set(id, { ...job, state, token, failures, result, reason, run_at_ms });
    if (!isFinished(job.state) && isFinished(state)) for (const child of this.#children(id)) this.#meet(child, id);
    if (ended === null) return;
    const attempt = this.attempts.get(id)?.at(-1);
    expect(attempt).toMatchObject({ token, cause: null });
    if (attempt) attempt.cause = ended.cause;
  }
}
