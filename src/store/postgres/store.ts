/**
 * The PostgreSQL store: each verb is one statement or one transaction; the files beside this one say what happens in it.
 */

import type { Clock, Random } from "../../core/clock.ts";
import type { NewJob } from "../../core/job.ts";
import type { LogChunk, SweepCounts, WorkerRecord } from "../../core/records.ts";
import type { CheckpointQuery, ExpiredQuery, ListQuery, LogQuery, PruneQuery, Selection } from "../queries.ts";
import { toAttempt } from "../rows.ts";
import type * as Contract from "../store.ts";
import { cancel, noteRecovery, recovery, retry, setPaused } from "./change.ts";
import { acquire, promote, PROMOTE_LIMIT } from "./claim.ts";
import { checkAll, enqueue, enqueueAll, insertPlain, isPlain, onlyOnce } from "./enqueue.ts";
import { Gather } from "./gather.ts";
import { Holder, QUICK, waysOf } from "./holder.ts";
import { learned } from "./learned.ts";
import type { Connection } from "./link.ts";
import { list } from "./list.ts";
import {
  backlog,
  checkpoints,
  counts,
  expired,
  jobs,
  parents,
  pausedQueues,
  retryCounts,
  topPriority,
} from "./read.ts";
import type { Manner, Session } from "./session.ts";
import { checkpoint, recover } from "./settle.ts";
import type { Statements } from "./sql.ts";
import { News } from "./watch.ts";
import type { Urgency } from "./watch.ts";
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

