/** The SQLite store: each verb is one write or one read; the files beside this one say what happens in it. */

import type { Clock } from "../../core/clock.ts";
import type {
  AcquireRequest,
  Holder,
  Producer,
  Reader,
  SettleAnswer,
  SettleRequest,
  Store,
  Sweeper,
  Upkeep,
} from "../store.ts";
import { acquire, acquireOne, isDue, mayAcquire, promote } from "./acquire.ts";
import { RISE_TOGETHER, age } from "./age.ts";
import { cancel, cancelRequests } from "./cancel.ts";
import { freeSome, isFreeing } from "./dependencies.ts";
import { Database, type Connection } from "./open.ts";
import { diagnose } from "./diagnose.ts";
import { edit } from "./edit.ts";
import { enqueue, enqueueAll } from "./enqueue.ts";
import { anyEnds, checkpoint, extend, noteProcess, prolong, saveWorker } from "./extend.ts";
import { explain } from "./failure.ts";
import { foldHour, history, oldHour, totals, writeNoted } from "./history.ts";
import { holdings, limits, setLimit } from "./limits.ts";
import { appendLogs, logs } from "./logs.ts";
import { pausedQueues, setPaused } from "./pause.ts";
import { oldest, prunable, prune, retention, setRetention, trims } from "./prune.ts";
import * as read from "./read.ts";
import { search } from "./search.ts";
import {
  expired,
  buryWorker,
  giveStoreId,
  isSteady,
  noteRecovery,
  noticeClockJump,
  recover,
  recovery,
  storeId,
} from "./recover.ts";
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
import { learned, settle } from "./settle.ts";
import { sqliteTransfer } from "./transfer.ts";
import { watchCommits, watchReplaced } from "./watch.ts";
import { RANK, type Rank, type Step, type Writer } from "./writer.ts";

/** So often, until none was granted meanwhile. */
const MOST_PROLONGED = 5;
/** Of commits for one thing; each has its hands full. */
const MOST_ROUNDS = 10_000;
const TIDY_WAL_BYTES = 4 * 1024 * 1024;

type Verb<A extends unknown[], T> = (db: Database, ...args: A) => T;

/** How verbs are carried out. */
class Calls {
  readonly location: string;
  readonly connection: Connection;
  readonly db: Database;
  readonly writer: Writer;
  readonly watches = new Set<() => void>();

  constructor(connection: Connection, clock: Clock) {
    this.location = connection.path;
    this.connection = connection;
    this.db = new Database(connection.database, clock);
    this.writer = connection.writer;
    if (connection.files !== null) this.writer.checkFile = connection.files.check;
    this.writer.begun = () => this.db.noted.forget();
    this.writer.ending = () => writeNoted(this.db);
  }

  /** In a commit with what else is asked at the time. */
  write<A extends unknown[], T>(rank: Rank, verb: Verb<A, T>): (...args: A) => Promise<T> {
    return (...args) => this.writer.write(rank, () => verb(this.db, ...args));
  }

  read<A extends unknown[], T>(verb: Verb<A, T>): (...args: A) => Promise<T> {
    return async (...args) => this.readNow(verb, ...args);
  }

  readNow<A extends unknown[], T>(verb: Verb<A, T>, ...args: A): T {
    try {
      return verb(this.db, ...args);
    } catch (error) {
      throw explain(error, this.location);
    }
  }

  /** An index that is damaged may promise for ever what nobody finds. */
  refuseEndless(round: number): void {
    if (round >= MOST_ROUNDS) throw explain(new Error("database disk image is malformed"), this.location);
  }

  async close(options: { exiting: boolean } = { exiting: false }): Promise<void> {
    for (const stop of this.watches) stop();
    this.watches.clear();
    await this.connection.close(options);
  }
}

export function sqliteStore(connection: Connection, clock: Clock): Store {
  const calls = new Calls(connection, clock);
  return { ...producer(calls), ...holder(calls), ...sweeper(calls), ...reader(calls), ...upkeep(calls) };
}

/** Children of what has ended that one commit could not tell. */
async function freeRest(calls: Calls): Promise<void> {
  const free = calls.write(RANK.housekeeping, freeSome);
  for (let round = 0; calls.readNow(isFreeing); round++) {
    calls.refuseEndless(round);
    await free();
  }
}

