/**
 * Group commit: what several slots ask at the same time becomes one statement. While one is under way, what comes in is
 * kept for the next; so a lone request goes out at once and many share a round trip and a sync.
 */

import type { Clock, Random } from "../../core/clock.ts";
import type {
  AcquireRequest,
  ExtendAnswer,
  Grant,
  Holder,
  ProcessNote,
  SettleAnswer,
  SettleRequest,
} from "../store.ts";
import type { LogWrite } from "../queries.ts";
import { PROMOTE_LIMIT, acquire, acquireBounded, promote, type Acquired } from "./acquire.ts";
import { freeSome } from "./dependencies.ts";
import { insertPlain } from "./enqueue.ts";
import { extend, inRounds, noteProcess, type TimedExtend } from "./extend.ts";
import { appendLogs } from "./logs.ts";
import type { Session } from "./session/session.ts";
import { settle, type EndWriter } from "./settle.ts";
import { SQL } from "./statements.ts";
import type { Notice } from "./watch.ts";

interface Waiting<Q, A> {
  requests: readonly Q[];
  resolve: (answers: A[]) => void;
  reject: (error: unknown) => void;
}

/** Rows in one statement: long enough to be worth it, short enough that nobody waits long behind it. */
const MOST = 1_000;
/** So many are worth a statement of their own: they don't wait for the one that is under way. */
const ENOUGH = 200;

export class GroupCommit<Q, A> {
  readonly #send: (requests: readonly Q[]) => Promise<A[] | void>;
  readonly #at_once: number;
  readonly #waiting: Waiting<Q, A>[] = [];
  #waiting_rows = 0;
  #delayed: ReturnType<typeof setTimeout> | null = null;
  #under_way = 0;
  /** Those that are under way; each ends when nothing waits any more that another does not send. */
  readonly #sending = new Set<Promise<void>>();

  /** `send` answers each request, or none of them; `at_once`: of so many statements when enough is waiting. */
  constructor(send: (requests: readonly Q[]) => Promise<A[] | void>, { at_once = 1 } = {}) {
    this.#send = send;
    this.#at_once = at_once;
  }

