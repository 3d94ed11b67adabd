/** The PostgreSQL store: each verb is one statement or one transaction; the files beside this one say what happens in it. */

import type { Clock, Random } from "../../core/clock.ts";
import type { NewJob } from "../../core/job.ts";
import type { Holder, Producer, Reader, Store, Sweeper, Upkeep } from "../store.ts";
import { promoteAll } from "./acquire.ts";
import { cancel, cancelRequests } from "./cancel.ts";
import { freeSome } from "./dependencies.ts";
import { checkAll, enqueue, enqueueAll, insertPlain, isOneStatement, isPlain, onlyOnce } from "./enqueue.ts";
import { checkpoint, saveWorker } from "./extend.ts";
import { GroupCommit, QUICK, endWriter, groupedVerbs } from "./group_commit.ts";
import { learned } from "./settle.ts";
import { FOLD_EVERY, foldDeltas, history, totals } from "./history.ts";
import { holdings, limits, setLimit } from "./limits.ts";
import { logs } from "./logs.ts";
import { pausedQueues, setPaused } from "./pause.ts";
import * as read from "./read.ts";
import { search } from "./search.ts";
import { buryWorker, expired, noteRecovery, recover, recovery, storeId } from "./recover.ts";
import { retry } from "./retry.ts";
import {
  dropSchedule,
  fire,
  nextSchedule,
  pauseSchedule,
  rewindSchedule,
  schedules,
  setSchedule,
} from "./schedules.ts";
import type { CallOptions, Connection, Session } from "./session/session.ts";
import { Notifications, type Notice } from "./watch.ts";

const ONCE = { once: true };
/** More jobs than this in one call have a transaction of their own. */
const MOST_TOGETHER = 1_000;

type Verb<A extends unknown[], T> = (db: Connection, ...args: A) => Promise<T>;

/** How verbs are carried out. */
class Calls {
  readonly session: Session;
  readonly grouped: ReturnType<typeof groupedVerbs>;
  readonly notifications: Notifications;
  readonly #unfinished = new Set<Promise<unknown>>();
  /** Begins anywhere: of many processes that change one thing each, now and then one folds for all. */
  #changes: number;

  constructor(session: Session, schema: string, clock: Clock, random: Random) {
    this.session = session;
    this.notifications = new Notifications(session, schema, clock, random);
    this.grouped = groupedVerbs(session, clock, random, (notice) => this.tell(notice));
    this.#changes = Math.floor(random() * FOLD_EVERY);
  }