function producer(calls: Calls): Producer {
  const { db, writer } = calls;
  const cancelSome = calls.write(RANK.normal, cancel);
  const prolongAll = calls.write(RANK.normal, prolong);
  return {
    enqueue: (jobs, { acquire: acquirer, done_answers } = {}) =>
      writer.write(RANK.normal, () => {
        const queued = enqueue(db, jobs, done_answers);
        if (acquirer === undefined) return queued;
        return queued.map((job) => ({ ...job, grant: acquireOne(db, job.id, acquirer)[0] ?? null }));
      }),
    async enqueueAll(batches, { hold_ms = 0 } = {}) {
      for (let tries = hold_ms > 0 ? MOST_PROLONGED : 0; tries > 0; tries--) {
        await prolongAll(hold_ms);
        // Somebody may have been granted one between that commit and this lock.
        const all = (step: Step) => (step(() => anyEnds(db, hold_ms / 2)) ? null : enqueueAll(db, batches, step));
        const done = await writer.writeLong(async (step) => all(step));
        if (done !== null) return done;
      }
      return writer.writeLong((step) => enqueueAll(db, batches, step));
    },
    async cancel(ids, reason, options) {
      const answers = await cancelSome(ids, reason, options);
      await freeRest(calls);
      return answers;
    },
    retry: calls.write(RANK.normal, retry),
    edit: calls.write(RANK.normal, edit),
    setPaused: calls.write(RANK.normal, setPaused),
    setLimit: calls.write(RANK.normal, setLimit),
    setSchedule: calls.write(RANK.normal, setSchedule),
    dropSchedule: calls.write(RANK.normal, dropSchedule),
    pauseSchedule: calls.write(RANK.normal, pauseSchedule),
    rewindSchedule: calls.write(RANK.normal, rewindSchedule),
    fire: calls.write(RANK.normal, fire),
    close: (options) => calls.close(options),
  };
}

function holder(calls: Calls): Holder {
  const { db, writer } = calls;
  // Those that lose the race for the lock look again: most often the one job that woke them all has been taken.
  const acquireSome = (request: AcquireRequest) =>
    writer.writeUnless(
      RANK.normal,
      () => acquire(db, request),
      () => (mayAcquire(db, request) ? undefined : []),
    );
  /** The last one found all that it asked for. */
  let plenty = false;
  const settleTogether = writer.together<SettleRequest, SettleAnswer>(RANK.end, (requests) => settle(db, requests));
  return {
    async acquire(request) {
      // Many idle workers wake up for one new job: those that find nothing must not queue for the write lock.
      if (!plenty && !calls.readNow(mayAcquire, request)) {
        writer.checkFile();
        return [];
      }
      plenty = false;
      for (let round = 0; ; round++) {
        const grants = await acquireSome(request);
        plenty = grants?.length === request.count;
        if (grants !== null) return grants;
        calls.refuseEndless(round);
      }
    },
    extend: (requests, { within_ms } = { within_ms: 0 }) =>
      writer.write(RANK.holder, () => extend(db, requests), within_ms),
    noteProcess: calls.write(RANK.holder, noteProcess),
    appendLogs: calls.write(RANK.holder, appendLogs),
    checkpoint: calls.write(RANK.holder, checkpoint),
    settle: (requests, { within_ms } = { within_ms: 0 }) => settleTogether(requests, within_ms),
    cancelRequests: calls.read(cancelRequests),
    saveWorker: calls.write(RANK.housekeeping, saveWorker),
  };
}

