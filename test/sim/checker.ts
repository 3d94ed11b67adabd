/**
 * Holds a store to the invariants of DESIGN §5: told of every write, what was asked, what was answered, and all jobs
 * before and after it. The numbers in the objections are those of the design.
 */

import { isDeepStrictEqual } from "node:util";
import type { LimitSettings } from "../../src/core/gate.ts";
import type { Job, NewJob } from "../../src/core/job.ts";
import { isFinished } from "../../src/core/job.ts";
import type { CancelAnswer, RetryAnswer } from "../../src/store/queries.ts";
import type * as Contract from "../../src/store/store.ts";

export type Jobs = ReadonlyMap<number, Job>;

export class Objection extends Error {}

/** What the checker can't see in the store. */
export interface Witness {
  /** Proven dead, and still dead. */
  isDead: (holder: string) => boolean;
  /** Workers that are neither frozen nor dead and have a child of that job running. */
  running: (job: number) => string[];
  endedAt: (job: number, token: number) => Promise<number | null>;
}

interface Known {
  retries: number;
  /** Since it was enqueued, or retried by a person. */
  attempts: number;
  returned: number;
  succeeded: boolean;
  cancelled: boolean;
  progress: string | null;
  /** Those that it waits for, with the states in which they may have ended. */
  parents: ReadonlyMap<number, readonly string[]>;
  /** Tokens whose attempt has ended, by settle or by recovery. */
  ended: Set<number>;
}

export interface Write {
  verb: keyof Contract.Store;
  args: readonly unknown[];
  answer: unknown;
  before: Jobs;
  after: Jobs;
  /** The store's clock when the write was asked for: it is committed then or later. */
  asked_at_ms: number;
}

export class Checker {
  /** How often what happened, so that a simulation can be held to having tried it. */
  readonly seen: Record<string, number> = {};
  readonly #witness: Witness;
  readonly #grace_ms: number;
  readonly #known = new Map<number, Known>();
  readonly #limits = new Map<string, number>();
  /** By job, the ids that its newest attempt was given. */
  readonly #held = new Map<number, readonly string[]>();
  /** Times of schedules that have become jobs. */
  readonly #fired = new Set<string>();

  constructor(witness: Witness, grace_ms: number) {
    this.#witness = witness;
    this.#grace_ms = grace_ms;
  }

  note(what: string): void {
    this.seen[what] = (this.seen[what] ?? 0) + 1;
  }

  async check(write: Write): Promise<void> {
    this.#whatMayChange(write);
    const { verb, args, answer } = write;
    if (verb === "enqueue") this.#enqueued(write, args[0] as NewJob[], answer as Contract.Enqueued[]);
    else if (verb === "acquire") {
      this.#granted(write, answer as Contract.Grant[]);
      this.#bounded(write, answer as Contract.Grant[]);
    } else if (verb === "setLimit") this.#limited(args[0] as string, args[1] as LimitSettings | null);
    else if (verb === "fire") this.#wasFired(write);
    else if (verb === "extend")
      this.#extended(write, args[0] as Contract.ExtendRequest[], answer as Contract.ExtendAnswer[]);
    else if (verb === "settle")
      this.#settled(write, args[0] as Contract.SettleRequest[], answer as Contract.SettleAnswer[]);
    else if (verb === "checkpoint") this.#noted(write, args[0] as Contract.CheckpointRequest[], answer as string[]);
    else if (verb === "recover") await this.#recovered(write, args[0] as Contract.RecoverRequest[], answer as string[]);
    else if (verb === "cancel") this.#cancelled(answer as CancelAnswer[]);
    else if (verb === "retry") this.#retried(write, answer as RetryAnswer[]);
  }

