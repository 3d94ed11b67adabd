/**
 * The SQLite store: each verb is one write or one read; the files beside this one say what happens in it.
 */

import type { Clock, MachineTime } from "../../core/clock.ts";
import type { NewJob } from "../../core/job.ts";
import type { LogChunk, SweepCounts, WorkerRecord } from "../../core/records.ts";
import type * as Query from "../queries.ts";
import { toAttempt, toWorker, workerColumns } from "../shared/rows.ts";
import type * as Contract from "../store.ts";
import { acquire, acquireOne, firstReady, isDue, mayAcquire, promote } from "./acquire.ts";
import { enqueueAll } from "./bulk.ts";
import { cancel } from "./cancel.ts";
import { isSteady, noticeJump } from "./clock_jump.ts";
import type { Connection } from "./connection.ts";
import { Statements } from "./connection.ts";
import { diagnose } from "./diagnose.ts";
import { enqueue } from "./enqueue.ts";
import { checkpoint, extend, noteProcess } from "./extend.ts";
import { explain } from "./failure.ts";
import { learned } from "./learned.ts";
import { list } from "./list.ts";
import { sameFile } from "./location.ts";
import { appendLogs } from "./logs.ts";
import { prunable, prune } from "./prune.ts";
import { backlog, checkpoints, counts, jobs, parents } from "./read.ts";
import { expired, noteRecovery, recover, recovery } from "./recover.ts";
import { retry } from "./retry.ts";
import { settle } from "./settle.ts";
import { SQL } from "./statements.ts";
import { SqliteTransfer } from "./transfer.ts";
import { trim, trimmable } from "./trim.ts";
import { watchCommits } from "./watch.ts";
import type { Writer } from "./writer.ts";
import { RANK } from "./writer.ts";

export class SqliteStore implements Contract.Store {
  readonly location: string;
  readonly shares_clock = true;
  readonly #connection: Connection;
  readonly #statements: Statements;
  readonly #writer: Writer;
  readonly #clock: Clock;
  readonly #watches = new Set<() => void>();

  constructor(connection: Connection, clock: Clock) {
    this.location = connection.path;
    this.#connection = connection;
    this.#statements = new Statements(connection.database, SQL);
    this.#writer = connection.writer;
    this.#writer.checkPlace = sameFile(connection.path);
    this.#clock = clock;
  }

