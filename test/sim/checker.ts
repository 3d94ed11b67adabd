/**
 * Holds a store to the invariants of DESIGN §5: told of every write, what was asked, what was answered, and all jobs
 * before and after it. The numbers in the objections are those of the design.
 */

import { isDeepStrictEqual } from "node:util";
import type { JobChanges } from "../../src/core/changes.ts";
import type { LimitSettings } from "../../src/core/gate.ts";
import type { Job, NewJob } from "../../src/core/job.ts";
import { isFinished } from "../../src/core/job.ts";
import type { CancelAnswer, EditAnswer, PruneQuery, RetryAnswer } from "../../src/store/queries.ts";
import type * as Contract from "../../src/store/store.ts";
import { object, type Jobs, type Write } from "./objection.ts";
import { Plans, type Parents } from "./plans.ts";

/** What the checker can't see in the store. */
export interface Witness {
  /** Proven dead, and still dead. */
  isDead: (holder: string) => boolean;
  /** Workers that are neither frozen nor dead and have a child of that job running. */
  running: (job: number) => string[];
  /** Workers that are at work on that attempt, and believe in its lease. */
  believers: (job: number, token: number) => string[];
  /** What was seen to be over may look as if it were not. */
  wasSetBack: () => boolean;
  endedAt: (job: number, token: number) => Promise<number | null>;
}

interface Known {
  retries: number;
  /** Since it was enqueued, or retried by a person. */
  attempts: number;
  returned: number;
  succeeded: boolean;
  cancelled: boolean;
  /** Undefined: it may have been trimmed. */
  progress: string | null | undefined;
  /** Those that it waits for, with the states in which they may have ended. */
  parents: Parents;
  /** Tokens whose attempt has ended, by settle or by recovery. */
  ended: Set<number>;
}

export class Checker {
  /** How often what happened, so that a simulation can be held to having tried it. */
  readonly seen: Record<string, number> = {};
  readonly #witness: Witness;
  readonly #grace_ms: number;
  readonly #known = new Map<number, Known>();
  readonly plans = new Plans((what) => this.note(what));

  constructor(witness: Witness, grace_ms: number) {
    this.#witness = witness;
    this.#grace_ms = grace_ms;
  }

  note(what: string): void {
    this.seen[what] = (this.seen[what] ?? 0) + 1;
  }

  async check(write: Write): Promise<void> {
    this.#whatMayChange(write);
    const { verb, args, answer, failed } = write;
    if (failed && verb !== "trimCheckpoints") return;
    if (verb === "enqueue") this.#enqueued(write, args[0] as NewJob[], answer as Contract.Enqueued[]);
    else if (verb === "enqueueAll") this.#enqueuedAll(write, (args[0] as { jobs: NewJob[] }).jobs);
    else if (verb === "acquire") {
      this.#granted(write, answer as Contract.Grant[]);
      this.plans.granted(write, args[0] as Contract.AcquireRequest, answer as Contract.Grant[]);
    } else if (verb === "setLimit") this.plans.setLimit(args[0] as string, args[1] as LimitSettings | null);
    else if (verb === "setPaused") this.plans.setPaused(args[0] as string[], args[1] as boolean);
    else if (verb === "extend")
      this.#extended(write, args[0] as Contract.ExtendRequest[], answer as Contract.ExtendAnswer[]);
    else if (verb === "settle")
      this.#settled(write, args[0] as Contract.SettleRequest[], answer as Contract.SettleAnswer[]);
    else if (verb === "checkpoint") this.#noted(write, args[0] as Contract.CheckpointRequest[], answer as string[]);
    else if (verb === "recover") await this.#recovered(write, args[0] as Contract.RecoverRequest[], answer as string[]);
    else if (verb === "cancel") for (const { status } of answer as CancelAnswer[]) this.note(`cancel ${status}`);
    else if (verb === "retry") this.#retried(write, answer as RetryAnswer[]);
    else if (verb === "edit") this.#edited(write, args[1] as JobChanges, answer as EditAnswer[]);
    else if (verb === "trimCheckpoints") this.#trimmed(write);
  }

