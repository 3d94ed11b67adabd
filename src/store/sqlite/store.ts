/**
 * The SQLite store: each verb is one write or one read; the files beside this one say what happens in it.
 */

import { statSync } from "node:fs";
import type { Clock, Random } from "../../core/clock.ts";
import type { NewJob } from "../../core/job.ts";
import type { LogChunk, SweepCounts, WorkerRecord } from "../../core/records.ts";
import type { SqlDatabase } from "../../platform/platform.ts";
import type { CheckpointQuery, ExpiredQuery, ListQuery, PruneQuery, Selection } from "../queries.ts";
import type * as Contract from "../store.ts";
import { cancel, noteRecovery, recovery, retry, trimCheckpoints } from "./change.ts";
import { acquire, appendLogs, extend, firstReady, mayAcquire, noteProcess, promote } from "./claim.ts";
import { enqueue, enqueueAll } from "./enqueue.ts";
import { learned } from "./learned.ts";
import { backlog, checkpoints, counts, expired, jobs, list, parents } from "./read.ts";
import { toAttempt, toWorker, workerColumns } from "../rows.ts";
import { checkpoint, recover, settle } from "./settle.ts";
import { Statements } from "./statements.ts";
import { watchCommits } from "./watch.ts";
import { RANK, Writer } from "./writer.ts";

export interface SqliteStoreOptions {
  path: string;
  clock: Clock;
  random: Random;
  busy_limit_ms: number;
}

export class SqliteStore implements Contract.Store {
  readonly location: string;
  readonly #database: SqlDatabase;
  readonly #statements: Statements;
  readonly #writer: Writer;
  readonly #clock: Clock;
  readonly #watches = new Set<() => void>();

  constructor(database: SqlDatabase, options: SqliteStoreOptions) {
    this.location = options.path;
    this.#database = database;
    this.#statements = new Statements(database);
    this.#writer = new Writer(database, options);
    this.#clock = options.clock;
  }

  enqueue(batch: readonly NewJob[]) {
    return this.#writer.write(RANK.normal, () => enqueue(this.#statements, batch, this.#now()));
  }

  enqueueAll(batches: AsyncIterable<readonly NewJob[]>) {
    return this.#writer.writeLong(() => enqueueAll(this.#statements, batches, this.#now()));
  }

