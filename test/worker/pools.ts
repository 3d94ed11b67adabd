/** Worker pools with real children on a store of their own, on the real clock. */

import { test } from "bun:test";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { calibrate } from "../../src/core/calibration.ts";
import type { Job, StateName } from "../../src/core/job.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { WorkerPool } from "../../src/worker/pool.ts";
import type { WorkerPoolOptions } from "../../src/worker/pool.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { Store } from "../../src/store/store.ts";
import { temporaryFolder } from "../leasing/fixture.ts";
import { newJob, type JobOverrides } from "../support/jobs.ts";
import { linesFor } from "../support/reports.ts";

/** Failures are retried almost at once. */
const SOON = { first_ms: 10, factor: 1, max_ms: 10, jitter: 0 };

export class PoolBench {
  readonly folder = temporaryFolder();
  readonly path = join(this.folder, "lease.db");
  readonly reports: string[] = [];
  /** How attempts were settled, in order: the state of the job after it. */
  readonly settled: { id: number; state: StateName | "stale" }[] = [];
  /** The store of the worker. */
  store!: Store;
  /** Another handle, as another process would have it. */
  other!: Store;
  readonly #handles: Store[] = [];
  readonly #pools: WorkerPool[] = [];
  #listeners: (() => void)[] = [];

  async open(): Promise<this> {
    this.store = await this.handle();
    this.other = await this.handle();
    return this;
  }

  async handle(): Promise<Store> {
    const store = await openSqlite(this.path, { clock: systemClock, random: systemRandom });
    this.#handles.push(store);
    return store;
  }

  /** Not started. It polls so rarely that a test which waits for a poll fails. */
  pool(options: Partial<WorkerPoolOptions> = {}): WorkerPool {
    const pool = new WorkerPool({
      store: this.store,
      clock: systemClock,
      random: systemRandom,
      report: linesFor(this.reports),
      store_url: this.path,
      version: "0",
      name: null,
      queues: null,
      task: null,
      slots: 2,
      times: calibrate({ lease_ms: 60_000 }),
      beat: "output",
      handler: [],
      kill_grace_ms: 10_000,
      poll_ms: 60_000,
      sweep: false,
      log_dir: null,
      until_empty: false,
      max_jobs: null,
      ...options,
      onSettled: (lease, release) => {
        const state = release.status === "applied" ? release.change.state.name : "stale";
        this.settled.push({ id: lease.job.id, state });
        for (const listener of this.#listeners.splice(0)) listener();
      },
    });
    this.#pools.push(pool);
    return pool;
  }

  async started(options: Partial<WorkerPoolOptions> = {}): Promise<WorkerPool> {
    const pool = this.pool(options);
    await pool.start();
    return pool;
  }

  /** Runs a worker until nothing is left. */
  async drained(options: Partial<WorkerPoolOptions> = {}): Promise<WorkerPool> {
    const pool = await this.started({ until_empty: true, ...options });
    await pool.finished;
    return pool;
  }

  async enqueue(...jobs: JobOverrides[]): Promise<number[]> {
    const asked = jobs.map((job) => newJob({ ...job, settings: { backoff: SOON, ...job.settings } }));
    return (await this.other.enqueue(asked)).map(({ id }) => id);
  }

  /** Enqueues a shell script, so many times. */
  scripts(text: string, count = 1, more: JobOverrides = {}): Promise<number[]> {
    return this.enqueue(...Array.from({ length: count }, () => ({ argv: ["/bin/sh", "-c", text], ...more })));
  }

  /** Resolves when so many attempts have been settled. */
  async settles(count: number): Promise<void> {
    while (this.settled.length < count) await new Promise<void>((resolve) => this.#listeners.push(resolve));
  }

  /** Resolves when the file has so many lines. */
  async written(name: string, lines = 1): Promise<void> {
    for (let look = 0; look < 1_000 && this.lines(name).length < lines; look++) await Bun.sleep(2);
    if (this.lines(name).length < lines) throw new Error(`${name} was not written`);
  }

  file(name: string): string {
    return join(this.folder, name);
  }

  lines(name: string): string[] {
    if (!existsSync(this.file(name))) return [];
    return readFileSync(this.file(name), "utf8")
      .split("\n")
      .filter((line) => line !== "");
  }

  async job(id: number): Promise<Job> {
    return (await this.other.jobs([id]))[0]!;
  }

  async states(ids: readonly number[]): Promise<string[]> {
    return (await this.other.jobs(ids)).map((job) => job!.state.name);
  }

  async dispose(): Promise<void> {
    for (const pool of this.#pools) await ended(pool);
    for (const store of this.#handles) await store.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Told more than once: whether once is enough is for a test of its own to say. */
async function ended(pool: WorkerPool): Promise<void> {
  const end = { reached: false };
  const finished = pool.finished.catch(() => {}).then(() => (end.reached = true));
  while (!end.reached) {
    pool.abort();
    await Promise.race([finished, Bun.sleep(20)]);
  }
}

/** Real processes take their time on a busy machine. */
const TIMEOUT_MS = 20_000;

export function poolTest(title: string, body: (b: PoolBench) => Promise<void>): void {
  test(
    title,
    async () => {
      const bench = await new PoolBench().open();
      try {
        await body(bench);
      } finally {
        await bench.dispose();
      }
    },
    TIMEOUT_MS,
  );
}
