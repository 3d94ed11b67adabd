/**
 * Opens a SQLite store: its location is checked, the file created if it may be, the schema brought to this version. Safe
 * when several processes do it at once on a file that does not exist yet. `lease enqueue` has no time to load more than
 * it needs, so the part that takes new jobs can be had alone, and what is seldom needed waits in files of its own.
 */

import process from "node:process";
import { platform } from "#platform";
import type { Clock, Random } from "../../core/clock.ts";
import { LeaseError } from "../../core/errors.ts";
import { lazyFs } from "../../platform/platform.ts";
import type { SqlDatabase, SqlStatement } from "../../platform/platform.ts";
import type { Inbox, Store } from "../store.ts";
import type { Place } from "./location.ts";
import { enqueue } from "./enqueue.ts";
import { Noted } from "./history.ts";
import { explain, isBusy } from "./failure.ts";
import { OpenFiles, findFile, noticeNewLife } from "./identity.ts";
import {
  APPLICATION_ID,
  SCHEMA_TEXT,
  SCHEMA_VERSION,
  SHORT_WAL_BYTES,
  WAL_LIMIT_BYTES,
  builtSchema,
  quickLocation,
} from "./quick_enqueue.ts";
import { RANK, Writer } from "./writer.ts";

export interface OpenSqliteOptions {
  clock: Clock;
  random: Random;
  /** Accept a store that others can write. */
  trust?: boolean;
  create?: boolean;
  /** None of a file, but one that is gone when it is closed; for `IN_MEMORY` alone. */
  memory?: boolean;
  /** How long a write keeps trying while another process holds the lock. */
  busy_limit_ms?: number;
}

/** The name of a store that is in no file. */
const IN_MEMORY = ":memory:";
const DEFAULT_BUSY_LIMIT_MS = 30_000;
const PAUSE_MS = 5;

export class Connection {
  readonly path: string;
  readonly database: SqlDatabase;
  readonly writer: Writer;
  /** Null: it is in memory, where nobody else can see it, or take it away. */
  readonly files: OpenFiles | null;

  constructor(path: string, database: SqlDatabase, options: { random: Random; busy_limit_ms: number }) {
    this.path = path;
    this.database = database;
    this.writer = new Writer(database, { path, ...options });
    this.files = path === IN_MEMORY ? null : new OpenFiles(path);
  }

  /** Infinity when there is none. */
  get wal_bytes(): number {
    if (this.files === null) return 0;
    const wal = `${this.path}-wal`;
    const stats = platform.quickFiles()?.stat(wal) ?? lazyFs().statSync(wal, { throwIfNoEntry: false });
    return stats?.size ?? Infinity;
  }

  /**
   * The last connection to close a database folds its WAL back into it, and the next has to begin a new one: three of
   * the five syncs of an enqueue. A short WAL is left for the next process instead; a long one would slow it down.
   */
  async close({ exiting }: { exiting: boolean }): Promise<void> {
    await this.writer.settled();
    this.files?.beforeClose();
    if (exiting && this.files !== null && this.wal_bytes < SHORT_WAL_BYTES) this.database.closeKeepingWal();
    else this.database.close();
  }
}

export async function openSqlite(file: string, options: OpenSqliteOptions): Promise<Store> {
  const { sqliteStore } = await import("./store.ts");
  return sqliteStore(await connect(file, options), options.clock);
}

/** Closes as if the process ended right after. */
export async function openSqliteInbox(file: string, options: OpenSqliteOptions): Promise<Inbox> {
  const connection = await connect(file, options);
  const db = new Database(connection.database, options.clock);
  return {
    enqueue: (jobs) => connection.writer.write(RANK.normal, () => enqueue(db, jobs)),
    close: () => connection.close({ exiting: true }),
  };
}

async function connect(file: string, options: OpenSqliteOptions): Promise<Connection> {
  const { path, recheck } = await locationOf(file, options);
  const busy_limit_ms = options.busy_limit_ms ?? DEFAULT_BUSY_LIMIT_MS;
  const found = path === IN_MEMORY ? null : findFile(path, options.clock.wall_ms());
  let database: SqlDatabase | null = null;
  try {
    const opened = (database = platform.openSqlite(path));
    recheck();
    const { version, schema } = await whileBusy(busy_limit_ms, () => configure(opened, path));
    if (version > 0 && version <= SCHEMA_VERSION && schema !== builtSchema()) {
      const { refuseOtherSchema } = await import("./exact_schema.ts");
      refuseOtherSchema(path, version, schema);
    }
    if (version !== SCHEMA_VERSION) {
      const { migrate } = await import("./schema.ts");
      await whileBusy(busy_limit_ms, () => migrate(opened, path));
    }
    if (found !== null) await whileBusy(busy_limit_ms, () => noticeNewLife(opened, path, found, version === 0));
    // What lies beside it was opened by the first look into it.
    recheck();
  } catch (error) {
    database?.close();
    throw explain(error, path);
  }
  return new Connection(path, database, { random: options.random, busy_limit_ms });
}

