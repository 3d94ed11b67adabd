/**
 * A world so small that everything that can happen in it can be tried: two workers, a sweep, somebody who cancels, somebody
 * who retries and time that passes, on one or two jobs. Each step is one verb of the real SQLite store, called as it is
 * inside a commit, and may be taken back.
 */

import { platform } from "#platform";
import { hookOf } from "../../src/core/hook.ts";
import { isFinished, type Job, type StateName } from "../../src/core/job.ts";
import { isRefusal, transition } from "../../src/core/transition.ts";
import type { SqlDatabase } from "../../src/platform/platform.ts";
import { acquire } from "../../src/store/sqlite/acquire.ts";
import { cancel } from "../../src/store/sqlite/cancel.ts";
import { enqueue } from "../../src/store/sqlite/enqueue.ts";
import { checkpoint, extend } from "../../src/store/sqlite/extend.ts";
import { writeNoted } from "../../src/store/sqlite/history.ts";
import { setLimit } from "../../src/store/sqlite/limits.ts";
import { Database } from "../../src/store/sqlite/open.ts";
import { jobs } from "../../src/store/sqlite/read.ts";
import { expired, recover } from "../../src/store/sqlite/recover.ts";
import { retry } from "../../src/store/sqlite/retry.ts";
import { migrate } from "../../src/store/sqlite/schema.ts";
import { settle } from "../../src/store/sqlite/settle.ts";
import type { RecoverRequest } from "../../src/store/store.ts";
import { end, newJob, type JobOverrides } from "../support/jobs.ts";
import { object } from "./objection.ts";

export const LEASE_MS = 10_000;
export const GRACE_MS = 2_000;
const RANDOM = () => 0.5;
const MOST_READ = 50_000;

export interface SmallWorldOptions {
  name: string;
  jobs: readonly JobOverrides[];
  /** So many of limit `x` at a time. */
  limit?: number;
  /** How often each of these may happen. */
  most: Readonly<Record<"cancel" | "retry" | "time" | "crash", number>>;
}

/** What a worker has been told of its job. */
interface Held {
  job: Job;
  token: number;
  /** On its own clock: past it, it has killed the job. */
  until_ms: number;
  beats: number;
  notes: number;
  /** It has heard that somebody wants it to end. */
  cancelled: boolean;
}

/** What is known of a job beside the store, to hold the store to. */
interface Told {
  attempts: number;
  returned: number;
  succeeded: boolean;
  cancelled: boolean;
  progress: string | null;
  /** How the attempts have ended, by token. */
  ends: readonly (string | null)[];
}

/** All that a step may change outside of the database: copied with each. */
export interface Local {
  now_ms: number;
  workers: readonly (Held | "idle" | "dead")[];
  /** What a sweep has found, and not written yet. */
  found: readonly RecoverRequest[] | null;
  left: Readonly<Record<"cancel" | "retry" | "time" | "crash", number>>;
  told: readonly Told[];
}

export interface Step {
  name: string;
  take: (local: Local) => Local;
}

const NEW: Told = { attempts: 0, returned: 0, succeeded: false, cancelled: false, progress: null, ends: [] };

export class SmallWorld {
  readonly options: SmallWorldOptions;
  readonly database: SqlDatabase;
  readonly begin: Local;
  readonly #db: Database;
  readonly #ids: readonly number[];
  readonly #rows;
  readonly #counts;
  readonly #read = new Map<string, Job>();
  readonly #ends;
  #now_ms = 1_000_000;

