/**
 * The store under the eyes of the checker: one write at a time, with all jobs read before and after it. What a checker
 * objects to is kept: whoever asked for the write may well swallow the error.
 */

import type { Clock } from "../../src/core/clock.ts";
import type { Reader, Store } from "../../src/store/store.ts";
import type { LogWrite } from "../../src/store/queries.ts";
import type { Chance } from "./chance.ts";
import { Checker, type Witness } from "./checker.ts";
import { Objection, type Jobs } from "./objection.ts";
import type { Ground } from "./ground.ts";
import { eventOf, type Event } from "./history.ts";

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

/** In a verb; the later ones are of many rounds or many jobs. */
const MOST_STATEMENTS = 25;

export interface RecorderOptions {
  ground: Ground;
  clock: Clock;
  store_clock: Pick<Clock, "wall_ms">;
  chance: Chance;
  /** How likely a statement of a write fails. */
  faults: { statement: number };
  witness: Omit<Witness, "endedAt">;
  grace_ms: number;
}

export class Recorder {
  readonly checker: Checker;
  objection: Objection | null = null;
  /** Every write and its answer, in order. */
  readonly events: Event[] = [];
  readonly #options: RecorderOptions;
  #jobs: Jobs = new Map();
  #turn: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  constructor(options: RecorderOptions) {
    this.#options = options;
    const { eye } = options.ground;
    const endedAt = async (job: number, token: number): Promise<number | null> => {
      const attempts = await eye.attempts(job);
      return attempts.find((attempt) => attempt.token === token)?.ended_at_ms ?? null;
    };
    this.checker = new Checker({ ...options.witness, endedAt }, options.grace_ms);
  }

  /** Nothing is under way. */
  get idle(): boolean {
    return this.#waiting === 0;
  }

  get jobs(): Jobs {
    return this.#jobs;
  }

  /** What happens in the world beside the writes. */
  tell(who: string, what: string): void {
    this.events.push({ at_ms: this.#options.clock.mono_ms(), who, what, answer: "", changes: "" });
  }

  /** A handle whose every write is checked. */
  watch(store: Store, who: string): Store {
    return new Proxy(store, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        const call = value.bind(target) as (...args: unknown[]) => Promise<unknown>;
        if (!WRITES.has(String(name))) return call;
        return (...args: unknown[]) => this.inTurn(() => this.#write(who, name as keyof Store, args, call));
      },
    });
  }

  async #write(
    who: string,
    verb: keyof Store,
    args: unknown[],
    call: (...args: unknown[]) => Promise<unknown>,
  ): Promise<unknown> {
    const { ground, clock, store_clock } = this.#options;
    const asked_at_ms = store_clock.wall_ms();
    const before = this.#jobs;
    const logs = verb === "appendLogs" ? (args[0] as LogWrite[]) : [];
    const logged = await this.#logged(logs);
    let [answer, failure]: [unknown, unknown] = [undefined, null];
    const armed = this.#arm();
    try {
      answer = await call(...args);
    } catch (error) {
      failure = error;
      this.checker.note(`${verb} failed`);
    }
    if (armed) ground.failAt?.(null);
    const done_at_ms = store_clock.wall_ms();
    const after = await ground.look(before);
    if (failure === null) this.#checkLogs(logs, before, logged, await this.#logged(logs));
    this.#jobs = after;
    const at_ms = clock.mono_ms();
    this.events.push({ at_ms, who, ...eventOf(verb, args, failure ?? answer, before, after) });
    try {
      const times = { asked_at_ms, done_at_ms };
      await this.checker.check({ verb, args, answer, failed: failure !== null, before, after, ...times });
    } catch (error) {
      if (!(error instanceof Objection)) throw error;
      this.objection ??= error;
    }
    if (failure !== null) throw failure;
    return answer;
  }

  #arm(): boolean {
    const { ground, chance, faults } = this.#options;
    if (ground.failAt === null || !chance.of(faults.statement)) return false;
    ground.failAt(chance.between(1, MOST_STATEMENTS));
    return true;
  }

  /** Where the pieces of each log begin. */
  #logged(writes: readonly LogWrite[]): Promise<number[][]> {
    const { eye } = this.#options.ground;
    const look = async ({ id, token }: LogWrite): Promise<number[]> =>
      (await eye.logs({ job: id, attempt: token, from: 0, limit: 10_000 })).map(({ start }) => start);
    return Promise.all(writes.map(look));
  }

  #checkLogs(writes: readonly LogWrite[], jobs: Jobs, before: readonly number[][], after: readonly number[][]): void {
    for (const [index, { id, token, chunks }] of writes.entries()) {
      const job = jobs.get(id);
      const held = job?.state.name === "running" && job.token === token;
      this.checker.note(held ? "log accepted" : "log refused");
      const [had, has] = [before[index]!, after[index]!];
      // One whose answer was lost is written again, and is there once.
      const right = held ? chunks.every(({ start }) => has.includes(start)) : had.length === has.length;
      if (right) continue;
      const is = job === undefined ? "none" : `${job.token}, ${job.state.name}`;
      this.objection ??= new Objection(`(5) job ${id}: a log with token ${token} of ${is}`);
    }
  }

  /** Not beside a write that is made to fail. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    this.#waiting += 1;
    const result = this.#turn.then(work);
    this.#turn = result.then(
      () => void this.#waiting--,
      () => void this.#waiting--,
    );
    return result;
  }
}