  async acquire(request: Contract.AcquireRequest) {
    // Many idle workers wake up for one new job: those that find nothing must not queue for the write lock.
    if (!mayAcquire(this.#statements, request, this.#now())) return [];
    for (;;) {
      const grants = await this.#writer.write(RANK.normal, () => acquire(this.#statements, request, this.#now()));
      if (grants !== null) return grants;
    }
  }

  extend(requests: readonly Contract.ExtendRequest[]) {
    return this.#writer.write(RANK.holder, () => extend(this.#statements, requests, this.#now()));
  }

  noteProcess(requests: readonly Contract.ProcessNote[]) {
    return this.#writer.write(RANK.holder, () => noteProcess(this.#statements, requests));
  }

  appendLogs(requests: readonly Contract.LogWrite[]) {
    return this.#writer.write(RANK.holder, () => appendLogs(this.#statements, requests));
  }

  settle(requests: readonly Contract.SettleRequest[], options = { within_ms: 0 }) {
    return this.#writer.write(RANK.holder, () => settle(this.#statements, requests, this.#now()), options.within_ms);
  }

  checkpoint(requests: readonly Contract.CheckpointRequest[]) {
    return this.#writer.write(RANK.holder, () => checkpoint(this.#statements, requests, this.#now()));
  }

  async expired(query: ExpiredQuery) {
    return expired(this.#statements, query, this.#now());
  }

  recover(requests: readonly Contract.RecoverRequest[]) {
    return this.#writer.write(RANK.housekeeping, () => recover(this.#statements, requests, this.#now()));
  }

  cancel(ids: readonly number[], reason: string | null) {
    return this.#writer.write(RANK.normal, () => cancel(this.#statements, ids, reason, this.#now()));
  }

  retry(ids: readonly number[]) {
    return this.#writer.write(RANK.normal, () => retry(this.#statements, ids, this.#now()));
  }

  async cancelRequests(holder: string) {
    return this.#statements.get("cancelRequests").all(holder) as { id: number; token: number }[];
  }

  async jobs(ids: readonly number[]) {
    return jobs(this.#statements, ids);
  }

  async list(query: ListQuery) {
    return list(this.#statements, query);
  }

  async attempts(id: number) {
    return this.#statements.get("attempts").all(id).map(toAttempt);
  }

  async checkpoints(query: CheckpointQuery) {
    return checkpoints(this.#statements, query);
  }

  async logs({ job, attempt, from, limit }: { job: number; attempt: number; from: number; limit: number }) {
    return this.#statements.get("logs").all(job, attempt, from, limit) as unknown as LogChunk[];
  }

  async counts(only?: Selection) {
    return counts(this.#statements, only);
  }

  async parents(ids: readonly number[]) {
    return parents(this.#statements, ids);
  }

  async learned(subjects: readonly string[]) {
    return subjects.map((subject) => learned(this.#statements, subject));
  }

  async prunable(query: PruneQuery) {
    const { prunable } = await import("./prune.ts");
    return prunable(this.#statements, query, this.#now());
  }

  async prune(query: PruneQuery & { limit: number }) {
    const { prune } = await import("./prune.ts");
    return this.#writer.write(RANK.housekeeping, () => prune(this.#statements, query, this.#now()));
  }

  /** Folds back what it can without waiting for anybody; a reader that is in the way is asked again next time. */
  async tidy() {
    if (walBytes(this.location) > TIDY_WAL_BYTES) this.#statements.sql("PRAGMA wal_checkpoint(TRUNCATE)").all();
  }

  async diagnose() {
    const { diagnose } = await import("./diagnose.ts");
    return diagnose(this.#statements, this.location);
  }

  setPaused(queues: readonly string[], paused: boolean) {
    return this.#writer.write(RANK.normal, () => {
      for (const queue of queues) this.#statements.get("setPaused").run(queue, paused ? this.#now() : null);
    });
  }

  async pausedQueues() {
    return this.#statements
      .get("pausedQueues")
      .all()
      .map(({ name }) => name as string);
  }

  async retryCounts() {
    return this.#statements.get("retryCounts").all() as { retries: number; jobs: number }[];
  }

  async backlog(query: { queues: readonly string[] | null; task: string | null }) {
    return backlog(this.#statements, query);
  }

  async topPriority({ queues, task }: { queues: readonly string[] | null; task: string | null }) {
    return (firstReady(this.#statements, queues, task)?.["priority"] ?? null) as number | null;
  }

  async nextDue() {
    return (this.#statements.get("nextDue").get()?.["at_ms"] ?? null) as number | null;
  }

  async saveWorker(worker: WorkerRecord) {
    await this.#writer.write(RANK.housekeeping, () => {
      this.#statements.get("saveWorker").run(...workerColumns(worker));
    });
  }

  async workers(query?: { live_on: string }) {
    const rows =
      query === undefined
        ? this.#statements.get("workers").all()
        : this.#statements.get("workersLiveOn").all(query.live_on);
    return rows.map(toWorker);
  }

  noteRecovery(found: SweepCounts) {
    return this.#writer.write(RANK.housekeeping, () => noteRecovery(this.#statements, found, this.#now()));
  }

  async recovery() {
    return recovery(this.#statements);
  }

  async promote() {
    let total = 0;
    for (;;) {
      const { count, all } = await this.#writer.write(RANK.housekeeping, () => promote(this.#statements, this.#now()));
      total += count;
      if (all) return total;
    }
  }

  trimCheckpoints(keep: number) {
    return this.#writer.write(RANK.housekeeping, () => trimCheckpoints(this.#statements, keep));
  }

  watch(changed: () => void) {
    const stop = watchCommits(this.location, this.#statements, changed);
    this.#watches.add(stop);
    return () => {
      if (this.#watches.delete(stop)) stop();
    };
  }

  async now() {
    return this.#now();
  }

  /**
   * The last connection to close a database folds its WAL back into it, and the next has to begin a new one: three of
   * the five syncs of an enqueue. A short WAL is left for the next process instead; a long one would slow it down.
   */
  async close(options: { exiting: boolean } = { exiting: false }) {
    for (const stop of this.#watches) stop();
    this.#watches.clear();
    await this.#writer.settled();
    if (options.exiting && walBytes(this.location) < SHORT_WAL_BYTES) this.#database.closeKeepingWal();
    else this.#database.close();
  }

  #now(): number {
    return this.#clock.wall_ms();
  }
}

const SHORT_WAL_BYTES = 256 * 1024;
const TIDY_WAL_BYTES = 4 * 1024 * 1024;

function walBytes(path: string): number {
  return statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? Infinity;
}
