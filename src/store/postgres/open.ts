/**
 * Opens a PostgreSQL store: the server must be one that can be used, and the schema is brought to this version. Safe
 * when several processes do it at once on a database that has none yet.
 */

import process from "node:process";
import type { Clock, Random } from "../../core/clock.ts";
import { LeaseError } from "../../core/errors.ts";
import type { Store } from "../store.ts";
import { codeOf, explain, UNDEFINED_SCHEMA, UNDEFINED_TABLE } from "./failure.ts";
import type { Connection } from "./session/link.ts";
import { MIGRATIONS } from "./schema.ts";
import { Session } from "./session/session.ts";
import { Statements } from "./session/sql.ts";
import { PostgresStore } from "./store.ts";
import type { Target } from "./session/url.ts";
import { parseTarget } from "./session/url.ts";

export interface OpenPostgresOptions {
  clock: Clock;
  random: Random;
  create?: boolean;
  /** How long a call keeps trying while the database can't be reached. */
  patience_ms?: number;
  /** How long a single answer may take. */
  answer_timeout_ms?: number;
  env?: Readonly<Record<string, string | undefined>>;
}

const DEFAULT_PATIENCE_MS = 30_000;
const OLDEST = 15;
/** A server that is starting up is waited for; one that is not there is an answer. */
const STARTING = "57P03";
const STARTING_PATIENCE_MS = 10_000;
const PAUSE_MS = 100;

export async function openPostgres(url: string, options: OpenPostgresOptions): Promise<Store> {
  const target = parseTarget(url, options.env ?? process.env);
  const session = new Session({
    target,
    clock: options.clock,
    random: options.random,
    patience_ms: options.patience_ms ?? DEFAULT_PATIENCE_MS,
    answer_timeout_ms: options.answer_timeout_ms,
  });
  const statements = new Statements(target.schema);
  try {
    const version = await readVersion(session, statements);
    refuseOldServer(session, target);
    if (version === null && options.create === false) {
      const message = `there is no store in ${target.location} yet: enqueue a job, or name another with --store`;
      throw new LeaseError("no_store", message);
    }
    if (version !== MIGRATIONS.length) await migrate(session, statements, target);
  } catch (error) {
    await session.close().catch(() => {});
    throw explain(error, target.location);
  }
  const { clock, random } = options;
  return new PostgresStore({ session, statements, schema: target.schema, clock, random });
}

const VERSION = "SELECT value FROM lease.meta WHERE name = 'version'";

/** Null: there is no store yet. */
async function readVersion(session: Session, statements: Statements): Promise<number | null> {
  const deadline_ms = performance.now() + STARTING_PATIENCE_MS;
  for (;;) {
    try {
      return await session.first((link) => versionOf(statements, link));
    } catch (error) {
      const code = codeOf((error as { cause?: unknown }).cause);
      if (code === UNDEFINED_TABLE || code === UNDEFINED_SCHEMA) return null;
      if (code !== STARTING || performance.now() > deadline_ms) throw error;
      await new Promise((done) => setTimeout(done, PAUSE_MS));
    }
  }
}

async function versionOf(statements: Statements, connection: Connection): Promise<number | null> {
  const [row] = await statements.sql(connection, VERSION);
  return row === undefined ? null : Number(row["value"]);
}

function refuseOldServer(session: Session, target: Target): void {
  const version = session.server_version;
  if (!(Number.parseInt(version, 10) < OLDEST)) return;
  throw new LeaseError(
    "unsupported",
    `store ${target.location} is on PostgreSQL ${version}, and lease needs ${OLDEST} or newer: upgrade the server`,
  );
}

const EXISTS = "SELECT to_regclass($1) IS NOT NULL AS found";

async function migrate(session: Session, statements: Statements, { schema, location }: Target): Promise<void> {
  const name = `"${schema.replaceAll('"', '""')}"`;
  await session.transaction(async (connection) => {
    // Whoever comes second finds the work done.
    await connection.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [`lease ${schema}`]);
    const [meta] = await connection.query(EXISTS, [`${name}.meta`]);
    const version = (meta?.["found"] as unknown) === true ? ((await versionOf(statements, connection)) ?? 0) : 0;
    if (version > MIGRATIONS.length) {
      throw new LeaseError(
        "store_newer",
        `store ${location} has schema ${version} and this lease knows ${MIGRATIONS.length}: use a newer lease`,
      );
    }
    if (version === 0) await refuseForeign(connection, schema, location);
    if (version === 0) await connection.query(`CREATE SCHEMA IF NOT EXISTS ${name}`);
    for (const step of MIGRATIONS.slice(version)) await connection.script(statements.text(step));
    const set =
      "INSERT INTO lease.meta (name, value) VALUES ('version', $1) ON CONFLICT (name) DO UPDATE SET value = $1";
    await statements.sql(connection, set, [String(MIGRATIONS.length)]);
  });
}

/** A schema with tables in it and no mark of ours is somebody else's. */
async function refuseForeign(connection: Connection, schema: string, location: string): Promise<void> {
  const text = "SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = $1) AS found";
  const [row] = await connection.query(text, [schema]);
  if ((row?.["found"] as unknown) !== true) return;
  throw new LeaseError(
    "store_not_database",
    `schema ${schema} of ${location} belongs to another program: name another with ?schema=`,
  );
}
