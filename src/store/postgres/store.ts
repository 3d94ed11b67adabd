/**
 * The PostgreSQL store: each verb is one statement or one transaction; the files beside this one say what happens in it.
 */

import type { Clock, Random } from "../../core/clock.ts";
import type { NewJob } from "../../core/job.ts";
import type { SweepCounts, WorkerRecord } from "../../core/records.ts";
import type { CheckpointQuery, ExpiredQuery, ListQuery, LogQuery, PruneQuery, Selection } from "../queries.ts";
import type * as Contract from "../store.ts";
import { promoteAll } from "./acquire.ts";
import { enqueueAll, onlyOnce } from "./bulk.ts";
import { cancel } from "./cancel.ts";
import { checkAll, enqueue, insertPlain, isPlain } from "./enqueue.ts";
import { checkpoint } from "./extend.ts";
import { Gather, Holder, QUICK, waysOf } from "./group_commit.ts";
import { learned } from "./learned.ts";
import { list } from "./list.ts";
import { logs } from "./logs.ts";
import { pausedQueues, setPaused } from "./pause.ts";
import * as read from "./read.ts";
import { expired, noteRecovery, recover, recovery } from "./recover.ts";
import { retry } from "./retry.ts";
import type { Connection } from "./session/link.ts";
import type { Manner, Session } from "./session/session.ts";
import type { Statements } from "./session/sql.ts";
import type { Urgency } from "./watch.ts";
import { News } from "./watch.ts";
import { saveWorker, workers } from "./workers.ts";

export interface PostgresStoreOptions {
  session: Session;
  statements: Statements;
  schema: string;
  clock: Clock;
  random: Random;
}

const ONCE = { once: true };
/** More jobs than this in one call have a transaction of their own. */
const GATHERED = 1_000;

type Work<A extends unknown[], T> = (statements: Statements, connection: Connection, ...args: A) => Promise<T>;

export class PostgresStore implements Contract.Store {
  readonly location: string;
  readonly shares_clock = false;
  readonly #options: PostgresStoreOptions;
  readonly #session: Session;
  readonly #statements: Statements;
  readonly #holder: Holder;
  readonly #news: News;
  readonly #plain = new Gather<NewJob, number>((all) => this.#insertPlain(all));
  #unfinished = 0;
  #idle: (() => void)[] = [];

  constructor(options: PostgresStoreOptions) {
    this.#options = options;
    this.#session = options.session;
    this.#statements = options.statements;
    this.location = options.session.location;
    this.#news = new News(options);
    this.#holder = new Holder(options, () => this.#news.note("urgent"));
  }