function sweeper(calls: Calls): Sweeper {
  const { db } = calls;
  const ageSome = calls.write(RANK.housekeeping, age);
  const promoteSome = calls.write(RANK.housekeeping, () => promote(db));
  const giveId = calls.write(RANK.housekeeping, giveStoreId);
  const noteClockJump = calls.write(RANK.housekeeping, noticeClockJump);
  return {
    expired: calls.read(expired),
    recover: calls.write(RANK.housekeeping, recover),
    buryWorker: calls.write(RANK.housekeeping, buryWorker),
    noteRecovery: calls.write(RANK.housekeeping, noteRecovery),
    storeId: async () => calls.readNow(storeId) ?? giveId(),
    async age(aging_ms) {
      for (let total = 0; ;) {
        const count = await ageSome(aging_ms);
        total += count;
        if (count < RISE_TOGETHER) return total;
      }
    },
    async promote() {
      let total = 0;
      // Most often nothing is due, and then nobody needs the lock.
      for (let round = 0; calls.readNow(isDue); round++) {
        calls.refuseEndless(round);
        total += (await promoteSome()).count;
      }
      await freeRest(calls);
      return total;
    },
    async noticeClockJump(now, hold_ms) {
      const reading = { ...now, hold_ms, wall_ms: db.now_ms() };
      return calls.readNow(isSteady, reading) ? false : noteClockJump(reading);
    },
  };
}

function reader(calls: Calls): Reader {
  return {
    location: calls.location,
    shares_clock: true,
    now: async () => calls.db.now_ms(),
    jobs: calls.read(read.jobs),
    list: calls.read(read.list),
    outlines: calls.read(read.outlines),
    search: calls.read(search),
    attempts: calls.read(read.attempts),
    checkpoints: calls.read(read.checkpoints),
    logs: calls.read(logs),
    counts: calls.read(read.counts),
    history: calls.read(history),
    totals: calls.read(totals),
    oldestPending: calls.read(read.oldestPending),
    leases: calls.read(read.leaseHealth),
    links: calls.read(read.links),
    parents: calls.read(read.parents),
    learned: calls.read(learned),
    pausedQueues: calls.read(pausedQueues),
    retryCounts: calls.read(read.retryCounts),
    backlog: calls.read(read.backlog),
    topPriority: calls.read(read.topPriority),
    limits: calls.read(limits),
    holdings: calls.read(holdings),
    schedules: calls.read(schedules),
    nextSchedule: calls.read(nextSchedule),
    nextDue: calls.read(read.nextDue),
    workers: calls.read(read.workers),
    recovery: calls.read(recovery),
    watch(changed) {
      if (calls.connection.files === null) return () => {};
      const stop = watchCommits(calls.location, calls.db, changed);
      calls.watches.add(stop);
      return () => {
        if (calls.watches.delete(stop)) stop();
      };
    },
    onReplaced(fence) {
      if (calls.connection.files === null) return () => {};
      const stop = watchReplaced(calls.location, calls.writer, fence);
      calls.watches.add(stop);
      return () => {
        if (calls.watches.delete(stop)) stop();
      };
    },
  };
}

function upkeep(calls: Calls): Upkeep {
  const { db, writer, location } = calls;
  return {
    writeRetries: () => writer.retries,
    prunable: calls.read(prunable),
    async prune(step) {
      const found = calls.readNow(oldest, step);
      if (found.length === 0) return { count: 0, next: null };
      return writer.writeUnlinked(RANK.housekeeping, () => prune(db, found, step));
    },
    retention: calls.read(retention),
    setRetention: calls.write(RANK.housekeeping, setRetention),
    async trimCheckpoints(keep) {
      let removed = 0;
      for (const trim of calls.readNow(trims, keep)) removed += await writer.write(RANK.housekeeping, trim);
      return removed;
    },
    async foldHistory() {
      let round = 0;
      for (let hour_ms = oldHour(db); hour_ms !== null; hour_ms = oldHour(db)) {
        const old_ms = hour_ms;
        calls.refuseEndless(round++);
        await writer.write(RANK.housekeeping, () => foldHour(db, old_ms));
      }
    },
    // Folds back what it can without waiting for anybody; a reader that is in the way is asked again next time.
    async tidy() {
      if (calls.connection.wal_bytes <= TIDY_WAL_BYTES) return;
      writer.outside(() => db.sql("PRAGMA wal_checkpoint(TRUNCATE)").all());
    },
    diagnose: async (options) => calls.readNow(diagnose, location, options),
    audit: async () => (await import("./audit.ts")).auditHistory(db, location),
    transfer: async () => sqliteTransfer(db, writer, location),
  };
}
