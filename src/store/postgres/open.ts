/**
 * Opens a PostgreSQL store: the server must be one that can be used, and the schema is brought to this version. Safe
 * when several processes do it at once on a database that has none yet.
 */

import process from "node:process";
import { LeaseError } from "../../core/errors.ts";
import type { Store } from "../store.ts";
import { UNDEFINED_SCHEMA, UNDEFINED_TABLE, codeOf, explain } from "./failure.ts";
import { MIGRATIONS, migrate, versionOf } from "./schema.ts";
import { Session, type SessionOptions } from "./session/session.ts";
import { parseTarget, type Target } from "./session/url.ts";
import { postgresStore } from "./store.ts";

export interface OpenPostgresOptions extends SessionOptions {
  create?: boolean;
  env?: Readonly<Record<string, string | undefined>>;
}

const OLDEST = 15;

/** A server that is starting up is waited for; one that is not there is an answer. */
const STARTING = "57P03";

const STARTING_LIMIT_MS = 10_000;
const PAUSE_MS = 100;

export async function openPostgres(url: string, options: OpenPostgresOptions): Promise<Store> {
  const target = parseTarget(url, options.env ?? process.env);
  const session = new Session(target, options);
  try {
    const version = await readVersion(session);
    refuseOldServer(session, target);
    if (version === null && options.create === false) {
      const message = `there is no store in ${target.location} yet: enqueue a job, or name another with --store`;
      throw new LeaseError("no_store", message);
    }
    if (version !== MIGRATIONS.length) await migrate(session, target);
  } catch (error) {
    await session.close().catch(() => {});
    throw explain(error, target.location);
  }
  return postgresStore(session, target.schema, options.clock, options.random);
}

/** Null: there is no store yet. */
async function readVersion(session: Session): Promise<number | null> {
  const deadline_ms = performance.now() + STARTING_LIMIT_MS;
  for (;;) {
    try {
      return await session.first(versionOf);
    } catch (error) {
      const code = codeOf((error as { cause?: unknown }).cause);
      if (code === UNDEFINED_TABLE || code === UNDEFINED_SCHEMA) return null;
      if (code !== STARTING || performance.now() > deadline_ms) throw error;
      await new Promise((done) => setTimeout(done, PAUSE_MS));
    }
  }
}

function refuseOldServer(session: Session, target: Target): void {
  const version = session.server_version;
  if (!(Number.parseInt(version, 10) < OLDEST)) return;
  const advice = `and lease needs ${OLDEST} or newer: upgrade the server`;
  throw new LeaseError("unsupported", `store ${target.location} is on PostgreSQL ${version}, ${advice}`);
}