  /** Whatever was written: nothing vanishes, nothing appears, and only the right verbs move a job. */
  #whatMayChange({ verb, before, after }: Write): void {
    for (const id of before.keys()) if (!after.has(id)) object(1, `job ${id} is gone after ${verb}`);
    const keys = new Set<string>();
    for (const [id, job] of after) {
      const was = before.get(id);
      const live = !isFinished(job.state);
      if (live && job.key !== null && keys.has(job.key)) object(10, `key ${job.key} has two live jobs after ${verb}`);
      if (live && job.key !== null) keys.add(job.key);
      if (was === undefined) {
        if (verb === "settle" || verb === "recover") this.#hooked(verb, job, before, after);
        else if (verb !== "enqueue" && verb !== "fire") object(2, `${verb} made job ${id}`);
        continue;
      }
      const [ran, runs] = [was.state.name === "running", job.state.name === "running"];
      if (job.token !== was.token && verb !== "acquire") object(3, `${verb} changed the token of job ${id}`);
      if (isFinished(was.state) && verb !== "retry" && !isDeepStrictEqual(was, job))
        object(6, `${verb} changed finished job ${id}`);
      if (!ran && runs && verb !== "acquire") object(4, `${verb} made job ${id} run`);
      const waited = was.state.name === "blocked" || (verb === "retry" && isFinished(was.state));
      if (waited && live && job.state.name !== "blocked") this.#mustBeFree(verb, id, after);
      if (verb === "edit" && ran && !isDeepStrictEqual(was, job)) object(5, `edit changed job ${id}, which runs`);
      if (ran && job.state.name === "failed" && job.settings.on_failed !== null && job.settings.hook === null) {
        const made = [...after.values()].filter(({ settings }) => isAbout(settings, job));
        if (made.length !== 1) object(2, `job ${id} failed for good, and has ${made.length} hooks`);
      }
      if (ran && !runs && verb !== "settle" && verb !== "recover") object(6, `${verb} ended the attempt of job ${id}`);
    }
  }

  /** What a failure for good has queued. */
  #hooked(verb: string, { id, settings }: Job, before: Jobs, after: Jobs): void {
    const failed = settings.hook === null ? undefined : after.get(settings.hook.job);
    if (failed === undefined || failed.settings.hook !== null) return object(2, `${verb} made job ${id}`);
    if (failed.state.name !== "failed" || before.get(failed.id)!.state.name !== "running") {
      object(2, `${verb} made hook ${id} of job ${failed.id}, which is ${failed.state.name}`);
    }
    this.note("hook queued");
    this.#know(id, settings.retries, new Map());
  }

  #enqueued({ before, after }: Write, jobs: readonly NewJob[], answers: readonly Contract.Enqueued[]): void {
    for (const [index, { id, created }] of answers.entries()) {
      if (!created) continue;
      if (before.has(id)) object(2, `job ${id} was enqueued twice`);
      if (!after.has(id)) object(1, `job ${id} was acknowledged and is not there`);
      this.#know(id, jobs[index]!.settings.retries, parentsOf(jobs[index]!));
      if (after.get(id)!.state.name !== "blocked") this.#mustBeFree("enqueue", id, after);
    }
  }

  #limited(name: string, limit: LimitSettings | null): void {
    if (limit?.most === undefined || limit.most === null) this.#limits.delete(name);
    else this.#limits.set(name, limit.most);
  }

  /** No more than a limit allows start, and no two that run have the same of a machine. */
  #bounded({ before, after }: Write, grants: readonly Contract.Grant[]): void {
    const running = (jobs: Jobs, name: string): number =>
      jobs
        .values()
        .filter((job) => job.state.name === "running" && job.limits.includes(name))
        .toArray().length;
    for (const [name, most] of this.#limits) {
      const [had, has] = [running(before, name), running(after, name)];
      if (has >= most && after.values().some((job) => job.state.name === "pending" && job.limits.includes(name)))
        this.note("limit full");
      if (has > Math.max(most, had)) object(21, `${has} jobs of limit ${name} run, and ${most} may`);
    }
    for (const { job, held } of grants) {
      const ids = (held["gpu"] ?? []) as readonly string[];
      if (ids.length > 0) this.note("held");
      if (ids.length !== (job.needs["gpu"] ?? 0)) object(22, `job ${job.id} was given ${ids.join() || "nothing"}`);
      this.#held.set(job.id, ids);
    }
    const taken = [...after.values()].flatMap(({ id, state }) =>
      state.name === "running" ? (this.#held.get(id) ?? []) : [],
    );
    if (new Set(taken).size < taken.length) object(22, `two jobs hold the same of ${taken.toSorted().join()}`);
  }

  #wasFired({ before, after }: Write): void {
    for (const [id, { env, settings }] of after) {
      if (before.has(id)) continue;
      this.note("fired");
      const time = `${env["LEASE_SCHEDULE"]} ${env["LEASE_SCHEDULED_AT"]}`;
      if (this.#fired.has(time)) object(23, `${time} became a second job, ${id}`);
      this.#fired.add(time);
      this.#know(id, settings.retries, new Map());
    }
  }

  #know(id: number, retries: number, parents: Known["parents"]): void {
    const fresh = {
      attempts: 0,
      returned: 0,
      succeeded: false,
      cancelled: false,
      progress: null,
      ended: new Set<number>(),
    };
    this.#known.set(id, { retries, parents, ...fresh });
  }

  /** A job that may run now: all that it waits for have ended as they should. Cancelled is something else. */
  #mustBeFree(verb: string, id: number, after: Jobs): void {
    if (isFinished(after.get(id)!.state)) return;
    for (const [parent, ends] of this.#of(id).parents) {
      this.note("freed");
      const { name } = after.get(parent)!.state;
      if (!ends.includes(name)) object(14, `${verb} freed job ${id} while job ${parent} is ${name}`);
    }
  }

  #granted({ before, after }: Write, grants: readonly Contract.Grant[]): void {
    for (const { job, lease_ms, expires_at_ms, checkpoint } of grants) {
      const known = this.#of(job.id);
      const was = before.get(job.id)!;
      const now_ms = expires_at_ms - lease_ms;
      this.note("granted");
      if (job.token !== was.token + 1) object(3, `job ${job.id} went from token ${was.token} to ${job.token}`);
      if (was.state.name === "running") object(4, `job ${job.id} was granted while it ran`);
      const due = was.state.name === "pending" || (was.state.name === "scheduled" && was.state.run_at_ms <= now_ms);
      if (!due) object(4, `job ${job.id} was granted while ${was.state.name}`);
      if (known.succeeded) object(7, `job ${job.id} was granted after it had succeeded`);
      if (known.cancelled) object(11, `job ${job.id} was granted after it was cancelled`);
      if (checkpoint !== known.progress)
        object(13, `job ${job.id} got checkpoint ${checkpoint}, not ${known.progress}`);
      known.attempts += 1;
      const most = 1 + known.retries + known.returned;
      if (known.attempts > most) object(9, `job ${job.id} has ${known.attempts} attempts, and ${most} are allowed`);
      const others = this.#witness.running(job.id);
      if (others.length > 0) object(20, `job ${job.id} was granted while it ran at ${others.join()}`);
      if (after.get(job.id)!.state.name !== "running") object(4, `job ${job.id} was granted and does not run`);
    }
  }

  #extended(write: Write, asked: readonly Contract.ExtendRequest[], answers: readonly Contract.ExtendAnswer[]): void {
    for (const [index, { id, token }] of asked.entries()) {
      const answer = answers[index]!;
      this.note(`extend ${answer.status}`);
      if (answer.status !== "extended") {
        unchanged(write, id, "a refused extension");
        continue;
      }
      this.#mustHold(write, id, token, "an extension", asked[index]!.jumped_ms);
      const { state } = write.after.get(id)!;
      if (state.name !== "running" || state.expires_at_ms !== answer.expires_at_ms)
        object(5, `job ${id}: wrong expiry`);
    }
  }

  #settled(write: Write, asked: readonly Contract.SettleRequest[], answers: readonly Contract.SettleAnswer[]): void {
    for (const [index, { id, token, change, ended_at_ms = Infinity }] of asked.entries()) {
      const { status } = answers[index]!;
      this.note(`settle ${status}`);
      if (status !== "applied") {
        unchanged(write, id, `a ${status} settle`);
        continue;
      }
      const was = write.before.get(id)!;
      if (was.state.name !== "running" || was.token !== token)
        object(5, `job ${id}: a settle with token ${token} of ${was.token}`);
      this.#end(write, id, token, change.ended?.cause === "returned");
      const asked_at_ms = was.state.name === "running" ? was.state.cancel_requested_at_ms : null;
      const { name } = write.after.get(id)!.state;
      const ended_first =
        (name === "completed" || name === "failed") && asked_at_ms !== null && ended_at_ms < asked_at_ms;
      if (ended_first) this.note("ended before the cancel");
      if (asked_at_ms !== null && name !== "cancelled" && !ended_first)
        object(11, `cancelled job ${id} became ${name}`);
    }
  }

  #noted(write: Write, asked: readonly Contract.CheckpointRequest[], answers: readonly string[]): void {
    for (const [index, { id, token, text }] of asked.entries()) {
      this.note(`checkpoint ${answers[index]}`);
      if (answers[index] !== "accepted") continue;
      this.#mustHold(write, id, token, "a checkpoint");
      this.#of(id).progress = text;
    }
  }

  async #recovered(write: Write, asked: readonly Contract.RecoverRequest[], answers: readonly string[]): Promise<void> {
    for (const [index, { id, token, change }] of asked.entries()) {
      this.note(`recover ${answers[index]} ${change.ended?.cause}`);
      if (answers[index] !== "recovered") {
        unchanged(write, id, "a recovery that came too late");
        continue;
      }
      const { state, token: current } = write.before.get(id)!;
      if (state.name !== "running" || current !== token) {
        object(8, `job ${id} was recovered with token ${token} of ${current}, ${state.name}`);
        continue;
      }
      const committed_at_ms = (await this.#witness.endedAt(id, token)) ?? write.asked_at_ms;
      const expired = committed_at_ms > state.expires_at_ms + this.#grace_ms;
      if (!expired && !this.#witness.isDead(state.holder)) {
        object(
          8,
          `job ${id} was taken from ${state.holder}, which lives, ${state.expires_at_ms - committed_at_ms} ms early`,
        );
      }
      this.#end(write, id, token, false);
    }
  }

  #cancelled(answers: readonly CancelAnswer[]): void {
    for (const { id, status } of answers) {
      this.note(`cancel ${status}`);
      if (status === "cancelled" || status === "cancelling") this.#of(id).cancelled = true;
    }
  }

  #retried({ before }: Write, answers: readonly RetryAnswer[]): void {
    for (const { id, status } of answers) {
      this.note(`retry ${status}`);
      if (status !== "pending" && status !== "blocked") continue;
      if (!isFinished(before.get(id)!.state)) object(6, `job ${id} was retried before it had ended`);
      Object.assign(this.#of(id), { attempts: 0, returned: 0, succeeded: false, cancelled: false });
    }
  }

  #mustHold({ before, asked_at_ms }: Write, id: number, token: number, what: string, jumped_ms = 0): void {
    const { state, token: current } = before.get(id)!;
    if (state.name !== "running" || current !== token)
      object(5, `job ${id}: ${what} with token ${token} of ${current}`);
    else if (asked_at_ms - jumped_ms > state.expires_at_ms) object(5, `job ${id}: ${what} after the lease`);
  }

  #end({ after }: Write, id: number, token: number, returned: boolean): void {
    const known = this.#of(id);
    if (known.ended.has(token)) object(6, `attempt ${token} of job ${id} ended twice`);
    known.ended.add(token);
    if (returned) known.returned += 1;
    if (after.get(id)!.state.name === "completed") known.succeeded = true;
  }

  #of(id: number): Known {
    return this.#known.get(id) ?? object(2, `nobody enqueued job ${id}`);
  }
}

const isAbout = ({ hook }: Job["settings"], { id, token }: Job) => hook?.job === id && hook.attempt === token;

function parentsOf({ after, after_any, after_failed }: NewJob): ReadonlyMap<number, readonly string[]> {
  return new Map<number, readonly string[]>([
    ...after_any.map((id) => [id, ["completed", "failed", "cancelled"]] as const),
    ...after_failed.map((id) => [id, ["failed"]] as const),
    ...after.map((id) => [id, ["completed"]] as const),
  ]);
}

function unchanged({ before, after }: Write, id: number, what: string): void {
  if (!isDeepStrictEqual(before.get(id), after.get(id))) object(5, `job ${id}: ${what} changed it`);
}

export function object(invariant: number, message: string): never {
  throw new Objection(`(${invariant}) ${message}`);
}
