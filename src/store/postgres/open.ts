/**
 * Opens a PostgreSQL store: the server must be one that can be used, and the schema is brought to this version. Safe
 * when several processes do it at once on a database that has none yet.
 */

import process from "node:process";
import { LeaseError } from "../../core/errors.ts";
import type { Store } from "../store.ts";
import { NO_RIGHT, UNDEFINED_SCHEMA, UNDEFINED_TABLE, codeOf, explain } from "./failure.ts";
import { MIGRATIONS, hasNewerFunctions, migrate, namesOf, versionsOf, type Versions } from "./schema.ts";
import { Session, type SessionOptions } from "./session/session.ts";
import { lookAround, refuseUntrusted, type Place } from "./session/trust.ts";
import { parseTarget, type Target } from "./session/url.ts";
import { postgresStore } from "./store.ts";

export interface OpenPostgresOptions extends SessionOptions {
  create?: boolean;
  /** Accept a schema that others can write. */
  trust?: boolean;
  env?: Readonly<Record<string, string | undefined>>;
}

const OLDEST = 15;

/** A server that is starting up is waited for; one that is not there is an answer. */
const STARTING = "57P03";

const STARTING_LIMIT_MS = 10_000;
const PAUSE_MS = 100;

export async function openPostgres(url: string, options: OpenPostgresOptions): Promise<Store> {
  const target = parseTarget(url, options.env ?? process.env);
  for (const remark of target.remarks) options.notice?.(remark);
  const session = new Session(target, options);
  try {
    const [found, place] = await readVersion(session, target);
    const version = found?.version ?? null;
    if (options.trust !== true) refuseUntrusted(place, target);
    if (!SAFE_COMMITS.has(place.synchronous_commit)) session.beginWith("SET synchronous_commit = on");
    if (version === null && options.create === false) {
      const message = `there is no store in ${target.location} yet: enqueue a job, or name another with --store`;
      throw new LeaseError("no_store", message);
    }
    const outdated = found !== null && place.mine && hasNewerFunctions(found);
    if (version !== MIGRATIONS.length || outdated) {
      await migrate(session, target, place).catch((error: unknown) => {
        throw codeOf((error as Error).cause) === NO_RIGHT ? mayNot(version, target) : error;
      });
    }
  } catch (error) {
    await session.close().catch(() => {});
    throw explain(error, target.location);
  }
  return postgresStore(session, target.schema, options.clock, options.random);
}

/** Everybody is told that a commit is there when it is on disk, here and on standbys that are waited for. */
const SAFE_COMMITS = new Set(["on", "remote_apply"]);

/** For who may use what others made, and not make it. */
function mayNot(version: number | null, { location, user }: Target): LeaseError {
  const what =
    version === null
      ? `there is no store in ${location} yet, and role ${user} may not make one`
      : `store ${location} has schema ${version}, this lease needs ${MIGRATIONS.length}, and role ${user} may not change it`;
  const advice = "let its owner run `lease watchdog --once` first; `lease doctor --grants` prints what to grant";
  return new LeaseError("store_readonly", `${what}: ${advice}`);
}

/** Null: there is no store yet. */
async function readVersion(session: Session, target: Target): Promise<[Versions | null, Place]> {
  const deadline_ms = performance.now() + STARTING_LIMIT_MS;
  for (;;) {
    try {
      return await session.first(async (link) => {
        // Both at once: nobody waits twice for an answer.
        const asked = versionsOf(link).catch((error: unknown) => {
          if ([UNDEFINED_TABLE, UNDEFINED_SCHEMA].includes(codeOf(error))) return null;
          throw error;
        });
        const around = lookAround(link, target, namesOf());
        await Promise.allSettled([asked, around]);
        refuseServer(session, target);
        return [await asked, await around];
      });
    } catch (error) {
      const code = codeOf((error as { cause?: unknown }).cause);
      if (code !== STARTING || performance.now() > deadline_ms) throw error;
      await new Promise((done) => setTimeout(done, PAUSE_MS));
    }
  }
}

function refuseServer(session: Session, target: Target): void {
  const { version, encoding } = session.server;
  if (Number.parseInt(version, 10) < OLDEST) {
    const advice = `and lease needs ${OLDEST} or newer: upgrade the server`;
    throw new LeaseError("unsupported", `store ${target.location} is on PostgreSQL ${version}, ${advice}`);
  }
  if (encoding === "" || encoding === "UTF8") return;
  const advice = "which can't hold every text: create one with `createdb -T template0 -E UTF8`";
  throw new LeaseError("unsupported", `store ${target.location} is in a database that is in ${encoding}, ${advice}`);
}