type Work<T> = (statements: Statements, connection: Connection) => Promise<T>;
interface Range {
  queues: readonly string[] | null;
  task: string | null;
}

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
    this.#holder = new Holder(options.session, options.statements, options.clock);
    this.#news = new News(options);
  }

  async enqueue(batch: readonly NewJob[]): Promise<Contract.Enqueued[]> {
    if (batch.length === 0) return [];
    checkAll(batch);
    if (batch.every(isPlain) && batch.length <= GATHERED) {
      return (await this.#plain.ask(batch)).map((id) => ({ id, created: true }));
    }
    return this.#change("urgent", (statements, connection) => enqueue(statements, connection, batch), ONCE);
  }

  enqueueAll(batches: AsyncIterable<readonly NewJob[]>) {
    const once = onlyOnce(batches);
    return this.#change("urgent", (statements, connection) => enqueueAll(statements, connection, once()), ONCE);
  }

  async acquire(request: Contract.AcquireRequest) {
    const number = Math.floor(this.#options.random() * Number.MAX_SAFE_INTEGER);
    for (let due_first = true; ;) {
      const grants = await this.#session.run(
        (connection, again) => acquire(this.#statements, connection, request, { number, due_first, again }),
        QUICK,
      );
      if (grants !== null) return grants;
      // When others are at it already, their promotions count as not yet there.
      const promoted = await this.#session.run((connection) => promote(this.#statements, connection), QUICK);
      if (promoted < PROMOTE_LIMIT) due_first = false;
    }
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
    return this.#read((statements, connection) => checkpoint(statements, connection, requests), QUICK);
  }

  expired(query: ExpiredQuery) {
    return this.#read((statements, connection) => expired(statements, connection, query));
  }

  async recover(requests: readonly Contract.RecoverRequest[]) {
    const answers = await this.#track(recover(this.#statements, waysOf(this.#session, {}), requests));
    this.#news.note("urgent");
    return answers;
  }

  cancel(ids: readonly number[], reason: string | null) {
    return this.#change("urgent", (statements, connection) => cancel(statements, connection, ids, reason), ONCE);
  }

  retry(ids: readonly number[]) {
    return this.#change("urgent", (statements, connection) => retry(statements, connection, ids), ONCE);
  }

  async cancelRequests(holder: string) {
    const rows = await this.#read((statements, link) => statements.run(link, "cancelRequests", [holder]), QUICK);
    return rows as { id: number; token: number }[];
  }

  jobs(ids: readonly number[]) {
    return this.#read((statements, connection) => jobs(statements, connection, ids));
  }

  list(query: ListQuery) {
    return this.#read((statements, connection) => list(statements, connection, query));
  }

  async attempts(id: number) {
    return (await this.#read((statements, connection) => statements.run(connection, "attempts", [id]))).map(toAttempt);
  }

  checkpoints(query: CheckpointQuery) {
    return this.#read((statements, connection) => checkpoints(statements, connection, query));
  }

  async logs({ job, attempt, from, limit }: LogQuery) {
    const params = [job, attempt, from, limit];
    const rows = await this.#read((statements, connection) => statements.run(connection, "logs", params));
    return rows as unknown as LogChunk[];
  }

  counts(only?: Selection) {
    return this.#read((statements, connection) => counts(statements, connection, only));
  }

  parents(ids: readonly number[]) {
    return this.#read((statements, connection) => parents(statements, connection, ids));
  }

  learned(subjects: readonly string[]) {
    return this.#read((statements, connection) => learned(statements, connection, subjects));
  }

  async prunable(query: PruneQuery) {
    const { prunable } = await import("./prune.ts");
    return this.#read((statements, connection) => prunable(statements, connection, query));
  }

  async prune(query: PruneQuery & { limit: number }) {
    const { prune } = await import("./prune.ts");
    return this.#change("other", (statements, connection) => prune(statements, connection, query));
  }

  /** Autovacuum does it. */
  async tidy() {}

  async diagnose() {
    const { diagnose } = await import("./diagnose.ts");
    return this.#read((statements, connection) => diagnose(statements, connection, this.#options.schema));
  }

  setPaused(queues: readonly string[], paused: boolean) {
    return this.#change("urgent", (statements, connection) => setPaused(statements, connection, queues, paused));
  }

  pausedQueues() {
    return this.#read(pausedQueues);
  }

  retryCounts() {
    return this.#read(retryCounts);
  }

  backlog(query: Range) {
    return this.#read((statements, connection) => backlog(statements, connection, query));
  }

  topPriority(query: Range) {
    return this.#read((statements, connection) => topPriority(statements, connection, query), QUICK);
  }

  async nextDue() {
    const [row] = await this.#read((statements, connection) => statements.run(connection, "nextDue"), QUICK);
    return (row?.["at_ms"] ?? null) as number | null;
  }

  saveWorker(worker: WorkerRecord) {
    return this.#change("other", (statements, connection) => saveWorker(statements, connection, worker));
  }

  workers(query?: { live_on: string }) {
    return this.#read((statements, connection) => workers(statements, connection, query));
  }

  noteRecovery(found: SweepCounts) {
    return this.#change("other", (statements, connection) => noteRecovery(statements, connection, found), ONCE);
  }

  recovery() {
    return this.#read(recovery);
  }

  async promote() {
    for (let total = 0; ;) {
      const count = await this.#read(promote);
      total += count;
      if (count > 0) this.#news.note("urgent");
      if (count < PROMOTE_LIMIT) return total;
    }
  }

  async trimCheckpoints(keep: number) {
    const { trimCheckpoints } = await import("./trim.ts");
    return this.#change("other", (statements, connection) => trimCheckpoints(statements, connection, keep));
  }

  watch(changed: () => void) {
    return this.#news.watch(changed);
  }

  /** The database's clock is not this machine's. */
  async noticeJump() {
    return false;
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

  #read<T>(work: Work<T>, manner: Manner = {}): Promise<T> {
    return this.#track(this.#session.run((connection) => work(this.#statements, connection), manner));
  }

  async #change<T>(urgency: Urgency, work: Work<T>, manner: Manner = {}): Promise<T> {
    const asked = this.#session.transaction((connection) => work(this.#statements, connection), manner);
    const result = await this.#track(asked);
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
    const work = (connection: Connection) => insertPlain(this.#statements, connection, all);
    const whole = all.every(({ input }) => input === null);
    const ids = await (whole ? this.#session.run(work, ONCE) : this.#session.transaction(work, ONCE));
    this.#news.note("urgent");
    return ids;
  }
}
