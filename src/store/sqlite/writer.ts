/**
 * The one writer of a process: commits everything that was asked since the last commit, lease extensions and
 * settles first, so that many slots share one fsync.
 *
 * SQLite's own busy handler would sleep inside the call and freeze every timer and pipe of the process; it stays
 * almost off, and a lost race for the lock is tried again from the event loop after a short random pause, which also
 * keeps processes that compete for the lock at equal shares.
 */

import type { Random } from "../../core/clock.ts";
import { formatDuration } from "../../core/duration.ts";
import { LeaseError, isStoreTrouble } from "../../core/errors.ts";
import type { SqlDatabase, SqlStatement } from "../../platform/platform.ts";
import { explain, isBusy, isStoreFailure } from "./failure.ts";

/** One step of a long transaction. */
export type Step = <T>(work: () => T) => T;

/** What must not wait comes first in a commit; what a job says before its end comes before that. */
export const RANK = { holder: 0, end: 1, normal: 2, housekeeping: 3 } as const;

export type Rank = (typeof RANK)[keyof typeof RANK];

interface Write {
  rank: Rank;
  /** Runs inside the transaction, possibly more than once: it must have no effect but on the database. */
  run: () => unknown;
  resolve: (value: never) => void;
  reject: (error: unknown) => void;
  deadline_ms: number;
  /** Answers by reading alone, when somebody else's commit has left nothing to write; undefined: it has not. */
  moot: (() => unknown) | null;
  /** In a commit of its own, in which the engine does not look after rows that belong to others. */
  unlinked: boolean;
}

const PAUSE_MIN_MS = 0.5;
const PAUSE_SPREAD_MS = 4;

export class Writer {
  /** Called before each commit; throws when there must be none. For those who stay: who writes once need not ask. */
  checkFile = (): void => {};
  /** How often the lock was somebody else's. */
  retries = 0;
  /** Called when a transaction has begun, and before it is committed: for what is written once for all of it. */
  begun = (): void => {};
  ending = (): void => {};
  readonly #database: SqlDatabase;
  readonly #path: string;
  readonly #random: Random;
  readonly #busy_limit_ms: number;
  readonly #begin: SqlStatement;
  readonly #commit: SqlStatement;
  #waiting: Write[] = [];
  /** Counts the commits that were begun: what waits was asked for since the last. */
  #round = 0;
  #scheduled = false;
  #delayed: ReturnType<typeof setTimeout> | null = null;
  #idle: (() => void)[] = [];
  /** A long transaction is open, or about to be. */
  #held = false;
  /** How many of them are open or wait for their turn, and the end of the last. */
  #long = 0;
  #lastLong = Promise.resolve();

  constructor(database: SqlDatabase, options: { path: string; random: Random; busy_limit_ms: number }) {
    this.#database = database;
    this.#path = options.path;
    this.#random = options.random;
    this.#busy_limit_ms = options.busy_limit_ms;
    this.#begin = database.prepare("BEGIN IMMEDIATE");
    this.#commit = database.prepare("COMMIT");
  }

  /** How many were begun so far. */
  get commits(): number {
    return this.#round;
  }

  /**
   * Resolves with what `run` returned once its commit is on disk. With `within_ms` it may wait so long for others to
   * share a sync with; one that is in a hurry takes it along at once.
   */
  write<T>(rank: Rank, run: () => T, within_ms = 0): Promise<T> {
    return this.#add(rank, run, within_ms, {});
  }

  /** Where another has the lock `moot` is asked: what it answers is the answer, and nothing is written; undefined: it is. */
  writeUnless<T>(rank: Rank, run: () => T, moot: () => T | undefined): Promise<T> {
    return this.#add(rank, run, 0, { moot });
  }

  /** By itself, and it sees to it that nothing is left which belongs to what it deletes: the engine takes twice as long. */
  writeUnlinked<T>(rank: Rank, run: () => T): Promise<T> {
    return this.#add(rank, run, 0, { unlinked: true });
  }