  /** With `within_ms` it may wait so long for others; one that is in a hurry takes it along at once. */
  ask(requests: readonly Q[], within_ms = 0): Promise<A[]> {
    if (requests.length === 0) return Promise.resolve([]);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ requests, resolve, reject });
      this.#waiting_rows += requests.length;
      if (within_ms === 0) this.#begin();
      else if (this.#under_way === 0) this.#delayed ??= setTimeout(() => this.#begin(), within_ms);
    });
  }

  /** Resolves when everything that was asked has been answered. */
  async settled(): Promise<void> {
    if (this.#delayed !== null) this.#begin();
    await Promise.all(this.#sending);
  }

  #begin(): void {
    if (this.#delayed !== null) clearTimeout(this.#delayed);
    this.#delayed = null;
    if (this.#under_way > 0 && (this.#under_way >= this.#at_once || this.#waiting_rows < ENOUGH)) return;
    this.#under_way += 1;
    const sending = this.#sendAll().finally(() => this.#sending.delete(sending));
    this.#sending.add(sending);
  }

  async #sendAll(): Promise<void> {
    // What is asked in the same turn goes along.
    await Promise.resolve();
    while (this.#waiting_rows >= (this.#under_way > 1 ? ENOUGH : 1)) await this.#carryOut(this.#take());
    this.#under_way -= 1;
  }

  #take(): Waiting<Q, A>[] {
    let rows = 0;
    let count = 0;
    for (const { requests } of this.#waiting) {
      if (count > 0 && rows + requests.length > MOST) break;
      rows += requests.length;
      count += 1;
    }
    this.#waiting_rows -= rows;
    return this.#waiting.splice(0, count);
  }

  async #carryOut(batch: readonly Waiting<Q, A>[]): Promise<void> {
    try {
      const answers = (await this.#send(batch.flatMap(({ requests }) => requests))) ?? [];
      let from = 0;
      for (const { requests, resolve } of batch) resolve(answers.slice(from, (from += requests.length)));
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
}

/** Must not wait behind anything else. */
export const QUICK = { quick: true };

type GroupedHolder = Pick<Holder, "acquire" | "extend" | "settle" | "noteProcess" | "appendLogs">;

/** The store's clock: many ask at once, and most of them are content with a reading that is not old. */
function readings(quick: Session["run"], clock: Clock) {
  let read = { store_ms: 0, mono_ms: -Infinity };
  const asked = new GroupCommit<null, number>(async (all) => {
    const [row] = await quick((db) => db.query<{ ms: number }>(SQL.now));
    const store_ms = row?.ms as number;
    // As of when the answer came: by then it was later there.
    read = { store_ms, mono_ms: clock.mono_ms() };
    return all.map(() => store_ms);
  });
  return {
    async now({ within_ms }: { within_ms: number } = { within_ms: 0 }): Promise<number> {
      const age_ms = clock.mono_ms() - read.mono_ms;
      if (age_ms < within_ms) return Math.floor(read.store_ms + age_ms);
      return (await asked.ask([null]))[0] as number;
    },
    settled: () => asked.settled(),
  };
}

/** What the holders of leases ask of the store, each verb for all slots of the process in one statement. */
export function groupedVerbs(session: Session, clock: Clock, random: Random, send: (notice: Notice) => void) {
  const quick: Session["run"] = (work) => session.run(work, QUICK);
  const together: Session["transaction"] = (work) => session.transaction(work, QUICK);
  // Others may have been waiting for what has ended.
  const ends = endWriter(session, QUICK, () => send("urgent"));
  const extensions = new GroupCommit<TimedExtend, ExtendAnswer>((all) =>
    inRounds(all, (round) => quick((db) => extend(db, round, clock.mono_ms()))),
  );
  const settles = new GroupCommit<SettleRequest, SettleAnswer>(
    async (all) => {
      const answers = await settle(ends, all);
      send(all.some(({ change }) => change.state.name === "pending") ? "urgent" : "other");
      return answers;
    },
    { at_once: 2 },
  );
  const notes = new GroupCommit<ProcessNote, void>((all) => quick((db) => noteProcess(db, all)));
  const prints = new GroupCommit<LogWrite, void>((all) => quick((db) => appendLogs(db, all)));
  const store_clock = readings(quick, clock);
  /** Of which jobs output is being written. */
  const printing = new Map<number, Promise<unknown>>();
  const holder: GroupedHolder = {
    acquire: (request) =>
      acquireSound({ run: quick, transaction: together }, ends, request, () =>
        Math.floor(random() * Number.MAX_SAFE_INTEGER),
      ),
    extend(requests, { within_ms } = { within_ms: 0 }) {
      const asked_at_ms = clock.mono_ms();
      return extensions.ask(
        requests.map((request) => ({ ...request, asked_at_ms })),
        within_ms,
      );
    },
    // What was printed before the end is kept before it: afterwards the fence would refuse it.
    async settle(requests, { within_ms } = { within_ms: 0 }) {
      if (printing.size > 0) await Promise.all(requests.map(({ id }) => printing.get(id)));
      return settles.ask(requests, within_ms);
    },
    noteProcess: async (requests) => void (await notes.ask(requests)),
    async appendLogs(requests) {
      const asked = prints.ask(requests);
      for (const { id } of requests) printing.set(id, asked);
      try {
        await asked;
      } finally {
        for (const { id } of requests) if (printing.get(id) === asked) printing.delete(id);
      }
      send("other");
    },
  };
  return {
    holder,
    now: store_clock.now,
    /** Resolves when everything that was asked has been answered. */
    settled: () => Promise.all([extensions, settles, notes, prints, store_clock].map((one) => one.settled())),
  };
}

/** What turns out to be damaged is set aside, and others are granted instead. */
async function acquireSound(
  calls: Pick<Session, "run" | "transaction">,
  ends: EndWriter,
  request: AcquireRequest,
  newNumber: () => number,
): Promise<Grant[]> {
  const grants: Grant[] = [];
  while (grants.length < request.count) {
    const found = await acquireSome(calls, ends, { ...request, count: request.count - grants.length }, newNumber());
    grants.push(...found.grants);
    if (found.damaged.length === 0) break;
    try {
      await settle(ends, found.damaged);
    } catch (error) {
      // What was granted is not given up for it: a sweep sets those aside when their leases are over.
      if (grants.length === 0) throw error;
      break;
    }
  }
  return grants;
}

/** `number` names this call, so that one whose answer was lost can be told again. */
async function acquireSome(
  { run, transaction }: Pick<Session, "run" | "transaction">,
  ends: EndWriter,
  request: AcquireRequest,
  number: number,
): Promise<Acquired> {
  let freeing = false;
  for (let due_first = true; ;) {
    const found = await run((db, again) => acquire(db, request, { number, due_first, again }));
    const acquired =
      found === "bounded"
        ? await transaction((db, again) => acquireBounded(db, request, { number, due_first, again }))
        : found;
    // The next in turn may be one that has not been told yet that it is free.
    if (acquired !== "due" && (!freeing || acquired.grants.length + acquired.damaged.length > 0)) return acquired;
    // When others are at it already, their promotions count as not yet there.
    if (acquired === "due" && (await run(promote)) < PROMOTE_LIMIT) due_first = false;
    freeing = await ends.transaction(freeSome);
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
    queue: insertPlain,
  };
}
