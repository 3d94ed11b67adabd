/**
 * The PostgreSQL store: each verb is one statement or one transaction; the files beside this one say what happens in it.
 * What the slots of a worker ask at the same time is gathered into one.
 */

import type { Clock, Random } from "../../core/clock.ts";
import type { NewJob } from "../../core/job.ts";
import type { LogChunk, SweepCounts, WorkerRecord } from "../../core/records.ts";
import type { CheckpointQuery, ExpiredQuery, ListQuery, PruneQuery, Selection } from "../queries.ts";
import { toAttempt, toWorker, workerColumns } from "../rows.ts";
import type * as Contract from "../store.ts";
import { cancel, noteRecovery, recovery, retry, setPaused, trimCheckpoints } from "./change.ts";
import type { TimedExtend } from "./claim.ts";
import { acquire, appendLogs, extend, noteProcess, promote, PROMOTE_LIMIT } from "./claim.ts";
import { checkAll, enqueue, enqueueAll, insertPlain, isPlain } from "./enqueue.ts";
import { Gather } from "./gather.ts";
import { learned } from "./learned.ts";
import type { Connection } from "./link.ts";
import { backlog, checkpoints, counts, expired, jobs, list, parents, retryCounts, topPriority } from "./read.ts";
import { inRounds } from "./rounds.ts";
import type { Session } from "./session.ts";
import { checkpoint, recover, settle } from "./settle.ts";
import type { Ways } from "./settle.ts";
import type { Statements } from "./sql.ts";
import { channelOf, listen, Notifier, notify } from "./watch.ts";
import type { Urgency } from "./watch.ts";

export interface PostgresStoreOptions {
  session: Session;
  statements: Statements;
  schema: string;
  clock: Clock;
  random: Random;
}

const QUICK = { quick: true };
const ONCE = { once: true };

export class PostgresStore implements Contract.Store {
  readonly location: string;
  readonly #session: Session;
  readonly #statements: Statements;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #schema: string;
  readonly #channel: string;
  /** Tells our own notifications from those of others. */
  readonly #sender: string;
  readonly #notifier: Notifier;
  readonly #watchers = new Set<() => void>();
  #stopListening: (() => Promise<void>) | null = null;
  #unfinished = 0;
  #idle: (() => void)[] = [];