  async enqueue(batch: readonly NewJob[], options: Contract.EnqueueOptions = {}): Promise<Contract.Enqueued[]> {
    if (batch.length === 0) return [];
    checkAll(batch);
    if (options.acquire === undefined && batch.every(isPlain) && batch.length <= GATHERED) {
      return (await this.#plain.ask(batch)).map((id) => ({ id, created: true }));
    }
    return this.#once("urgent", enqueue, batch, options);
  }

  enqueueAll(batches: AsyncIterable<readonly NewJob[]>) {
    return this.#once("urgent", enqueueAll, onlyOnce(batches));
  }

  acquire(request: Contract.AcquireRequest) {
    return this.#holder.acquire(request, () => Math.floor(this.#options.random() * Number.MAX_SAFE_INTEGER));
  }

  extend(requests: readonly Contract.ExtendRequest[]) {
    return this.#holder.extend(requests);
  }

  noteProcess(requests: readonly Contract.ProcessNote[]) {
    return this.#holder.noteProcess(requests);
  }

  async appendLogs(requests: readonly Contract.LogWrite[]) {
    await this.#holder.appendLogs(requests);
    this.#news.note("other");
  }

  async settle(requests: readonly Contract.SettleRequest[], options = { within_ms: 0 }) {
    const answers = await this.#holder.settle(requests, options.within_ms);
    this.#news.note(requests.some(({ change }) => change.state.name === "pending") ? "urgent" : "other");
    return answers;
  }

  async checkpoint(requests: readonly Contract.CheckpointRequest[]) {
    if (requests.length === 0) return [];
    return this.#quick(checkpoint, requests);
  }

  expired(query: ExpiredQuery) {
    return this.#read(expired, query);
  }

  async recover(requests: readonly Contract.RecoverRequest[]) {
    const answers = await this.#track(
      recover(
        this.#statements,
        waysOf(this.#session, {}, () => {}),
        requests,
      ),
    );
    this.#news.note("urgent");
    return answers;
  }

  cancel(ids: readonly number[], reason: string | null) {
    return this.#once("urgent", cancel, ids, reason);
  }

  retry(ids: readonly number[]) {
    return this.#once("urgent", retry, ids);
  }

  cancelRequests(holder: string) {
    return this.#quick(read.cancelRequests, holder);
  }

  jobs(ids: readonly number[]) {
    return this.#read(read.jobs, ids);
  }

  list(query: ListQuery) {
    return this.#read(list, query);
  }

  attempts(id: number) {
    return this.#read(read.attempts, id);
  }

  checkpoints(query: CheckpointQuery) {
    return this.#read(read.checkpoints, query);
  }

  logs(query: LogQuery) {
    return this.#read(logs, query);
  }

  counts(only?: Selection) {
    return this.#read(read.counts, only);
  }

  leases() {
    return this.#read(read.leases);
  }

  parents(ids: readonly number[]) {
    return this.#read(read.parents, ids);
  }

  learned(subjects: readonly string[]) {
    return this.#read(learned, subjects);
  }

  async prunable(query: PruneQuery) {
    const { prunable } = await import("./prune.ts");
    return this.#read(prunable, query);
  }

  async prune(query: PruneQuery & { limit: number }) {
    const { prune } = await import("./prune.ts");
    return this.#change("other", prune, query);
  }

  /** Autovacuum does it. */
  async tidy() {}

  async diagnose() {
    const { diagnose } = await import("./diagnose.ts");
    return this.#read(diagnose, this.#options.schema);
  }

  setPaused(queues: readonly string[], paused: boolean) {
    return this.#change("urgent", setPaused, queues, paused);
  }

  pausedQueues() {
    return this.#read(pausedQueues);
  }

  retryCounts() {
    return this.#read(read.retryCounts);
  }

  backlog(query: read.Range) {
    return this.#read(read.backlog, query);
  }

  topPriority(query: read.Range) {
    return this.#quick(read.topPriority, query);
  }

  nextDue() {
    return this.#quick(read.nextDue);
  }

  /** Nobody waits for that, and many do it all the time. */
  saveWorker(worker: WorkerRecord) {
    return this.#read(saveWorker, worker);
  }

  workers(query?: { live_on: string }) {
    return this.#read(workers, query);
  }

  noteRecovery(found: SweepCounts) {
    return this.#once("other", noteRecovery, found);
  }

  recovery() {
    return this.#read(recovery);
  }

  async promote() {
    const promoted = await this.#read(promoteAll);
    if (promoted > 0) this.#news.note("urgent");
    return promoted;
  }

  async trimCheckpoints(keep: number) {
    const { trimCheckpoints } = await import("./trim.ts");
    return this.#change("other", trimCheckpoints, keep);
  }

  watch(changed: () => void) {
    return this.#news.watch(changed);
  }

  /** The database's clock is not this machine's. */
  async noticeJump() {
    return false;
  }

  async transfer() {
    const { PostgresTransfer } = await import("./transfer.ts");
    return new PostgresTransfer(this.#statements, this.#session);
  }

  now() {
    return this.#holder.now();
  }

  async close() {
    await Promise.all([this.#plain.settled(), this.#holder.settled()]);
    if (this.#unfinished > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
    await this.#news.close();
    await this.#session.close();
  }

  #read<A extends unknown[], T>(work: Work<A, T>, ...args: A): Promise<T> {
    return this.#track(this.#session.run((connection) => work(this.#statements, connection, ...args)));
  }

  #quick<A extends unknown[], T>(work: Work<A, T>, ...args: A): Promise<T> {
    return this.#track(this.#session.run((connection) => work(this.#statements, connection, ...args), QUICK));
  }

  #change<A extends unknown[], T>(urgency: Urgency, work: Work<A, T>, ...args: A): Promise<T> {
    return this.#write(urgency, {}, (connection) => work(this.#statements, connection, ...args));
  }

  #once<A extends unknown[], T>(urgency: Urgency, work: Work<A, T>, ...args: A): Promise<T> {
    return this.#write(urgency, ONCE, (connection) => work(this.#statements, connection, ...args));
  }

  async #write<T>(urgency: Urgency, manner: Manner, work: (connection: Connection) => Promise<T>): Promise<T> {
    const result = await this.#track(this.#session.transaction(work, manner));
    this.#news.note(urgency);
    return result;
  }

  /** What was asked is finished before the store closes. */
  async #track<T>(asked: Promise<T>): Promise<T> {
    this.#unfinished += 1;
    try {
      return await asked;
    } finally {
      this.#unfinished -= 1;
      if (this.#unfinished === 0) for (const resolve of this.#idle.splice(0)) resolve();
    }
  }

  async #insertPlain(all: readonly NewJob[]): Promise<number[]> {
    const way = all.every(({ input }) => input === null) ? "run" : "transaction";
    const ids = await this.#session[way]((connection) => insertPlain(this.#statements, connection, all), ONCE);
    this.#news.note("urgent");
    return ids;
  }
}