  #add<T>(rank: Rank, run: () => T, within_ms: number, how: Partial<Pick<Write, "moot" | "unlinked">>): Promise<T> {
    const { moot = null, unlinked = false } = how;
    return new Promise<T>((resolve, reject) => {
      const deadline_ms = performance.now() + this.#busy_limit_ms;
      this.#waiting.push({ rank, run, resolve: resolve as Write["resolve"], reject, deadline_ms, moot, unlinked });
      this.#scheduleWithin(within_ms);
    });
  }

  /**
   * A verb whose requests of one commit are carried out by one call, which answers each of them. When that call fails
   * because of one of them, each is tried again by itself, so that only the culprit fails.
   */
  together<Q, A>(rank: Rank, run: (requests: readonly Q[]) => A[]) {
    let batch: { round: number; requests: Q[]; answers: Promise<A[]> } | null = null;
    return async (requests: readonly Q[], within_ms: number): Promise<A[]> => {
      if (batch?.round === this.#round) this.#scheduleWithin(within_ms);
      else {
        const all: Q[] = [];
        batch = { round: this.#round, requests: all, answers: this.write(rank, () => run(all), within_ms) };
      }
      const { requests: all, answers } = batch;
      const from = all.length;
      all.push(...requests);
      try {
        return (await answers).slice(from, from + requests.length);
      } catch (error) {
        if (all.length === requests.length || isStoreTrouble(error)) throw error;
        return this.write(rank, () => run(requests));
      }
    };
  }

  /**
   * One transaction that takes its time; what else is asked of this writer meanwhile waits for its end. What `run`
   * does to the database it does through `step`: other errors than the engine's come back as they are.
   */
  async writeLong<T>(run: (step: Step) => Promise<T>): Promise<T> {
    this.#long += 1;
    const before = this.#lastLong;
    const turn = Promise.withResolvers<void>();
    this.#lastLong = turn.promise;
    await before;
    this.#held = true;
    try {
      await this.#beginLong();
      this.begun();
      const result = await run((work) => this.#step(work));
      this.#step(() => this.ending());
      this.#step(() => this.#commit.run());
      return result;
    } catch (error) {
      rollback(this.#database);
      throw error;
    } finally {
      this.#held = false;
      this.#long -= 1;
      this.#schedule();
      turn.resolve();
    }
  }

  /** Does what can't be done inside a transaction, unless a long one is open. */
  outside(work: () => void): void {
    if (!this.#held) this.#step(work);
  }

  #step<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw explain(error, this.#path);
    }
  }

  async #beginLong(): Promise<void> {
    const deadline_ms = performance.now() + this.#busy_limit_ms;
    for (;;) {
      try {
        this.checkFile();
        this.#begin.run();
        return;
      } catch (error) {
        if (!isBusy(error)) throw this.#unbegun(error);
        if (performance.now() > deadline_ms) throw this.#locked();
        this.retries += 1;
        await new Promise((done) => setTimeout(done, this.#pause_ms()));
      }
    }
  }

  /** A read that could not end its snapshot leaves the connection inside it: the next one must be able to begin. */
  #unbegun(error: unknown): unknown {
    rollback(this.#database);
    return explain(error, this.#path);
  }

  /** Resolves when nothing is waiting to be written. */
  settled(): Promise<void> {
    if (this.#waiting.length === 0 && this.#long === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  #scheduleWithin(delay_ms: number): void {
    if (delay_ms === 0) return this.#schedule();
    if (this.#scheduled || this.#delayed !== null) return;
    this.#delayed = setTimeout(() => this.#flush(), delay_ms);
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.#flush());
  }

  #flush(): void {
    this.#scheduled = false;
    if (this.#held) return;
    if (this.#delayed !== null) clearTimeout(this.#delayed);
    this.#delayed = null;
    const batch = this.#waiting.toSorted((a, b) => a.rank - b.rank);
    this.#waiting = [];
    this.#round += 1;
    const shared = batch.filter(({ unlinked }) => !unlinked);
    if (shared.length > 0) this.#commitAll(shared);
    for (const write of batch) if (write.unlinked) this.#commitUnlinked(write);
    if (this.#waiting.length > 0 || this.#long > 0) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  #commitAll(batch: Write[]): void {
    try {
      this.checkFile();
      this.#begin.run();
    } catch (error) {
      if (isBusy(error)) this.#retryLater(batch);
      else this.#failAll(batch, this.#unbegun(error));
      return;
    }
    const results: unknown[] = [];
    this.begun();
    try {
      for (const write of batch) results.push(write.run());
      this.ending();
      this.#commit.run();
    } catch (error) {
      rollback(this.#database);
      this.#failOne(batch, results.length, error);
      return;
    }
    for (const [index, write] of batch.entries()) write.resolve(results[index] as never);
  }

  #commitUnlinked(write: Write): void {
    this.#database.exec("PRAGMA foreign_keys = OFF");
    this.#commitAll([write]);
    this.#database.exec("PRAGMA foreign_keys = ON");
  }

  /** A write that fails by itself must not take the others of its commit along: they are tried again without it. */
  #failOne(batch: Write[], index: number, error: unknown): void {
    const culprit = batch[index];
    if (culprit === undefined || isStoreFailure(error)) return this.#failAll(batch, error);
    culprit.reject(explain(error, this.#path));
    this.#waiting = [...batch.filter((write) => write !== culprit), ...this.#waiting];
    if (this.#waiting.length > 0) this.#schedule();
  }

  #failAll(batch: Write[], error: unknown): void {
    for (const write of batch) write.reject(explain(error, this.#path));
  }

  #retryLater(batch: Write[]): void {
    this.retries += 1;
    const now_ms = performance.now();
    const [late, rest] = [batch.filter((w) => w.deadline_ms <= now_ms), batch.filter((w) => w.deadline_ms > now_ms)];
    for (const write of late) write.reject(this.#locked());
    this.#waiting = [...rest.filter((write) => !isMoot(write)), ...this.#waiting];
    if (this.#waiting.length === 0) return;
    this.#scheduled = true;
    setTimeout(() => this.#flush(), this.#pause_ms());
  }

  #pause_ms(): number {
    return PAUSE_MIN_MS + this.#random() * PAUSE_SPREAD_MS;
  }

  #locked(): LeaseError {
    const limit = formatDuration(this.#busy_limit_ms);
    const message = `store ${this.#path} has been locked by another process for ${limit}: \`fuser\` on it tells which`;
    return new LeaseError("store_busy", message);
  }
}

/** And has been answered, if so. One that can't be asked now is written. */
function isMoot({ moot, resolve }: Write): boolean {
  try {
    const answer = moot?.();
    if (answer === undefined) return false;
    resolve(answer as never);
    return true;
  } catch {
    return false;
  }
}

/** After a full disk or an I/O error SQLite has rolled back by itself, and says so by an error. */
export function rollback(database: SqlDatabase): void {
  try {
    database.exec("ROLLBACK");
  } catch {
    // Nothing is left to roll back.
  }
}
