/**
 * Opens a SQLite store: the place is checked, the file created if it may be, the schema brought to this version.
 * Safe when several processes do it at once on a file that does not exist yet.
 */

import { resolve } from "node:path";
import { platform } from "#platform";
import type { Clock, Random } from "../../core/clock.ts";
import { LeaseError } from "../../core/errors.ts";
import type { SqlDatabase } from "../../platform/platform.ts";
import type { Store } from "../store.ts";
import { explain, isBusy } from "./failure.ts";
import { preparePlace, realPath } from "./place.ts";
import { rollback } from "./rollback.ts";
import { APPLICATION_ID, MIGRATIONS } from "./schema.ts";
import { SqliteStore } from "./store.ts";

export interface OpenSqliteOptions {
  clock: Clock;
  random: Random;
  /** Accept a store that others can write. */
  trust?: boolean;
  create?: boolean;
  /** How long a write keeps trying while another process holds the lock. */
  busy_limit_ms?: number;
}

const DEFAULT_BUSY_LIMIT_MS = 30_000;
const PAUSE_MS = 5;
/** The WAL is cut back to this after a checkpoint. */
const WAL_LIMIT_BYTES = 64 * 1024 * 1024;

export async function openSqlite(file: string, options: OpenSqliteOptions): Promise<Store> {
  const path = realPath(resolve(file));
  const busy_limit_ms = options.busy_limit_ms ?? DEFAULT_BUSY_LIMIT_MS;
  preparePlace(path, { trust: options.trust ?? false, create: options.create ?? true });
  let database: SqlDatabase | null = null;
  try {
    database = platform.openSqlite(path);
    await whileBusy(busy_limit_ms, () => configure(database as SqlDatabase, path));
  } catch (error) {
    database?.close();
    throw explain(error, path);
  }
  return new SqliteStore(database, { path, clock: options.clock, random: options.random, busy_limit_ms });
}

/** One statement for what is asked and one for what is set: this runs before every enqueue. */
function configure(database: SqlDatabase, path: string): void {
  database.exec("PRAGMA busy_timeout = 5");
  const found = database
    .prepare(
      "SELECT user_version, application_id, journal_mode FROM pragma_user_version, pragma_application_id, pragma_journal_mode",
    )
    .get();
  const version = found?.["user_version"];
  if (found?.["application_id"] !== APPLICATION_ID) refuseForeign(database, path);
  if (found?.["journal_mode"] !== "wal") database.exec("PRAGMA journal_mode = WAL");
  database.exec(`PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA journal_size_limit = ${WAL_LIMIT_BYTES}`);
  if (version !== MIGRATIONS.length) migrate(database, path);
}

/** An empty file is about to become ours; a database with tables in it and another mark is somebody else's. */
function refuseForeign(database: SqlDatabase, path: string): void {
  // In one statement: another process may be making the store while we look.
  const found = database
    .prepare("SELECT (SELECT count(*) FROM sqlite_schema) AS tables, application_id FROM pragma_application_id")
    .get();
  if (found?.["tables"] === 0 || found?.["application_id"] === APPLICATION_ID) return;
  throw new LeaseError(
    "store_not_database",
    `store ${path} belongs to another program: name another file with --store`,
  );
}

function migrate(database: SqlDatabase, path: string): void {
  database.exec("BEGIN IMMEDIATE");
  try {
    // Read again under the lock: another process may have been first.
    const version = readPragma(database, "user_version") as number;
    if (version > MIGRATIONS.length) {
      throw new LeaseError(
        "store_newer",
        `store ${path} has schema ${version} and this lease knows ${MIGRATIONS.length}: use a newer lease`,
      );
    }
    for (const step of MIGRATIONS.slice(version)) database.exec(step);
    database.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
    database.exec(`PRAGMA user_version = ${MIGRATIONS.length}`);
    database.exec("COMMIT");
  } catch (error) {
    rollback(database);
    throw error;
  }
}

function readPragma(database: SqlDatabase, name: string): unknown {
  return database.prepare(`PRAGMA ${name}`).get()?.[name];
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
