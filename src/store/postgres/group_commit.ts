/**
 * Group commit: what several slots ask at the same time becomes one statement. While one is under way, what comes in is
 * kept for the next; so a lone request goes out at once and many share a round trip and a sync.
 */

import type { Clock } from "../../core/clock.ts";
import type {
  AcquireRequest,
  ExtendAnswer,
  ExtendRequest,
  Grant,
  LogWrite,
  ProcessNote,
  SettleAnswer,
  SettleRequest,
} from "../store.ts";
import { PROMOTE_LIMIT, acquire, promote, type Acquired } from "./acquire.ts";
import { extend, inRounds, noteProcess, type TimedExtend } from "./extend.ts";
import { appendLogs } from "./logs.ts";
import type { Connection, Session } from "./session/session.ts";
import { settle, type EndWriter } from "./settle.ts";
import { SQL } from "./statements.ts";

interface Waiting<Q, A> {
  requests: readonly Q[];
  resolve: (answers: A[]) => void;
  reject: (error: unknown) => void;
}

/** Rows in one statement: long enough to be worth it, short enough that nobody waits long behind it. */
const MOST = 1_000;

export class GroupCommit<Q, A> {
  readonly #send: (requests: readonly Q[]) => Promise<A[]>;
  #waiting: Waiting<Q, A>[] = [];
  #under_way = false;
  #scheduled = false;
  #delayed: ReturnType<typeof setTimeout> | null = null;
  #idle: (() => void)[] = [];

  constructor(send: (requests: readonly Q[]) => Promise<A[]>) {
    this.#send = send;
  }

