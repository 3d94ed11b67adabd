/** Enqueue: runs inside one write, so a refused job takes the whole batch back with it. */

import { checkNewJob } from "../../core/check_job.ts";
import { LeaseError } from "../../core/errors.ts";
import type { JobSettings, NewJob, StateName } from "../../core/job.ts";
import type { SqlValue } from "../../platform/platform.ts";
import { bounded, isBlocked, settingsColumn } from "../shared/columns.ts";
import { replaces } from "../shared/verdicts.ts";
import type { BulkEnqueued } from "../queries.ts";
import type { DoneState, Enqueued } from "../store.ts";
import { cancelWaiting } from "./cancel.ts";
import type { Database } from "./open.ts";
import { addDependencies } from "./dependencies.ts";
import { INSERT_JOB, firstState, jobColumns } from "./quick_enqueue.ts";
import type { Step } from "./writer.ts";

const INSERT_INPUT = "INSERT INTO inputs (job_id, data) VALUES (?1, ?2)";
const LIVE_BY_KEY = `SELECT id, state FROM jobs
  WHERE key = ?1 AND state IN ('blocked', 'scheduled', 'pending', 'running')`;
const NEWEST_BY_KEY = "SELECT id, state FROM jobs WHERE key = ?1 ORDER BY id DESC LIMIT 1";

export function enqueue(db: Database, jobs: readonly NewJob[], done_answers: readonly DoneState[] = []): Enqueued[] {
  const now_ms = db.now_ms();
  return jobs.map((job) => enqueueOne(db, job, now_ms, done_answers));
}

/** `counted`: called for a new job where no trigger counts it. */
function enqueueOne(
  db: Database,
  job: NewJob,
  now_ms: number,
  done_answers: readonly DoneState[] = [],
  counted?: (job: NewJob) => void,
): Enqueued {
  checkNewJob(job);
  const live = job.key === null ? null : db.sql(LIVE_BY_KEY).get(job.key);
  if (live !== null) {
    const id = live["id"] as number;
    if (!replaces(job, { id, state: live["state"] as StateName })) return { id, created: false };
    cancelWaiting(db, [id], now_ms, `replaced by a new job with key ${job.key}`);
  } else if (done_answers.length > 0 && job.key !== null) {
    const done = db.sql(NEWEST_BY_KEY).get(job.key);
    if (done_answers.some((state) => state === done?.["state"])) return { id: done?.["id"] as number, created: false };
  }
  return { id: insert(db, job, now_ms, counted), created: true };
}

function insert(db: Database, job: NewJob, now_ms: number, counted?: (job: NewJob) => void): number {
  const { last_id } = db.sql(INSERT_JOB).run(...jobColumns(job, now_ms));
  counted?.(job);
  if (job.input !== null) db.sql(INSERT_INPUT).run(last_id, job.input);
  if (isBlocked(job)) addDependencies(db, last_id, job, now_ms);
  return last_id;
}

const ROWS = 100;

const COUNTER = "SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name = 'jobs_added'";
const NO_COUNTER = "DROP TRIGGER jobs_added";
const ADD_COUNTED = `INSERT INTO tallies (queue, state, retries, count) VALUES (?1, ?2, 0, ?3)
  ON CONFLICT DO UPDATE SET count = ${bounded("count")} + ?3`;

/** One statement for `ROWS` jobs; `row` answers the placeholders of each. */
function insertRows(row: (one: string, index: number) => string): string {
  const [into = "", one = ""] = INSERT_JOB.split(" VALUES ");
  return `${into} VALUES ${Array.from({ length: ROWS }, (_, index) => row(one, index)).join(", ")}`;
}

/**
 * Of more jobs than fit in memory, inside one transaction. New jobs that need nothing else are kept and written many
 * rows to a statement, which takes less than half of the time.
 */
export async function enqueueAll(
  db: Database,
  batches: AsyncIterable<readonly NewJob[]>,
  step: Step,
): Promise<BulkEnqueued> {
  const bulk = new Bulk(db);
  // What the CHECKs hold of new jobs is so by the way their columns are made, and they take half of an insert's time.
  step(() => db.sql("PRAGMA ignore_check_constraints = ON").run());
  try {
    for await (const batch of batches) step(() => batch.forEach((job) => bulk.add(job)));
    return step(() => bulk.end());
  } finally {
    step(() => db.sql("PRAGMA ignore_check_constraints = OFF").run());
  }
}

class Bulk {
  readonly #db: Database;
  readonly #now_ms: number;
  readonly #insert_rows = insertRows((one) => one.replaceAll(/\d/g, ""));
  /** For jobs that differ in their words alone: everything else is bound once. */
  readonly #insert_alike = insertRows((one, index) => one.replace(/\?10\b/, `?${15 + index}`));
  readonly #ranges: [number, number][] = [];
  #last: [number, number] = [0, -1];
  #created = 0;
  #index = 0;
  /** Checked, new, and not written yet. */
  #waiting: NewJob[] = [];
  readonly #waiting_keys = new Set<string>();
  #settings: { of: JobSettings; column: string | null } | null = null;
  /** The trigger that counts new jobs, while it is away. */
  #counter: string | null = null;
  /** That it would have counted, and that are not written down yet. */
  readonly #counted = new Map<string, { queue: string; state: StateName; count: number }>();