  enqueue(batch: readonly NewJob[], { acquire: wanted, done_answers }: Contract.EnqueueOptions = {}) {
    return this.#writer.write(RANK.normal, () => {
      const now_ms = this.#now();
      const queued = enqueue(this.#statements, batch, now_ms, done_answers);
      if (wanted === undefined) return queued;
      return queued.map((job) => ({ ...job, grant: acquireOne(this.#statements, job.id, wanted, now_ms)[0] ?? null }));
    });
  }

  async enqueueAll(batches: AsyncIterable<readonly NewJob[]>) {
    return this.#writer.writeLong((step) => enqueueAll(this.#statements, batches, this.#now(), step));
  }

  async acquire(request: Contract.AcquireRequest) {
    // Many idle workers wake up for one new job: those that find nothing must not queue for the write lock.
    if (!this.#read(() => mayAcquire(this.#statements, request, this.#now()))) {
      this.#writer.checkPlace();
      return [];
    }
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

  async expired(query: Query.ExpiredQuery) {
    return this.#read(() => expired(this.#statements, query, this.#now()));
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
    return this.#read(() => this.#statements.get("cancelRequests").all(holder) as { id: number; token: number }[]);
  }

  async jobs(ids: readonly number[]) {
    return this.#read(() => jobs(this.#statements, ids));
  }

  async list(query: Query.ListQuery) {
    return this.#read(() => list(this.#statements, query));
  }

  async attempts(id: number) {
    return this.#read(() => this.#statements.get("attempts").all(id).map(toAttempt));
  }

  async checkpoints(query: Query.CheckpointQuery) {
    return this.#read(() => checkpoints(this.#statements, query));
  }

  async logs({ job, attempt, from, limit }: Query.LogQuery) {
    const rows = this.#read(() => this.#statements.get("logs").all(job, attempt, from, limit));
    return rows as unknown as LogChunk[];
  }

  async counts(only?: Query.Selection) {
    return this.#read(() => counts(this.#statements, only));
  }

  async leases() {
    return this.#read(() => this.#statements.get("leases").get(this.#now()) as unknown as Query.LeaseHealth);
  }

  async parents(ids: readonly number[]) {
    return this.#read(() => parents(this.#statements, ids));
  }

  async learned(subjects: readonly string[]) {
    return this.#read(() => subjects.map((subject) => learned(this.#statements, subject)));
  }

  async prunable(query: Query.PruneQuery) {
    return this.#read(() => prunable(this.#statements, query, this.#now()));
  }

  async prune(query: Query.PruneQuery & { limit: number }) {
    return this.#writer.write(RANK.housekeeping, () => prune(this.#statements, query, this.#now()));
  }

  /** Folds back what it can without waiting for anybody; a reader that is in the way is asked again next time. */
  async tidy() {
    if (this.#connection.wal_bytes <= TIDY_WAL_BYTES) return;
    this.#writer.outside(() => this.#statements.sql("PRAGMA wal_checkpoint(TRUNCATE)").all());
  }

  async diagnose() {
    return diagnose(this.#statements, this.location);
  }

  setPaused(queues: readonly string[], paused: boolean) {
    return this.#writer.write(RANK.normal, () => {
      for (const queue of queues) this.#statements.get("setPaused").run(queue, paused ? this.#now() : null);
    });
  }

  async pausedQueues() {
    const rows = this.#read(() => this.#statements.get("pausedQueues").all());
    return rows.map(({ name }) => name as string);
  }

  async retryCounts() {
    return this.#read(() => this.#statements.get("retryCounts").all() as { retries: number; jobs: number }[]);
  }

  async backlog(query: { queues: readonly string[] | null; task: string | null }) {
    return this.#read(() => backlog(this.#statements, query));
  }

  async topPriority({ queues, task }: { queues: readonly string[] | null; task: string | null }) {
    const first = this.#read(() => firstReady(this.#statements, queues, task));
    return (first?.["priority"] ?? null) as number | null;
  }

  async nextDue() {
    return this.#read(() => this.#statements.get("nextDue").get()?.["at_ms"] ?? null) as number | null;
  }

  async saveWorker(worker: WorkerRecord) {
    await this.#writer.write(RANK.housekeeping, () => {
      this.#statements.get("saveWorker").run(...workerColumns(worker));
    });
  }

  async workers(query?: { live_on: string }) {
    const rows = this.#read(() =>
      query === undefined
        ? this.#statements.get("workers").all()
        : this.#statements.get("workersLiveOn").all(query.live_on),
    );
    return rows.map(toWorker);
  }

  noteRecovery(found: SweepCounts) {
    return this.#writer.write(RANK.housekeeping, () => noteRecovery(this.#statements, found, this.#now()));
  }

  async recovery() {
    return this.#read(() => recovery(this.#statements));
  }

  async promote() {
    let total = 0;
    // Most often nothing is due, and then nobody needs the lock.
    while (isDue(this.#statements, this.#now())) {
      const { count } = await this.#writer.write(RANK.housekeeping, () => promote(this.#statements, this.#now()));
      total += count;
    }
    return total;
  }

  async trimCheckpoints(keep: number) {
    const { found, done } = this.#read(() => trimmable(this.#statements, keep));
    let removed = 0;
    for (const part of found) {
      removed += await this.#writer.write(RANK.housekeeping, () => trim(this.#statements, part, keep));
    }
    if (done !== null) await this.#writer.write(RANK.housekeeping, () => done(this.#statements));
    return removed;
  }

  watch(changed: () => void) {
    const stop = watchCommits(this.location, this.#statements, changed);
    this.#watches.add(stop);
    return () => {
      if (this.#watches.delete(stop)) stop();
    };
  }

  async noticeJump(now: MachineTime, hold_ms: number) {
    const reading = { ...now, hold_ms, wall_ms: this.#now() };
    if (this.#read(() => isSteady(this.#statements, reading))) return false;
    return this.#writer.write(RANK.housekeeping, () => noticeJump(this.#statements, reading));
  }

  async transfer() {
    return new SqliteTransfer(this.#statements, this.#writer);
  }

  async now() {
    return this.#now();
  }

  async close(options: { exiting: boolean } = { exiting: false }) {
    for (const stop of this.#watches) stop();
    this.#watches.clear();
    await this.#connection.close(options);
  }

  #read<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw explain(error, this.location);
    }
  }

  #now(): number {
    return this.#clock.wall_ms();
  }
}

const TIDY_WAL_BYTES = 4 * 1024 * 1024;