  /** With `within_ms` it may wait so long for others; one that is in a hurry takes it along at once. */
  ask(requests: readonly Q[], within_ms = 0): Promise<A[]> {
    if (requests.length === 0) return Promise.resolve([]);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ requests, resolve, reject });
      if (this.#scheduled || this.#under_way) return;
      if (within_ms > 0) this.#delayed ??= setTimeout(() => this.#flush(), within_ms);
      else {
        this.#scheduled = true;
        queueMicrotask(() => this.#flush());
      }
    });
  }

  /** Resolves when everything that was asked has been answered. */
  settled(): Promise<void> {
    if (this.#delayed !== null) this.#flush();
    if (!this.#under_way && this.#waiting.length === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  #flush(): void {
    this.#scheduled = false;
    if (this.#delayed !== null) clearTimeout(this.#delayed);
    this.#delayed = null;
    if (this.#under_way) return;
    const batch = this.#take();
    if (batch.length === 0) {
      for (const resolve of this.#idle.splice(0)) resolve();
      return;
    }
    this.#under_way = true;
    void this.#carryOut(batch).then(() => {
      this.#under_way = false;
      this.#flush();
    });
  }

  #take(): Waiting<Q, A>[] {
    let rows = 0;
    let count = 0;
    for (const { requests } of this.#waiting) {
      if (count > 0 && rows + requests.length > MOST) break;
      rows += requests.length;
      count += 1;
    }
    return this.#waiting.splice(0, count);
  }

  async #carryOut(batch: readonly Waiting<Q, A>[]): Promise<void> {
    try {
      const answers = await this.#send(batch.flatMap(({ requests }) => requests));
      let from = 0;
      for (const { requests, resolve } of batch) resolve(answers.slice(from, (from += requests.length)));
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
}

/** Must not wait behind anything else. */
export const QUICK = { quick: true };

/** What the holders of leases ask of the store, each verb for all slots of the process in one statement. */
export class GroupedVerbs {
  readonly #session: Session;
  readonly #clock: Clock;
  readonly #ends: EndWriter;
  readonly #extends = new GroupCommit<TimedExtend, ExtendAnswer>((all) =>
    inRounds(all, (round) => this.#quick((db) => extend(db, round, this.#clock.mono_ms()))),
  );
  readonly #settles = new GroupCommit<SettleRequest, SettleAnswer>((all) => settle(this.#ends, all));
  readonly #notes = new GroupCommit<ProcessNote, null>(async (all) => {
    await this.#quick((db) => noteProcess(db, all));
    return all.map(() => null);
  });
  readonly #logs = new GroupCommit<LogWrite, null>(async (all) => {
    await this.#quick((db) => appendLogs(db, all));
    return all.map(() => null);
  });
  readonly #clocks = new GroupCommit<null, number>(async (all) => {
    const [row] = await this.#quick((db) => db.query(SQL.now));
    return all.map(() => row?.["ms"] as number);
  });

  /** Of which jobs output is being written. */
  readonly #printing = new Map<number, Promise<unknown>>();

  /** `onFreed`: others may have been waiting for what has ended. */
  constructor(session: Session, clock: Clock, onFreed: () => void) {
    this.#session = session;
    this.#clock = clock;
    this.#ends = endWriter(session, QUICK, onFreed);
  }

  /** What turns out to be damaged is set aside, and others are granted instead. */
  async acquire(request: AcquireRequest, newNumber: () => number): Promise<Grant[]> {
    const grants: Grant[] = [];
    while (grants.length < request.count) {
      const found = await this.#acquireSome({ ...request, count: request.count - grants.length }, newNumber());
      grants.push(...found.grants);
      if (found.damaged.length === 0) break;
      try {
        await settle(this.#ends, found.damaged);
      } catch (error) {
        // What was granted is not given up for it: a sweep sets those aside when their leases are over.
        if (grants.length === 0) throw error;
        break;
      }
    }
    return grants;
  }

  /** `number` names this call, so that one whose answer was lost can be told again. */
  async #acquireSome(request: AcquireRequest, number: number): Promise<Acquired> {
    for (let due_first = true; ;) {
      const acquired = await this.#quick((db, again) => acquire(db, request, { number, due_first, again }));
      if (acquired !== null) return acquired;
      // When others are at it already, their promotions count as not yet there.
      const promoted = await this.#quick(promote);
      if (promoted < PROMOTE_LIMIT) due_first = false;
    }
  }

  extend(requests: readonly ExtendRequest[]): Promise<ExtendAnswer[]> {
    const asked_at_ms = this.#clock.mono_ms();
    return this.#extends.ask(requests.map((request) => ({ id: request.id, request, asked_at_ms })));
  }

  /** What was printed before the end is kept before it: afterwards the fence would refuse it. */
  async settle(requests: readonly SettleRequest[], within_ms: number): Promise<SettleAnswer[]> {
    const printed = requests.flatMap(({ id }) => this.#printing.get(id) ?? []);
    if (printed.length > 0) await Promise.all(printed);
    return this.#settles.ask(requests, within_ms);
  }

  async noteProcess(requests: readonly ProcessNote[]): Promise<void> {
    await this.#notes.ask(requests);
  }

  async appendLogs(requests: readonly LogWrite[]): Promise<void> {
    const asked = this.#logs.ask(requests);
    for (const { id } of requests) this.#printing.set(id, asked);
    try {
      await asked;
    } finally {
      for (const { id } of requests) if (this.#printing.get(id) === asked) this.#printing.delete(id);
    }
  }

  async now(): Promise<number> {
    const [now_ms] = await this.#clocks.ask([null]);
    return now_ms as number;
  }

  /** Resolves when everything that was asked has been answered. */
  async settled(): Promise<void> {
    await Promise.all(
      [this.#extends, this.#settles, this.#notes, this.#logs, this.#clocks].map((one) => one.settled()),
    );
  }

  #quick<T>(work: (db: Connection, again: boolean) => Promise<T>): Promise<T> {
    return this.#session.run(work, QUICK);
  }
}

export function endWriter(session: Session, options: { quick?: boolean }, onFreed: () => void): EndWriter {
  return {
    statement: (work) => session.run(work, options),
    transaction: async (work) => {
      const result = await session.transaction(work, options);
      onFreed();
      return result;
    },
  };
}
