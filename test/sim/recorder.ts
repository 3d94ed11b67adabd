/**
 * The store under the eyes of the checker: one write at a time, with all jobs read before and after it. What a checker
 * objects to is kept: whoever asked for the write may well swallow the error.
 */

import type { Clock } from "../../src/core/clock.ts";
import type { Job } from "../../src/core/job.ts";
import type { Reader, Store } from "../../src/store/store.ts";
import type { LogWrite } from "../../src/store/queries.ts";
import { Checker, Objection, type Jobs, type Witness } from "./checker.ts";

/**
 * Every verb that is not a reader's, so that none is forgotten: a write that nobody watched would be laid to the next
 * one that is, since that begins with what was seen last.
 */
const IS_WRITE: Readonly<Record<Exclude<keyof Store, keyof Reader>, boolean>> = {
  enqueue: true,
  enqueueAll: true,
  acquire: true,
  extend: true,
  noteProcess: true,
  appendLogs: true,
  settle: true,
  checkpoint: true,
  recover: true,
  cancel: true,
  retry: true,
  edit: true,
  saveWorker: true,
  buryWorker: true,
  noteRecovery: true,
  noticeClockJump: true,
  promote: true,
  age: true,
  trimCheckpoints: true,
  setLimit: true,
  setPaused: true,
  setSchedule: true,
  dropSchedule: true,
  pauseSchedule: true,
  rewindSchedule: true,
  fire: true,
  setRetention: true,
  prune: true,
  foldHistory: true,
  tidy: true,
  storeId: false,
  transfer: false,
  close: false,
  cancelRequests: false,
  expired: false,
  prunable: false,
  retention: false,
  diagnose: false,
  audit: false,
  writeRetries: false,
};
const WRITES: ReadonlySet<string> = new Set(Object.entries(IS_WRITE).flatMap(([verb, writes]) => (writes ? verb : [])));

export class Recorder {
  readonly checker: Checker;
  objection: Objection | null = null;
  /** Every write and its answer, in order. */
  readonly trace: string[] = [];
  readonly #clock: Clock;
  readonly #eye: Store;
  #jobs: Jobs = new Map();
  #turn: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  /** `eye` is a handle that only looks. */
  constructor(eye: Store, clock: Clock, witness: Omit<Witness, "endedAt">, grace_ms: number) {
    this.#eye = eye;
    this.#clock = clock;
    const endedAt = async (job: number, token: number): Promise<number | null> => {
      const attempts = await eye.attempts(job);
      return attempts.find((attempt) => attempt.token === token)?.ended_at_ms ?? null;
    };
    this.checker = new Checker({ ...witness, endedAt }, grace_ms);
  }

  /** Nothing is under way. */
  get idle(): boolean {
    return this.#waiting === 0;
  }

  get jobs(): Jobs {
    return this.#jobs;
  }

  /** A handle whose every write is checked. */
  watch(store: Store): Store {
    return new Proxy(store, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        const call = value.bind(target) as (...args: unknown[]) => Promise<unknown>;
        if (!WRITES.has(String(name))) return call;
        return (...args: unknown[]) => this.#inTurn(() => this.#write(name as keyof Store, args, call));
      },
    });
  }

  async #write(verb: keyof Store, args: unknown[], call: (...args: unknown[]) => Promise<unknown>): Promise<unknown> {
    const asked_at_ms = this.#clock.wall_ms();
    const before = this.#jobs;
    const logs = verb === "appendLogs" ? (args[0] as LogWrite[]) : [];
    const logged = await this.#logged(logs);
    const answer = await call(...args);
    const after = await this.#look();
    this.#checkLogs(logs, before, logged, await this.#logged(logs));
    this.#jobs = after;
    this.trace.push(`${this.#clock.mono_ms()} ${verb} ${summary(answer)}`);
    try {
      await this.checker.check({ verb, args, answer, before, after, asked_at_ms });
    } catch (error) {
      if (!(error instanceof Objection)) throw error;
      this.objection ??= error;
    }
    return answer;
  }

  /** How many pieces there are of each log. */
  #logged(writes: readonly LogWrite[]): Promise<number[]> {
    const look = async ({ id, token }: LogWrite): Promise<number> =>
      (await this.#eye.logs({ job: id, attempt: token, from: 0, limit: 10_000 })).length;
    return Promise.all(writes.map(look));
  }

  #checkLogs(writes: readonly LogWrite[], jobs: Jobs, before: readonly number[], after: readonly number[]): void {
    for (const [index, { id, token }] of writes.entries()) {
      const job = jobs.get(id)!;
      const held = job.state.name === "running" && job.token === token;
      this.checker.note(held ? "log accepted" : "log refused");
      if ((before[index] !== after[index]) !== held) {
        this.objection ??= new Objection(`(5) job ${id}: a log with token ${token} of ${job.token}, ${job.state.name}`);
      }
    }
  }

  async #look(): Promise<Jobs> {
    const found: Job[] = await this.#eye.list({ limit: 10_000, newest_first: false });
    return new Map(found.map((job) => [job.id, job]));
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    this.#waiting += 1;
    const result = this.#turn.then(work);
    this.#turn = result.then(
      () => void this.#waiting--,
      () => void this.#waiting--,
    );
    return result;
  }
}

function summary(answer: unknown): string {
  if (!Array.isArray(answer)) return String(answer);
  return answer
    .map((one: unknown) => {
      if (typeof one !== "object" || one === null) return String(one);
      if ("job" in one) return `${(one.job as Job).id}:${(one.job as Job).token}`;
      if ("status" in one) return String(one.status);
      return "id" in one ? String(one.id) : "";
    })
    .join(" ");
}