  constructor(options: SmallWorldOptions) {
    this.options = options;
    this.database = platform.openSqlite(":memory:");
    this.database.exec("PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF");
    migrate(this.database, ":memory:");
    const unused = (): never => object(2, "nothing here waits");
    this.#db = new Database(this.database, { wall_ms: () => this.#now_ms, mono_ms: unused, after: unused });
    this.#ids = enqueue(this.#db, options.jobs.map(newJob)).map(({ id }) => id);
    if (options.limit !== undefined) setLimit(this.#db, "x", { most: options.limit, rate: null });
    writeNoted(this.#db);
    this.#rows = this.database.prepare("SELECT * FROM jobs ORDER BY id");
    this.#ends = this.database.prepare("SELECT job_id, attempt, cause, beats FROM attempts ORDER BY job_id, attempt");
    this.#counts = this.database.prepare("SELECT state, sum(count) AS count FROM tallies GROUP BY state");
    const told = options.jobs.map(() => NEW);
    this.begin = { now_ms: this.#now_ms, workers: ["idle", "idle"], found: null, left: options.most, told };
  }

  /** Two that answer the same have the same future. */
  fingerprint(local: Local): string {
    const workers = local.workers.map((held) =>
      typeof held === "string"
        ? held
        : [held.job.id, held.token, held.until_ms, held.beats, held.notes, held.cancelled],
    );
    const found = local.found?.map(({ id, token, expires_at_ms, change }) => [id, token, expires_at_ms, change.state]);
    const rows = this.#rows.all().map((row) => Object.values(row).join("|"));
    const ends = this.#ends.all().map((row) => Object.values(row).join("|"));
    return JSON.stringify([local.now_ms, workers, found, local.left, local.told, rows, ends]);
  }

  /** All that may happen next. */
  steps(local: Local): Step[] {
    const steps: Step[] = [];
    for (const [index, held] of local.workers.entries()) steps.push(...this.#workerSteps(index, held));
    steps.push(
      local.found === null ? this.#step("sweep looks", this.#look) : this.#step("sweep writes", this.#recover),
    );
    for (const [index, id] of this.#ids.entries()) {
      if (local.left.cancel > 0) steps.push(this.#step(`cancel ${id}`, (now) => this.#cancel(now, index)));
      if (local.left.retry > 0) steps.push(this.#step(`retry ${id}`, (now) => this.#retry(now, index)));
    }
    if (local.left.time > 0)
      steps.push(this.#step("time", (now) => spent({ ...now, now_ms: now.now_ms + LEASE_MS + GRACE_MS + 1 }, "time")));
    return steps;
  }

  #workerSteps(index: number, held: Local["workers"][number]): Step[] {
    const who = `worker ${index + 1}`;
    if (held === "dead") return [];
    if (held === "idle") return [this.#step(`${who} acquires`, (now) => this.#acquire(now, index))];
    const steps = [
      this.#step(`${who} ends well`, (now) => this.#settle(now, index, held, "success")),
      this.#step(`${who} fails`, (now) => this.#settle(now, index, held, "exit")),
      this.#step(`${who} gives back`, (now) => this.#settle(now, index, held, "returned")),
    ];
    if (held.beats < 1) steps.push(this.#step(`${who} beats`, (now) => this.#extend(now, index, held)));
    if (held.notes < 1) steps.push(this.#step(`${who} notes`, (now) => this.#checkpoint(now, index, held)));
    const crash = (now: Local) => spent(withWorker(now, index, "dead"), "crash");
    steps.push(this.#step(`${who} crashes`, (now) => (now.left.crash > 0 ? crash(now) : now)));
    return steps;
  }

  #step(name: string, take: (local: Local) => Local): Step {
    return {
      name,
      take: (local) => {
        const before = this.#jobs();
        this.#db.noted.forget();
        this.#now_ms = local.now_ms;
        const next = take(local);
        this.#now_ms = next.now_ms;
        writeNoted(this.#db);
        const after = this.#jobs();
        this.#whatMayChange(name, before, after);
        const told = this.#ended(next, after);
        this.#believed(next.workers, after, next.now_ms);
        return { ...next, told };
      },
    };
  }

  /** Reading a row takes longer than most verbs, and most rows have been read before. */
  #jobs(): Job[] {
    return this.#rows.all().map((row) => {
      const text = Object.values(row).join("|");
      const known = this.#read.get(text);
      if (known !== undefined) return known;
      const [job] = jobs(this.#db, [row["id"] as number]) as [Job];
      if (this.#read.size > MOST_READ) this.#read.clear();
      this.#read.set(text, job);
      return job;
    });
  }

  #job(id: number): Job {
    return this.#jobs()[this.#ids.indexOf(id)]!;
  }

  #acquire(local: Local, index: number): Local {
    const before = this.#jobs();
    const holder = `w${index}`;
    const request = { holder, host: "h", lease_ms: LEASE_MS, count: 1, queues: null, task: null };
    const grants = acquire(this.#db, request) ?? [];
    const [grant] = grants;
    if (grant === undefined) return local;
    const { job, expires_at_ms } = grant;
    const which = this.#ids.indexOf(job.id);
    const [was, told] = [before[which]!, local.told[which]!];
    const due = was.state.name === "pending" || (was.state.name === "scheduled" && was.state.run_at_ms <= local.now_ms);
    if (!due) object(4, `job ${job.id} was granted while ${was.state.name}`);
    if (job.token !== was.token + 1) object(3, `job ${job.id} went from token ${was.token} to ${job.token}`);
    if (told.succeeded) object(7, `job ${job.id} was granted after it had succeeded`);
    if (told.cancelled) object(11, `job ${job.id} was granted after it was cancelled`);
    if (told.attempts > job.settings.retries + told.returned) object(9, `job ${job.id} has an attempt too many`);
    if (grant.checkpoint !== told.progress) object(13, `job ${job.id} got ${grant.checkpoint}, not ${told.progress}`);
    const running = this.#jobs().filter(({ state }) => state.name === "running").length;
    if (this.options.limit !== undefined && running > this.options.limit) object(21, `${running} jobs of limit x run`);
    const held = { job, token: job.token, until_ms: expires_at_ms, beats: 0, notes: 0, cancelled: false };
    return withTold(withWorker(local, index, held), which, { attempts: told.attempts + 1 });
  }

  /** (14): when it is freed; a parent that is retried later is a person's doing. */
  #freed(step: string, id: number, after: readonly Job[]): void {
    for (const parent of this.options.jobs[this.#ids.indexOf(id)]!.after ?? []) {
      const { name } = after[this.#ids.indexOf(parent)]!.state;
      if (name !== "completed") object(14, `${step}: job ${id} was freed while job ${parent} is ${name}`);
    }
  }

  #settle(local: Local, index: number, held: Held, cause: "success" | "exit" | "returned"): Local {
    const { job, token } = held;
    const before = this.#job(job.id);
    const cancel_requested_at_ms = held.cancelled ? local.now_ms : null;
    const running = job.state as Extract<Job["state"], { name: "running" }>;
    const event = { type: "settle", token, end: end(cause) } as const;
    const moment = { now_ms: local.now_ms, random: RANDOM };
    const change = transition({ ...job, state: { ...running, cancel_requested_at_ms } }, event, moment);
    if (isRefusal(change)) return object(5, `core refuses the end of job ${job.id}`);
    const request = { id: job.id, token, change, process: null, audit: null, hook: hookOf(job, change, []) };
    const [answer] = settle(this.#db, [request]);
    const was = before.state;
    if (answer?.status === "applied" && (was.name !== "running" || before.token !== token))
      object(5, `job ${job.id}: a settle with token ${token} of ${before.token}, ${was.name}`);
    if (answer?.status === "stale" && was.name === "running" && before.token === token)
      object(5, `job ${job.id}: a settle was refused that was right`);
    if (answer?.status === "cancelling") return withWorker(local, index, { ...held, cancelled: true });
    const idle = withWorker(local, index, "idle");
    if (answer?.status !== "applied") return idle;
    const asked = was.name === "running" && was.cancel_requested_at_ms !== null;
    if (asked && change.state.name !== "cancelled") object(11, `cancelled job ${job.id} became ${change.state.name}`);
    const which = this.#ids.indexOf(job.id);
    const { returned } = local.told[which]!;
    return withTold(idle, which, {
      succeeded: change.state.name === "completed",
      returned: returned + (change.ended.cause === "returned" ? 1 : 0),
    });
  }

  #extend(local: Local, index: number, held: Held): Local {
    const { id } = held.job;
    const request = { id, token: held.token, expires_in_ms: LEASE_MS, beat_age_ms: 0, beats: 1, at_least: true };
    const before = this.#job(id);
    const [answer] = extend(this.#db, [request]);
    if (answer?.status !== "extended") return withWorker(local, index, { ...held, beats: 1, until_ms: 0 });
    this.#mustHold(before, held, local.now_ms, "an extension");
    const cancelled = held.cancelled || answer.cancel_requested;
    return withWorker(local, index, { ...held, beats: 1, until_ms: answer.expires_at_ms, cancelled });
  }

  #checkpoint(local: Local, index: number, held: Held): Local {
    const { id } = held.job;
    const text = `${id}:${held.token}`;
    const before = this.#job(id);
    const [answer] = checkpoint(this.#db, [{ id, token: held.token, text }]);
    const noted = withWorker(local, index, { ...held, notes: 1 });
    if (answer !== "accepted") return noted;
    this.#mustHold(before, held, local.now_ms, "a checkpoint");
    return withTold(noted, this.#ids.indexOf(id), { progress: text });
  }

  #mustHold({ id, state, token }: Job, held: Held, now_ms: number, what: string): void {
    if (state.name !== "running" || token !== held.token)
      return object(5, `job ${id}: ${what} with token ${held.token} of ${token}, ${state.name}`);
    if (now_ms > state.expires_at_ms) object(5, `job ${id}: ${what} after the lease`);
  }

  readonly #look = (local: Local): Local => {
    const found = expired(this.#db, { grace_ms: GRACE_MS, dead_holders: [], after: null, limit: 10 });
    const requests = found.flatMap(({ job, expires_at_ms }): RecoverRequest[] => {
      const event = { type: "recover", cause: "expired", grace_ms: GRACE_MS } as const;
      const change = transition(job, event, { now_ms: local.now_ms, random: RANDOM });
      if (isRefusal(change)) return [];
      return [{ id: job.id, token: job.token, change, process: null, expires_at_ms, audit: null, hook: null }];
    });
    return requests.length === 0 ? local : { ...local, found: requests };
  };

  readonly #recover = (local: Local): Local => {
    const before = this.#jobs();
    const answers = recover(this.#db, local.found ?? []);
    for (const [index, { id, token }] of (local.found ?? []).entries()) {
      if (answers[index] !== "recovered") continue;
      const { state, token: current } = before[this.#ids.indexOf(id)]!;
      if (state.name !== "running" || current !== token)
        object(8, `job ${id} was recovered with token ${token} of ${current}, ${state.name}`);
      else if (state.expires_at_ms + GRACE_MS >= local.now_ms) object(8, `job ${id} was recovered too early`);
    }
    return { ...local, found: null };
  };

  #cancel(local: Local, index: number): Local {
    const [answer] = cancel(this.#db, [this.#ids[index]!], null);
    const asked = answer?.status === "cancelled" || answer?.status === "cancelling";
    return spent(asked ? withTold(local, index, { cancelled: true }) : local, "cancel");
  }

  #retry(local: Local, index: number): Local {
    const [answer] = retry(this.#db, [this.#ids[index]!]);
    const again = answer?.status === "pending" || answer?.status === "blocked";
    const fresh = { attempts: 0, returned: 0, succeeded: false, cancelled: false };
    return spent(again ? withTold(local, index, fresh) : local, "retry");
  }

  #whatMayChange(step: string, before: readonly Job[], after: readonly Job[]): void {
    for (const [index, { id, state, token }] of after.entries()) {
      const was = before[index]!;
      if (token !== was.token && !step.endsWith("acquires")) object(3, `${step}: the token of job ${id} changed`);
      if (isFinished(was.state) && !step.startsWith("retry") && state.name !== was.state.name)
        object(6, `${step}: job ${id} went from ${was.state.name} to ${state.name}`);
      const waited = was.state.name === "blocked" || (isFinished(was.state) && !isFinished(state));
      if (waited && (state.name === "pending" || state.name === "running")) this.#freed(step, id, after);
    }
  }

  /** (9): an attempt ends once, and the way it did stays. */
  #ended(local: Local, after: readonly Job[]): Told[] {
    const ends = this.#ends.all();
    return local.told.map((told, index) => {
      const { id, token, state } = after[index]!;
      const now = ends.filter((row) => row["job_id"] === id).map((row) => row["cause"] as string | null);
      if (now.length !== token) object(3, `job ${id} with token ${token} has ${now.length} attempts`);
      for (const [at, cause] of told.ends.entries())
        if (cause !== null && now[at] !== cause)
          object(9, `attempt ${at + 1} of job ${id} ended twice: ${cause}, ${now[at]}`);
      const open = now.filter((cause) => cause === null).length;
      if (open !== (state.name === "running" ? 1 : 0))
        object(9, `job ${id} is ${state.name} and has ${open} open attempts`);
      const cancelled = told.cancelled || state.name === "cancelled";
      return { ...told, cancelled, ends: now };
    });
  }

  /** (4), (20): who believes in a lease has it. */
  #believed(workers: Local["workers"], after: readonly Job[], now_ms: number): void {
    for (const held of workers) {
      if (typeof held === "string" || held.until_ms <= now_ms) continue;
      const { id, state, token } = after[this.#ids.indexOf(held.job.id)]!;
      if (state.name !== "running" || token !== held.token || state.expires_at_ms < held.until_ms)
        object(20, `a worker believes in job ${id} with token ${held.token}, which is ${state.name} with ${token}`);
    }
  }

  /** (15): counts equal states. */
  checkCounts(): void {
    const found = new Map<string, number>();
    for (const { state } of this.#jobs()) found.set(state.name, (found.get(state.name) ?? 0) + 1);
    for (const row of this.#counts.all()) {
      const state = row["state"] as StateName | "all";
      const there = state === "all" ? this.#ids.length : (found.get(state) ?? 0);
      if (row["count"] !== there)
        object(15, `${row["count"] as number} jobs are counted as ${state}, and ${there} are`);
    }
  }
}

function withWorker(local: Local, index: number, held: Local["workers"][number]): Local {
  return { ...local, workers: local.workers.with(index, held) };
}

function withTold(local: Local, index: number, told: Partial<Told>): Local {
  return { ...local, told: local.told.with(index, { ...local.told[index]!, ...told }) };
}

function spent(local: Local, what: keyof Local["left"]): Local {
  return { ...local, left: { ...local.left, [what]: local.left[what] - 1 } };
}