  constructor(db: Database) {
    this.#db = db;
    this.#now_ms = db.now_ms();
  }

  add(job: NewJob): void {
    try {
      if (this.#mayWait(job)) {
        checkNewJob(job);
        this.#wait(job);
      } else {
        this.#write();
        this.#writeCounted();
        const { id, created } = enqueueOne(this.#db, job, this.#now_ms, [], this.#counts);
        this.#note(id, id, created ? 1 : 0);
      }
    } catch (error) {
      if (!(error instanceof LeaseError)) throw error;
      throw new LeaseError(error.code, error.message, { cause: error, index: this.#index });
    }
    this.#index += 1;
  }

  end(): BulkEnqueued {
    this.#write();
    this.#writeCounted();
    if (this.#counter !== null) this.#db.sql(this.#counter).run();
    return { ranges: this.#ranges, created: this.#created };
  }

  /** Nothing that was there before, or waits here, has a say about it. */
  #mayWait(job: NewJob): boolean {
    if (isBlocked(job)) return false;
    return job.key === null || (!this.#waiting_keys.has(job.key) && this.#db.sql(LIVE_BY_KEY).get(job.key) === null);
  }

  #wait(job: NewJob): void {
    this.#waiting.push(job);
    if (job.key !== null) this.#waiting_keys.add(job.key);
    if (this.#waiting.length === ROWS) this.#write();
  }

  #write(): void {
    const jobs = this.#waiting;
    if (jobs.length === 0) return;
    const last_id = jobs.length === ROWS ? this.#insertRows(jobs) : this.#insertEach(jobs);
    const first_id = last_id - jobs.length + 1;
    for (let i = 0; i < jobs.length; i++) {
      const input = jobs[i]?.input ?? null;
      if (input !== null) this.#db.sql(INSERT_INPUT).run(first_id + i, input);
    }
    this.#note(first_id, last_id, jobs.length);
    this.#waiting = [];
    this.#waiting_keys.clear();
  }

  /**
   * Counts them itself. The trigger, even one that does nothing, has SQLite copy all rows of a statement aside first, so it
   * is away until the end of this transaction: nobody else ever sees the store without it.
   */
  #insertRows(jobs: readonly NewJob[]): number {
    if (this.#counter === null) {
      this.#counter = this.#db.sql(COUNTER).get()?.["sql"] as string;
      this.#db.sql(NO_COUNTER).run();
    }
    return this.#insertUncounted(jobs);
  }

  /** Before anything else is said about the job. */
  readonly #counts = (job: NewJob): void => {
    if (this.#counter === null) return;
    this.#count(job, 1);
    this.#writeCounted();
  };

  #count(job: NewJob, count: number): void {
    const { queue } = job;
    const state = firstState(job, this.#now_ms);
    const key = `${state} ${queue}`;
    const known = this.#counted.get(key);
    if (known === undefined) this.#counted.set(key, { queue, state, count });
    else known.count += count;
  }

  #writeCounted(): void {
    for (const { queue, state, count } of this.#counted.values()) {
      this.#db.sql(ADD_COUNTED).run(queue, "all", count);
      if (state !== "pending") this.#db.sql(ADD_COUNTED).run(queue, state, count);
    }
    this.#counted.clear();
  }

  #insertUncounted(jobs: readonly NewJob[]): number {
    const [first] = jobs;
    if (first !== undefined && jobs.every((job) => isAlike(job, first))) return this.#insertAlike(jobs, first);
    const columns: SqlValue[] = [];
    for (const job of jobs) {
      columns.push(...jobColumns(job, this.#now_ms, this.#settingsOf(job)));
      this.#count(job, 1);
    }
    return this.#db.sql(this.#insert_rows).run(...columns).last_id;
  }

  #insertAlike(jobs: readonly NewJob[], first: NewJob): number {
    const columns = jobColumns(first, this.#now_ms, this.#settingsOf(first));
    for (const { argv } of jobs) columns.push(JSON.stringify(argv));
    this.#count(first, jobs.length);
    return this.#db.sql(this.#insert_alike).run(...columns).last_id;
  }

  /** Jobs of one source mostly have their settings in common, and to compare them with the defaults takes time. */
  #settingsOf({ settings }: NewJob): string | null {
    if (settings !== this.#settings?.of) this.#settings = { of: settings, column: settingsColumn(settings) };
    return this.#settings.column;
  }

  #insertEach(jobs: readonly NewJob[]): number {
    let last_id = 0;
    for (const job of jobs) {
      ({ last_id } = this.#db.sql(INSERT_JOB).run(...jobColumns(job, this.#now_ms)));
      this.#counts(job);
    }
    return last_id;
  }

  #note(from: number, to: number, created: number): void {
    this.#created += created;
    if (this.#last[1] === from - 1) this.#last[1] = to;
    else this.#ranges.push((this.#last = [from, to]));
  }
}

/** The same but for argv and input, as far as it can be told at a glance. */
function isAlike(a: NewJob, b: NewJob): boolean {
  return (
    a.queue === b.queue &&
    a.priority === b.priority &&
    a.settings === b.settings &&
    a.cwd === b.cwd &&
    a.task === b.task &&
    a.key === b.key &&
    a.env === b.env &&
    a.limits === b.limits &&
    a.needs === b.needs &&
    a.run_at_ms === b.run_at_ms &&
    a.delay_ms === b.delay_ms
  );
}
