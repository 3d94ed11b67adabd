/**
 * What a simulated world stands on: a real store, with a clock that the world moves and trouble at any statement. Most
 * lives share one store in memory, which is emptied between them: to make one takes longer than a life.
 */

import { Database } from "bun:sqlite";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { platform } from "#platform";
import type { Clock } from "../../src/core/clock.ts";
import type { Job } from "../../src/core/job.ts";
import type { SqlDatabase, SqlValue } from "../../src/platform/platform.ts";
import { Connection, openSqlite } from "../../src/store/sqlite/open.ts";
import { migrate } from "../../src/store/sqlite/schema.ts";
import { sqliteStore } from "../../src/store/sqlite/store.ts";
import type { Store } from "../../src/store/store.ts";
import { intercept, temporaryFolder } from "../leasing/fixture.ts";
import type { Jobs } from "./objection.ts";

export interface Ground {
  store: Store;
  /** A handle that only looks, and has no trouble. */
  eye: Store;
  /** The jobs as they are now, knowing how they were. */
  look(before: Jobs): Promise<Jobs>;
  /** From now on, or until it is told null: the statement of that number fails. Null where it can't be made to. */
  failAt: ((statement: number | null) => void) | null;
  /** Statements of this life so far; only where they can be made to fail. */
  statements?: () => number;
  /** Something was asked and is not answered: for one whose answers take real time. */
  busy?: () => boolean;
  /** Writes past the store. */
  tamper(sql: string, ...params: number[]): void;
  integrity(): Promise<string>;
  close(options: { spoiled: boolean }): Promise<void>;
}

/** Whose clock the store has: a handle outlives many lives, and each has its own. */
class LentClock implements Clock {
  lender: Clock | null = null;
  wall_ms = (): number => this.lender!.wall_ms();
  mono_ms = (): number => this.lender!.mono_ms();
  after = (delay_ms: number, fn: () => void): (() => void) => this.lender!.after(delay_ms, fn);
}

/** Errors as the engine words them, of which every write of the commit hears. */
const TROUBLE = ["disk I/O error", "database or disk is full"];

/** A database whose statements can be made to fail, one by one. */
class Failing {
  /** Statements so far. */
  steps = 0;
  #left = Infinity;
  #count = 0;
  #spared = false;

  failAt(statement: number | null): void {
    this.#left = statement ?? Infinity;
    this.#count = statement ?? 0;
  }

  wrap(database: SqlDatabase): SqlDatabase {
    return {
      ...database,
      prepare: (sql) => {
        const statement = database.prepare(sql);
        const step =
          <T>(run: (...params: SqlValue[]) => T) =>
          (...params: SqlValue[]): T => {
            this.#step();
            return run(...params);
          };
        return { run: step(statement.run), get: step(statement.get), all: step(statement.all) };
      },
    };
  }

  /** For who only looks: the work is done when the call returns, though its answer comes later. */
  sparing<T>(work: () => T): T {
    this.#spared = true;
    try {
      return work();
    } finally {
      this.#spared = false;
    }
  }