  /** Others are told of a change; and what changes have left to be added up must not pile up. */
  tell(notice: Notice): void {
    this.notifications.send(notice);
    if (++this.#changes % FOLD_EVERY > 0) return;
    // Nobody waits for it, and the next one does what this one could not.
    void this.track(this.session.transaction(foldDeltas)).catch(() => {});
  }

  /** As one statement, or several that need no transaction. */
  plain<A extends unknown[], T>(verb: Verb<A, T>, options?: CallOptions): (...args: A) => Promise<T> {
    return (...args) => this.track(this.session.run((db) => verb(db, ...args), options));
  }

  /** As a transaction of which others are told. */
  change<A extends unknown[], T>(notice: Notice, verb: Verb<A, T>, options?: CallOptions): (...args: A) => Promise<T> {
    const transaction = (...args: A) => this.session.transaction((db) => verb(db, ...args), options);
    return (...args) => this.telling(notice, transaction(...args));
  }

  async telling<T>(notice: Notice, asked: Promise<T>): Promise<T> {
    const result = await this.track(asked);
    this.tell(notice);
    return result;
  }

  /** What was asked is finished before the store closes. */
  async track<T>(asked: Promise<T>): Promise<T> {
    this.#unfinished.add(asked);
    try {
      return await asked;
    } finally {
      this.#unfinished.delete(asked);
    }
  }

  async close(): Promise<void> {
    await this.grouped.settled();
    while (this.#unfinished.size > 0) await Promise.allSettled(this.#unfinished);
    await this.notifications.close();
    await this.session.close();
  }
}

export function postgresStore(session: Session, schema: string, clock: Clock, random: Random): Store {
  const calls = new Calls(session, schema, clock, random);
  return { ...producer(calls), ...holder(calls), ...sweeper(calls), ...reader(calls), ...upkeep(calls, schema) };
}

function producer(calls: Calls): Producer {
  const enqueueEach = calls.change("urgent", enqueue, ONCE);
  const enqueueStream = calls.change("urgent", enqueueAll, ONCE);
  const plain = new GroupCommit<NewJob, number>((all) => {
    const call = all.every(isOneStatement) ? "run" : "transaction";
    const inserted = calls.session[call]((db) => insertPlain(db, all), ONCE);
    return calls.telling("urgent", inserted);
  });
  return {
    async enqueue(jobs, options = {}) {
      if (jobs.length === 0) return [];
      checkAll(jobs);
      if (options.acquire !== undefined || jobs.length > MOST_TOGETHER || !jobs.every(isPlain)) {
        return enqueueEach(jobs, options);
      }
      const ids = await calls.track(plain.ask(jobs));
      return ids.map((id) => ({ id, created: true }));
    },
    enqueueAll: (batches) => enqueueStream(onlyOnce(batches)),
    cancel: calls.change("urgent", cancel, ONCE),
    retry: calls.change("urgent", retry, ONCE),
    edit: async (ids, changes) => calls.change("urgent", (await import("./edit.ts")).edit, ONCE)(ids, changes),
    setPaused: calls.change("urgent", setPaused),
    setLimit: calls.change("urgent", setLimit),
    setSchedule: calls.change("other", setSchedule),
    dropSchedule: calls.change("other", dropSchedule),
    pauseSchedule: calls.change("other", pauseSchedule),
    rewindSchedule: calls.change("other", rewindSchedule),
    fire: calls.change("urgent", fire, ONCE),
    close: () => calls.close(),
  };
}

function holder(calls: Calls): Holder {
  return {
    ...calls.grouped.holder,
    checkpoint: calls.plain(checkpoint, QUICK),
    cancelRequests: calls.plain(cancelRequests, QUICK),
    // Nobody waits for that, and many do it all the time.
    saveWorker: calls.plain(saveWorker),
  };
}

function sweeper(calls: Calls): Sweeper {
  const ends = endWriter(calls.session, {}, () => {});
  const promote = calls.plain(promoteAll);
  return {
    expired: calls.plain(expired),
    recover: (requests) => calls.telling("urgent", recover(ends, requests)),
    buryWorker: calls.plain(buryWorker),
    noteRecovery: calls.change("other", noteRecovery, ONCE),
    storeId: calls.plain(storeId),
    async age(aging_ms) {
      const { RISE_TOGETHER, age } = await import("./age.ts");
      for (let total = 0; ;) {
        const count = await calls.plain(age)(aging_ms);
        total += count;
        if (count < RISE_TOGETHER) return total;
      }
    },
    async promote() {
      const promoted = await promote();
      while (await calls.session.transaction(freeSome)) calls.notifications.send("urgent");
      if (promoted > 0) calls.notifications.send("urgent");
      return promoted;
    },
    // The database's clock is not this machine's.
    noticeClockJump: async () => false,
  };
}

function reader(calls: Calls): Reader {
  return {
    location: calls.session.location,
    shares_clock: false,
    now: (options) => calls.grouped.now(options),
    jobs: calls.plain(read.jobs),
    list: calls.plain(read.list),
    outlines: calls.plain(read.outlines),
    search: calls.plain(search),
    attempts: calls.plain(read.attempts),
    checkpoints: calls.plain(read.checkpoints),
    logs: calls.plain(logs),
    counts: calls.plain(read.counts),
    history: calls.plain(history),
    totals: calls.plain(totals),
    oldestPending: calls.plain(read.oldestPending),
    leases: calls.plain(read.leaseHealth),
    links: calls.plain(read.links),
    parents: calls.plain(read.parents),
    learned: calls.plain(learned),
    pausedQueues: calls.plain(pausedQueues),
    retryCounts: calls.plain(read.retryCounts),
    backlog: calls.plain(read.backlog),
    topPriority: calls.plain(read.topPriority, QUICK),
    limits: calls.plain(limits),
    holdings: calls.plain(holdings),
    schedules: calls.plain(schedules),
    nextSchedule: calls.plain(nextSchedule, QUICK),
    nextDue: calls.plain(read.nextDue, QUICK),
    workers: calls.plain(read.workers),
    recovery: calls.plain(recovery),
    watch: (changed) => calls.notifications.watch(changed),
    // A server has its files to itself.
    onReplaced: () => () => {},
  };
}

/** What few processes ask for is loaded by those. */
function upkeep(calls: Calls, schema: string): Upkeep {
  return {
    writeRetries: () => calls.session.retries,
    prunable: async (query) => calls.plain((await import("./prune.ts")).prunable)(query),
    prune: async (query) => calls.change("other", (await import("./prune.ts")).prune)(query),
    retention: async () => calls.plain((await import("./prune.ts")).retention)(),
    setRetention: async (given) => calls.change("other", (await import("./prune.ts")).setRetention)(given),
    trimCheckpoints: async (keep) => calls.change("other", (await import("./prune.ts")).trimCheckpoints)(keep),
    async foldHistory() {
      const { foldHours } = await import("./history.ts");
      await calls.track(calls.session.transaction(foldDeltas));
      await calls.track(calls.session.transaction(foldHours));
    },
    // Autovacuum does it.
    tidy: async () => {},
    diagnose: async (options) => calls.plain((await import("./diagnose.ts")).diagnose)(schema, options),
    audit: async () => (await import("./audit.ts")).auditHistory(calls.session),
    async transfer() {
      const { postgresTransfer } = await import("./transfer.ts");
      return postgresTransfer(calls.session);
    },
  };
}