async function locationOf(file: string, { trust = false, create = true, memory }: OpenSqliteOptions): Promise<Place> {
  if (memory === true) return { path: IN_MEMORY, recheck: () => {} };
  const files = platform.quickFiles();
  const plain = files === null ? null : quickLocation(files, file);
  if (files !== null && plain !== null) {
    const { path, identity } = plain;
    const swapped = `store ${path} was replaced by another file while it was being opened: try again`;
    const recheck = () => {
      if (files.lstat(path)?.identity !== identity) throw new LeaseError("store_replaced", swapped);
    };
    return { path, recheck };
  }
  const { prepareLocation } = await import("./location.ts");
  return prepareLocation(file, { trust, create });
}

const FOUND = `SELECT user_version, application_id, journal_mode, ${SCHEMA_TEXT} AS schema
  FROM pragma_user_version, pragma_application_id, pragma_journal_mode`;

/** A Mac's fsync ends at the disk's own memory, which a power failure empties. */
const TO_THE_DISK = "PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON";

/** Answers the schema and its version. One statement for what is asked and one for what is set: every enqueue pays. */
function configure(database: SqlDatabase, path: string): { version: number; schema: string } {
  database.exec("PRAGMA busy_timeout = 5; PRAGMA trusted_schema = OFF");
  const found = database.prepare(FOUND).get();
  if (found?.["application_id"] !== APPLICATION_ID) refuseForeign(database, path);
  if (found?.["journal_mode"] !== "wal") database.exec("PRAGMA journal_mode = WAL");
  database.exec(`PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA journal_size_limit = ${WAL_LIMIT_BYTES}`);
  if (process.platform === "darwin") database.exec(TO_THE_DISK);
  return { version: found?.["user_version"] as number, schema: String(found?.["schema"] ?? "") };
}

/** An empty file is about to become ours; a database with tables in it and another mark is somebody else's. */
function refuseForeign(database: SqlDatabase, path: string): void {
  // In one statement: another process may be making the store while we look.
  const found = database
    .prepare("SELECT (SELECT count(*) FROM sqlite_schema) AS tables, application_id FROM pragma_application_id")
    .get();
  if (found?.["tables"] === 0 || found?.["application_id"] === APPLICATION_ID) return;
  const message = `store ${path} belongs to another program: name another file with --store`;
  throw new LeaseError("store_not_database", message);
}

async function whileBusy<T>(limit_ms: number, work: () => T): Promise<T> {
  const deadline_ms = performance.now() + limit_ms;
  for (;;) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || performance.now() > deadline_ms) throw error;
      await new Promise((done) => setTimeout(done, PAUSE_MS));
    }
  }
}

/** The statements of a store, each prepared when it is first used, since one command needs only a few; and its clock. */
export class Database {
  readonly #database: SqlDatabase;
  /** What the commit that is being put together adds to the history. */
  readonly noted = new Noted();
  readonly #clock: Clock;
  readonly #prepared = new Map<string, SqlStatement>();

  constructor(database: SqlDatabase, clock: Clock) {
    this.#database = database;
    this.#clock = clock;
  }

  now_ms(): number {
    return this.#clock.wall_ms();
  }

  sql(text: string): SqlStatement {
    let statement = this.#prepared.get(text);
    if (statement === undefined) {
      statement = this.#database.prepare(text);
      this.#prepared.set(text, statement);
    }
    return statement;
  }

  /** Of so many rows, without their CHECKs: they take a third of the time, and what `work` writes holds them by itself. */
  unchecked<T>(rows: number, work: () => T): T {
    // Every statement is prepared anew when that changes.
    if (rows < MANY_ROWS) return work();
    this.sql(`${IGNORE_CHECKS} = ON`).run();
    try {
      return work();
    } finally {
      this.sql(`${IGNORE_CHECKS} = OFF`).run();
    }
  }
}

const MANY_ROWS = 500;
const IGNORE_CHECKS = "PRAGMA ignore_check_constraints";
