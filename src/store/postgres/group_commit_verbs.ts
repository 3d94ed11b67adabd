/** What the holders of leases ask of the store, each verb gathered over all slots of the process into one statement. */

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
import type { Acquired, TimedExtend } from "./acquire.ts";
import { acquire, appendLogs, extend, noteProcess, promote, PROMOTE_LIMIT } from "./acquire.ts";
import { Gather } from "./group_commit.ts";
import { inRounds } from "./session/rounds.ts";
import type { Session } from "./session/session.ts";
import { settle } from "./settle.ts";
import type { Ways } from "./settle.ts";
import type { Statements } from "./session/sql.ts";

/** Must not wait behind anything else. */
export const QUICK = { quick: true };

export class Holder {
  readonly #session: Session;
  readonly #statements: Statements;
  readonly #clock: Clock;
  readonly #onFreed: () => void;
  readonly #extends = new Gather<TimedExtend, ExtendAnswer>((all) => this.#extendAll(all));
  readonly #settles = new Gather<SettleRequest, SettleAnswer>((all) =>
    settle(this.#statements, waysOf(this.#session, QUICK, this.#onFreed), all),
  );
  readonly #notes = new Gather<ProcessNote, null>(async (all) => {
    await this.#session.run((connection) => noteProcess(this.#statements, connection, all), QUICK);
    return all.map(() => null);
  });
  readonly #logs = new Gather<LogWrite, null>(async (all) => {
    await this.#session.run((connection) => appendLogs(this.#statements, connection, all), QUICK);
    return all.map(() => null);
  });
  readonly #clocks = new Gather<null, number>(async (all) => {
    const [row] = await this.#session.run((connection) => this.#statements.run(connection, "now"), QUICK);
    return all.map(() => row?.["ms"] as number);
  });

  /** Of which jobs output is being written. */
  readonly #printing = new Map<number, Promise<unknown>>();

  /** `onFreed`: others may have been waiting for what has ended. */
  constructor(options: { session: Session; statements: Statements; clock: Clock }, onFreed: () => void) {
    this.#session = options.session;
    this.#statements = options.statements;
    this.#clock = options.clock;
    this.#onFreed = onFreed;
  }

  /** What turns out to be damaged is set aside, and others are granted instead. */
  async acquire(request: AcquireRequest, newNumber: () => number): Promise<Grant[]> {
    const grants: Grant[] = [];
    while (grants.length < request.count) {
      const found = await this.#acquireSome({ ...request, count: request.count - grants.length }, newNumber());
      grants.push(...found.grants);
      if (found.damaged.length === 0) break;
      try {
        await settle(this.#statements, waysOf(this.#session, QUICK, this.#onFreed), found.damaged);
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
      const acquired = await this.#session.run(
        (connection, again) => acquire(this.#statements, connection, request, { number, due_first, again }),
        QUICK,
      );
      if (acquired !== null) return acquired;
      // When others are at it already, their promotions count as not yet there.
      const promoted = await this.#session.run((connection) => promote(this.#statements, connection), QUICK);
      if (promoted < PROMOTE_LIMIT) due_first = false;
    }
  }

  extend(requests: readonly ExtendRequest[]): Promise<ExtendAnswer[]> {
    const asked_at_ms = this.#clock.mono_ms();
    return this.#extends.ask(requests.map((request) => ({ request, asked_at_ms })));
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

  #extendAll(all: readonly TimedExtend[]): Promise<ExtendAnswer[]> {
    const asked = all.map((timed) => ({ id: timed.request.id, timed }));
    return inRounds(asked, (round) =>
      this.#session.run((connection) => {
        const timed = round.map((one) => one.timed);
        return extend(this.#statements, connection, timed, this.#clock.mono_ms());
      }, QUICK),
    );
  }
}

export function waysOf(session: Session, manner: { quick?: boolean }, onFreed: () => void): Ways {
  return {
    alone: (work) => session.run(work, manner),
    together: async (work) => {
      const result = await session.transaction(work, manner);
      onFreed();
      return result;
    },
  };
}