  #step(): void {
    if (this.#spared) return;
    this.steps += 1;
    this.#left -= 1;
    if (this.#left > 0) return;
    this.#left = Infinity;
    throw new Error(TROUBLE[this.#count % TROUBLE.length]);
  }
}

class MemoryStore {
  readonly store: Store;
  readonly clock = new LentClock();
  readonly failing = new Failing();
  readonly #database: SqlDatabase;
  readonly #tables: readonly string[];
  readonly #changed: ReturnType<SqlDatabase["prepare"]>;

  constructor() {
    const database = platform.openSqlite(":memory:");
    database.exec("PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF");
    migrate(database, ":memory:");
    // In the connection's own corner, so that the store's schema stays as it is.
    database.exec("CREATE TEMP TABLE touched (id INTEGER)");
    for (const [verb, row] of [
      ["INSERT", "NEW"],
      ["UPDATE", "NEW"],
      ["DELETE", "OLD"],
    ] as const) {
      const body = `BEGIN INSERT INTO touched VALUES (${row}.id); END`;
      database.exec(`CREATE TEMP TRIGGER touched_by_${verb} AFTER ${verb} ON main.jobs ${body}`);
    }
    this.#database = database;
    this.#changed = database.prepare("SELECT DISTINCT id FROM touched ORDER BY id");
    const tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'counting'").all();
    // What triggers count comes last.
    this.#tables = [...tables.map(({ name }) => String(name)), "tallies"];
    const options = { random: () => 0.5, busy_limit_ms: 30_000 };
    const connection = new Connection(":memory:", this.failing.wrap(database), options);
    this.store = sqliteStore(connection, this.clock);
  }

  empty(): void {
    this.#database.exec("PRAGMA foreign_keys = OFF");
    for (const table of this.#tables) this.#database.exec(`DELETE FROM ${table}`);
    this.#database.exec("DELETE FROM touched; PRAGMA foreign_keys = ON");
  }

  /** Ids of jobs that were written since the last look. */
  changed(): number[] {
    const ids = this.#changed.all().map(({ id }) => id as number);
    if (ids.length > 0) this.#database.exec("DELETE FROM touched");
    return ids;
  }

  tamper(sql: string, ...params: number[]): void {
    this.#database.prepare(sql).run(...params);
  }

  integrity(): string {
    return String(this.#database.prepare("PRAGMA integrity_check").get()?.["integrity_check"]);
  }
}

let kept: MemoryStore | null = null;

/** Nobody waits for others to share a commit with: that is a matter of real time. */
export function unhurried(store: Store): Store {
  return intercept(store, {
    extend: (requests) => store.extend(requests),
    settle: (requests) => store.settle(requests),
  });
}

export function memoryGround(clock: Clock): Ground {
  const memory = kept ?? new MemoryStore();
  kept = null;
  memory.clock.lender = clock;
  memory.empty();
  const { store, failing } = memory;
  const eye = new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => failing.sparing(() => value.apply(target, args) as unknown);
    },
  });
  const begun = failing.steps;
  return {
    store: unhurried(store),
    eye,
    async look(before) {
      const ids = memory.changed();
      if (ids.length === 0) return before;
      const jobs = new Map(before);
      const found = await eye.jobs(ids);
      for (const [index, id] of ids.entries()) {
        const job = found[index] ?? null;
        if (job === null) jobs.delete(id);
        else jobs.set(id, job);
      }
      return jobs;
    },
    failAt: (statement) => failing.failAt(statement),
    statements: () => failing.steps - begun,
    tamper: (sql, ...params) => memory.tamper(sql, ...params),
    integrity: async () => memory.integrity(),
    async close({ spoiled }) {
      failing.failAt(null);
      // One in which something broke may have writes under way, or a schema that somebody tampered with.
      if (!spoiled) kept = memory;
    },
  };
}

/** A file, and two handles on it, as two processes have it. */
export async function fileGround(clock: Clock): Promise<Ground> {
  const folder = temporaryFolder();
  const path = join(folder, "lease.db");
  const open = (): Promise<Store> => openSqlite(path, { clock, random: () => 0.5 });
  const [eye, store] = [await open(), await open()];
  const withDatabase = <T>(use: (database: Database) => T): T => {
    const database = new Database(path);
    try {
      return use(database);
    } finally {
      database.close();
    }
  };
  return {
    store: unhurried(store),
    eye,
    look: (before) => lookAtAll(eye, before),
    failAt: null,
    tamper: (sql, ...params) => withDatabase((database) => void database.query(sql).run(...params)),
    integrity: async () =>
      withDatabase((database) =>
        String(database.query<{ integrity_check: string }, []>("PRAGMA integrity_check").get()?.integrity_check),
      ),
    async close() {
      await eye.close();
      await store.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A job that has not changed stays the same object. */
export async function lookAtAll(eye: Store, before: Jobs): Promise<Jobs> {
  const found: Job[] = await eye.list({ limit: 10_000, newest_first: false });
  return new Map(
    found.map((job) => {
      const was = before.get(job.id);
      return [job.id, was !== undefined && isDeepStrictEqual(was, job) ? was : job];
    }),
  );
}
