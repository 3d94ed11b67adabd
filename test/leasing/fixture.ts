/**
 * A store in a folder of its own, on a clock that the test moves, and the leases of one worker on it. Every extension
 * that reaches the store is noted, and a test can stand in for any verb.
 */

import { test } from "bun:test";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Job, StateName } from "../../src/core/job.ts";
import type { Lease } from "../../src/leasing/lease.ts";
import { LeaseManager } from "../../src/leasing/manager.ts";
import { openSqlite } from "../../src/store/sqlite/open.ts";
import type { ExtendAnswer, ExtendRequest, Store } from "../../src/store/store.ts";
import { ManualClock } from "../support/clock.ts";
import { newJob, type JobOverrides } from "../support/jobs.ts";

export const LEASE_MS = 60_000;

/** Memory where there is some to be had as a file system: durability is tried elsewhere, and costs a sync per commit. */
export function temporaryFolder(): string {
  return mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "lease-test-"));
}

/** The store, with some of its verbs replaced. */
export function intercept(store: Store, verbs: Partial<Store>): Store {
  return new Proxy(store, {
    get(target, name) {
      const own: unknown = Reflect.get(verbs, name);
      if (own !== undefined) return own;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** Enough turns of the event loop for what was asked of a store to be written and answered. */
export async function answered(): Promise<void> {
  for (let turn = 0; turn < 4; turn++) await new Promise((resolve) => setImmediate(resolve));
}

export interface Extension extends ExtendRequest {
  sent_mono_ms: number;
}

export class Bench {
  readonly clock = new ManualClock();
  readonly folder = temporaryFolder();
  readonly path = join(this.folder, "lease.db");
  readonly extensions: Extension[] = [];
  /** Stands in for the store's own `extend` while it is set. */
  extend: ((requests: readonly ExtendRequest[]) => Promise<ExtendAnswer[]>) | null = null;
  store!: Store;
  manager!: LeaseManager;
  readonly #handles: Store[] = [];

  async open(): Promise<this> {
    const real = await this.reopen();
    this.store = intercept(real, {
      extend: (requests) => {
        for (const request of requests) this.extensions.push({ ...request, sent_mono_ms: this.clock.mono_ms() });
        return (this.extend ?? ((asked) => real.extend(asked)))(requests);
      },
    });
    this.manager = this.managerOf("w1");
    return this;
  }

  /** A further handle, as another process would have it. */
  async reopen(): Promise<Store> {
    const store = await openSqlite(this.path, { clock: this.clock, random: () => 0.5 });
    this.#handles.push(store);
    return store;
  }

  managerOf(worker_id: string, store = this.store): LeaseManager {
    return new LeaseManager({
      store,
      worker_id,
      host: "elsewhere",
      clock: this.clock,
      random: () => 0.5,
      lease_ms: LEASE_MS,
    });
  }

  async enqueue(job: JobOverrides = {}): Promise<number> {
    const [enqueued] = await this.store.enqueue([newJob(job)]);
    return enqueued!.id;
  }

  async granted(job: JobOverrides = {}, manager = this.manager): Promise<Lease> {
    const id = await this.enqueue(job);
    const [lease] = await manager.acquire();
    if (lease?.job.id !== id) throw new Error("another job was granted");
    return lease;
  }

  async job(id: number): Promise<Job> {
    const [job] = await this.store.jobs([id]);
    if (!job) throw new Error(`there is no job ${id}`);
    return job;
  }

  async stateOf(id: number): Promise<StateName> {
    return (await this.job(id)).state.name;
  }

  async expiryOf(id: number): Promise<number> {
    const { state } = await this.job(id);
    if (state.name !== "running") throw new Error(`job ${id} is ${state.name}`);
    return state.expires_at_ms;
  }

  /** Time passes, and what it sets off is written: the store takes no longer than a step. */
  async pass(ms: number, step_ms = 1_000): Promise<void> {
    for (let left_ms = ms; left_ms > 0; left_ms -= step_ms) {
      await this.clock.advance(Math.min(left_ms, step_ms));
      await answered();
    }
  }

  async dispose(): Promise<void> {
    for (const store of this.#handles) await store.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Each test gets a bench of its own. */
export function benchTest(title: string, body: (b: Bench) => Promise<void>): void {
  test(title, async () => {
    const bench = await new Bench().open();
    try {
      await body(bench);
    } finally {
      await bench.dispose();
    }
  });
}