  /** Whatever was written: nothing vanishes, nothing appears, and only the right verbs move a job. */
  #whatMayChange(write: Write): void {
    const { verb, before, after } = write;
    if (before === after) return;
    for (const [id, job] of before) if (!after.has(id)) this.#vanished(write, job);
    const keys = new Set<string>();
    for (const [id, job] of after) {
      const was = before.get(id);
      const live = !isFinished(job.state);
      if (live && job.key !== null && keys.has(job.key)) object(10, `key ${job.key} has two live jobs after ${verb}`);
      if (live && job.key !== null) keys.add(job.key);
      if (was === undefined) this.#appeared(write, job);
      else if (was !== job) this.#moved(write, was, job);
    }
  }

  #vanished({ verb, args, before, done_at_ms }: Write, job: Job): void {
    if (verb !== "prune") return object(1, `job ${job.id} is gone after ${verb}`);
    const waitsFor = ({ id, state }: Job) => {
      const ends = state.name === "blocked" ? this.#of(id).parents.get(job.id) : undefined;
      return ends !== undefined && !ends.includes(job.state.name);
    };
    this.plans.pruned(job, args[0] as PruneQuery, done_at_ms, before.values().find(waitsFor));
  }

  #appeared({ verb, before, after }: Write, job: Job): void {
    if (verb === "settle" || verb === "recover") this.#hooked(verb, job, before, after);
    else if (verb === "fire") {
      this.plans.fired(job);
      this.#know(job.id, job.settings.retries, new Map());
    } else if (verb !== "enqueue" && verb !== "enqueueAll") object(2, `${verb} made job ${job.id}`);
  }

  #moved({ verb, after }: Write, was: Job, job: Job): void {
    const { id } = job;
    const [ran, runs] = [was.state.name === "running", job.state.name === "running"];
    const live = !isFinished(job.state);
    const grants = verb === "acquire" || verb === "enqueue";
    if (job.token !== was.token && !grants) object(3, `${verb} changed the token of job ${id}`);
    if (isFinished(was.state) && verb !== "retry" && !isDeepStrictEqual(was, job))
      object(6, `${verb} changed finished job ${id}`);
    if (!ran && runs && !grants) object(4, `${verb} made job ${id} run`);
    const waited = was.state.name === "blocked" || (verb === "retry" && isFinished(was.state));
    if (waited && live && job.state.name !== "blocked" && verb !== "edit") this.#mustBeFree(verb, id, after);
    if (verb === "edit" && ran && !isDeepStrictEqual(was, job)) object(5, `edit changed job ${id}, which runs`);
    if (verb === "age") this.plans.aged(was, job);
    if (ran && job.state.name === "failed" && job.settings.on_failed !== null && job.settings.hook === null) {
      const made = [...after.values()].filter(({ settings }) => isAbout(settings, job));
      if (made.length !== 1) object(2, `job ${id} failed for good, and has ${made.length} hooks`);
    }
    if (ran && !runs && verb !== "settle" && verb !== "recover") object(6, `${verb} ended the attempt of job ${id}`);
    const asked = job.state.name === "running" && job.state.cancel_requested_at_ms !== null;
    if (asked || job.state.name === "cancelled") this.#of(id).cancelled = true;
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

  #enqueued(write: Write, jobs: readonly NewJob[], answers: readonly Contract.Enqueued[]): void {
    const { before, after } = write;
    for (const [index, { id, created, grant }] of answers.entries()) {
      if (!after.has(id)) object(1, `job ${id} was acknowledged and is not there`);
      if (created) {
        if (before.has(id)) object(2, `job ${id} was enqueued twice`);
        const earlier = [...after.values()].filter((other) => other.id < id);
        this.#know(id, jobs[index]!.settings.retries, parentsOf(jobs[index]!, earlier));
        if (after.get(id)!.state.name !== "blocked") this.#mustBeFree("enqueue", id, after);
      }
      if (grant) this.#grantedAtOnce(write, grant);
    }
    this.#onlyGranted(write, answers);
  }

  /** As `lease run` has it: the new one, or the one that waits with its key. */
  #grantedAtOnce(write: Write, grant: Contract.Grant): void {
    this.note("granted as it was enqueued");
    const pending: Job = { ...grant.job, state: { name: "pending", run_at_ms: 0 }, token: 0 };
    const before = new Map([[grant.job.id, pending], ...write.before]);
    this.#granted({ ...write, before }, [grant]);
    this.plans.granted({ ...write, before }, null, [grant]);
  }

  #onlyGranted({ before, after }: Write, answers: readonly Contract.Enqueued[]): void {
    for (const { id, token } of after.values()) {
      const granted = answers.some(({ grant }) => grant?.job.id === id);
      if (token !== (before.get(id)?.token ?? 0) && !granted) object(3, `enqueue changed the token of job ${id}`);
    }
  }

  #enqueuedAll({ before, after }: Write, jobs: readonly NewJob[]): void {
    const ids = [...after.keys()].filter((id) => !before.has(id));
    if (ids.length !== jobs.length) object(1, `${jobs.length} jobs were enqueued, and ${ids.length} are there`);
    this.note("bulk");
    for (const [index, id] of ids.entries()) this.#know(id, jobs[index]!.settings.retries, new Map());
  }

  #know(id: number, retries: number, parents: Parents): void {
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
      // One that was pruned was not in the way.
      const name = after.get(parent)?.state.name;
      if (name !== undefined && !ends.includes(name))
        object(14, `${verb} freed job ${id} while job ${parent} is ${name}`);
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
      if (known.progress !== undefined && checkpoint !== known.progress)
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
      if (!expired && !this.#witness.wasSetBack() && !this.#witness.isDead(state.holder)) {
        object(
          8,
          `job ${id} was taken from ${state.holder}, which lives, ${state.expires_at_ms - committed_at_ms} ms early`,
        );
      }
      const believers = this.#witness.believers(id, token);
      if (believers.length > 0) object(8, `job ${id} was taken from ${believers.join()}, which believes in its lease`);
      this.#end(write, id, token, false);
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

  #edited({ before, after }: Write, changes: JobChanges, answers: readonly EditAnswer[]): void {
    for (const { id, status } of answers) {
      this.note(`edit ${status}`);
      if (status !== "changed") continue;
      const known = this.#of(id);
      // An attempt that was allowed before is not one too many by this.
      known.retries = Math.max(known.retries, changes.settings?.retries ?? 0);
      if (changes.parents !== undefined) {
        const others = [...before.values()].filter((other) => other.id !== id);
        known.parents = parentsOf(changes.parents, others);
        this.note("edit parents");
      }
      const { name } = after.get(id)!.state;
      if (name === "running") object(4, `edit made job ${id} run`);
      // One that was freed before stays so, whatever a person does to its parents later.
      if (changes.parents !== undefined && name !== "blocked") this.#mustBeFree("edit", id, after);
    }
  }

  /** What the next attempt of an unfinished job goes on from stays. */
  #trimmed({ after }: Write): void {
    this.note("trimmed");
    for (const { id, state } of after.values()) if (isFinished(state)) this.#of(id).progress = undefined;
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

function parentsOf(
  { after, after_any, after_failed, after_task }: NonNullable<JobChanges["parents"]>,
  others: readonly Job[],
): Parents {
  const of_tasks = others.filter(({ task }) => task !== null && after_task.includes(task));
  return new Map<number, readonly string[]>([
    ...after_any.map((id) => [id, ["completed", "failed", "cancelled"]] as const),
    ...after_failed.map((id) => [id, ["failed"]] as const),
    ...[...after, ...of_tasks.map(({ id }) => id)].map((id) => [id, ["completed"]] as const),
  ]);
}

function unchanged({ before, after }: Write, id: number, what: string): void {
  if (!isDeepStrictEqual(before.get(id), after.get(id))) object(5, `job ${id}: ${what} changed it`);
}