  readonly #plain = new Gather<NewJob, number>((all) => this.#insertPlain(all));
  readonly #extends = new Gather<TimedExtend, Contract.ExtendAnswer>((all) => this.#extendAll(all));
  readonly #settles = new Gather<Contract.SettleRequest, Contract.SettleAnswer>((all) => this.#settleAll(all));
  readonly #notes = new Gather<Contract.ProcessNote, null>(async (all) => {
    await this.#session.run((connection) => noteProcess(this.#statements, connection, all), QUICK);
    return all.map(() => null);
  });
  readonly #logs = new Gather<Contract.LogWrite, null>(async (all) => {
    await this.#session.run((connection) => appendLogs(this.#statements, connection, all), QUICK);
    return all.map(() => null);
  });
  readonly #clocks = new Gather<null, number>(async (all) => {
    const [row] = await this.#session.run((connection) => this.#statements.run(connection, "now"), QUICK);
    return all.map(() => row?.["ms"] as number);
  });

  constructor(options: PostgresStoreOptions) {
    this.#session = options.session;
    this.#statements = options.statements;
    this.#clock = options.clock;
    this.#random = options.random;
    this.location = options.session.location;
    this.#schema = options.schema;
    this.#channel = channelOf(options.schema);
    this.#sender = Math.floor(options.random() * Number.MAX_SAFE_INTEGER).toString(36);
    this.#notifier = new Notifier(() =>
      this.#session.run((connection) => notify(this.#statements, connection, this.#channel, this.#sender), QUICK),
    );
  }

  async enqueue(batch: readonly NewJob[]): Promise<Contract.Enqueued[]> {
    if (batch.length === 0) return [];
    checkAll(batch);
    if (batch.every(isPlain) && batch.length <= GATHERED) {
      return (await this.#track(this.#plain.ask(batch))).map((id) => ({ id, created: true }));
    }
    return this.#change("urgent", () =>
      this.#session.transaction((connection) => enqueue(this.#statements, connection, batch), ONCE),
    );
  }

  enqueueAll(batches: AsyncIterable<readonly NewJob[]>) {
    return this.#change("urgent", () => {
      let begun = false;
      return this.#session.transaction(async (connection) => {
        // What has been read can't be read again.
        if (begun) throw new Error("the connection was lost in the middle of the batches");
        begun = true;
        return enqueueAll(this.#statements, connection, batches);
      }, ONCE);
    });
  }

  async acquire(request: Contract.AcquireRequest) {
    const number = Math.floor(this.#random() * Number.MAX_SAFE_INTEGER);
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
    const asked_at_ms = this.#clock.mono_ms();
    return this.#extends.ask(requests.map((request) => ({ request, asked_at_ms })));
  }

  async noteProcess(requests: readonly Contract.ProcessNote[]) {
    await this.#notes.ask(requests);
  }

  async appendLogs(requests: readonly Contract.LogWrite[]) {
    await this.#logs.ask(requests);
    this.#notifier.note("other");
  }

  async settle(requests: readonly Contract.SettleRequest[], options = { within_ms: 0 }) {
    const answers = await this.#settles.ask(requests, options.within_ms);
    this.#notifier.note(requests.some(({ change }) => change.state.name === "pending") ? "urgent" : "other");
    return answers;
  }

  async checkpoint(requests: readonly Contract.CheckpointRequest[]) {
    if (requests.length === 0) return [];
    return this.#read((connection) => checkpoint(this.#statements, connection, requests), QUICK);
  }

  expired(query: ExpiredQuery) {
    return this.#read((connection) => expired(this.#statements, connection, query));
  }

  recover(requests: readonly Contract.RecoverRequest[]) {
    return this.#change("urgent", () => recover(this.#statements, this.#ways({}), requests));
  }

  cancel(ids: readonly number[], reason: string | null) {
    return this.#change("urgent", () =>
      this.#session.transaction((connection) => cancel(this.#statements, connection, ids, reason), ONCE),
    );
  }

  retry(ids: readonly number[]) {
    return this.#change("urgent", () =>
      this.#session.transaction((connection) => retry(this.#statements, connection, ids), ONCE),
    );
  }

  async cancelRequests(holder: string) {
    const rows = await this.#read((connection) => this.#statements.run(connection, "cancelRequests", [holder]), QUICK);
    return rows as { id: number; token: number }[];
  }

  jobs(ids: readonly number[]) {
    return this.#read((connection) => jobs(this.#statements, connection, ids));
  }

  list(query: ListQuery) {
    return this.#read((connection) => list(this.#statements, connection, query));
  }

  async attempts(id: number) {
    return (await this.#read((connection) => this.#statements.run(connection, "attempts", [id]))).map(toAttempt);
  }

  checkpoints(query: CheckpointQuery) {
    return this.#read((connection) => checkpoints(this.#statements, connection, query));
  }

  async logs({ job, attempt, from, limit }: { job: number; attempt: number; from: number; limit: number }) {
    const params = [job, attempt, from, limit];
    return (await this.#read((connection) =>
      this.#statements.run(connection, "logs", params),
    )) as unknown as LogChunk[];
  }

  counts(only?: Selection) {
    return this.#read((connection) => counts(this.#statements, connection, only));
  }

  parents(ids: readonly number[]) {
    return this.#read((connection) => parents(this.#statements, connection, ids));
  }

  learned(subjects: readonly string[]) {
    return this.#read((connection) => learned(this.#statements, connection, subjects));
  }

  async prunable(query: PruneQuery) {
    const { prunable } = await import("./prune.ts");
    return this.#read((connection) => prunable(this.#statements, connection, query));
  }

  async prune(query: PruneQuery & { limit: number }) {
    const { prune } = await import("./prune.ts");
    return this.#change("other", () =>
      this.#session.transaction((connection) => prune(this.#statements, connection, query)),
    );
  }

  /** Autovacuum does it. */
  async tidy() {}

  async diagnose() {
    const { diagnose } = await import("./diagnose.ts");
    return this.#read((connection) => diagnose(this.#statements, connection, this.#schema));
  }

  setPaused(queues: readonly string[], paused: boolean) {
    return this.#change("urgent", () =>
      this.#session.run((connection) => setPaused(this.#statements, connection, queues, paused)),
    );
  }

  async pausedQueues() {
    const text = `SELECT name FROM lease.queues WHERE paused_at_ms IS NOT NULL ORDER BY name COLLATE "C"`;
    const rows = await this.#read((connection) => this.#statements.sql(connection, text));
    return rows.map(({ name }) => name as string);
  }

  retryCounts() {
    return this.#read((connection) => retryCounts(this.#statements, connection));
  }

  backlog(query: { queues: readonly string[] | null; task: string | null }) {
    return this.#read((connection) => backlog(this.#statements, connection, query));
  }

  topPriority(query: { queues: readonly string[] | null; task: string | null }) {
    return this.#read((connection) => topPriority(this.#statements, connection, query), QUICK);
  }

  async nextDue() {
    const [row] = await this.#read((connection) => this.#statements.run(connection, "nextDue"), QUICK);
    return (row?.["at_ms"] ?? null) as number | null;
  }

  async saveWorker(worker: WorkerRecord) {
    await this.#change("other", () =>
      this.#session.run((connection) => this.#statements.sql(connection, SAVE_WORKER, workerColumns(worker))),
    );
  }

  async workers(query?: { live_on: string }) {
    const rows = await this.#read((connection) =>
      query === undefined
        ? this.#statements.sql(connection, WORKERS)
        : this.#statements.sql(connection, LIVE_WORKERS, [query.live_on]),
    );
    return rows.map(toWorker);
  }

  noteRecovery(found: SweepCounts) {
    return this.#change("other", () =>
      this.#session.transaction((connection) => noteRecovery(this.#statements, connection, found), ONCE),
    );
  }

  recovery() {
    return this.#read((connection) => recovery(this.#statements, connection));
  }

  async promote() {
    for (let total = 0; ;) {
      const count = await this.#session.run((connection) => promote(this.#statements, connection));
      total += count;
      if (count > 0) this.#notifier.note("urgent");
      if (count < PROMOTE_LIMIT) return total;
    }
  }

  trimCheckpoints(keep: number) {
    return this.#track(this.#session.transaction((connection) => trimCheckpoints(this.#statements, connection, keep)));
  }

  watch(changed: () => void) {
    // Each call is a watch of its own, even of the same function.
    const watcher = () => changed();
    this.#watchers.add(watcher);
    this.#stopListening ??= listen({
      session: this.#session,
      channel: this.#channel,
      clock: this.#clock,
      random: this.#random,
      heard: (sender) => {
        if (sender === this.#sender) return;
        for (const watching of [...this.#watchers]) if (this.#watchers.has(watching)) watching();
      },
    });
    return () => void this.#watchers.delete(watcher);
  }

  async now() {
    const [now_ms] = await this.#clocks.ask([null]);
    return now_ms as number;
  }

  async close() {
    this.#watchers.clear();
    await this.#stopListening?.();
    this.#stopListening = null;
    await Promise.all([this.#plain, this.#extends, this.#settles, this.#notes, this.#logs].map((one) => one.settled()));
    if (this.#unfinished > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
    await this.#notifier.flush();
    await this.#session.close();
  }

  #read<T>(work: (connection: Connection) => Promise<T>, manner = {}): Promise<T> {
    return this.#track(this.#session.run(work, manner));
  }

  async #change<T>(urgency: Urgency, work: () => Promise<T>): Promise<T> {
    const result = await this.#track(work());
    this.#notifier.note(urgency);
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

  #ways(manner: { quick?: boolean }): Ways {
    return {
      alone: (work) => this.#session.run(work, manner),
      together: (work) => this.#session.transaction(work, manner),
    };
  }

  async #insertPlain(all: readonly NewJob[]): Promise<number[]> {
    const work = (connection: Connection) => insertPlain(this.#statements, connection, all);
    const whole = all.every(({ input }) => input === null);
    const ids = await (whole ? this.#session.run(work, ONCE) : this.#session.transaction(work, ONCE));
    this.#notifier.note("urgent");
    return ids;
  }

  #extendAll(all: readonly TimedExtend[]): Promise<Contract.ExtendAnswer[]> {
    const asked = all.map((timed) => ({ id: timed.request.id, timed }));
    return inRounds(asked, (round) =>
      this.#session.run((connection) => {
        const now_ms = this.#clock.mono_ms();
        return extend(
          this.#statements,
          connection,
          round.map(({ timed }) => timed),
          now_ms,
        );
      }, QUICK),
    );
  }

  #settleAll(all: readonly Contract.SettleRequest[]): Promise<Contract.SettleAnswer[]> {
    return settle(this.#statements, this.#ways(QUICK), all);
  }
}

/** More jobs than this in one call have a transaction of their own. */
const GATHERED = 1_000;

const SAVE_WORKER = `INSERT INTO lease.workers (id, name, host, boot_id, pid, pid_started, version, queues, slots,
    started_at_ms, seen_at_ms, stopped_at_ms, ended, draining, completed, failed)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
  ON CONFLICT (id) DO UPDATE SET slots = excluded.slots, seen_at_ms = excluded.seen_at_ms,
    stopped_at_ms = excluded.stopped_at_ms, ended = excluded.ended, draining = excluded.draining,
    completed = excluded.completed, failed = excluded.failed`;
const LIVE_WORKERS = "SELECT * FROM lease.workers WHERE host = $1 AND stopped_at_ms IS NULL";
const WORKERS = `SELECT * FROM lease.workers ORDER BY stopped_at_ms IS NOT NULL, started_at_ms, id COLLATE "C"`;
