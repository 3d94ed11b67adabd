/** A location → the store there. Engines are loaded when they are needed. */

import { LeaseError } from "../core/errors.ts";
import { hideArgument } from "../platform/arguments.ts";
import { lazyPath } from "../platform/platform.ts";
import type { OpenSqliteOptions } from "./sqlite/open.ts";
import type { Inbox, Store } from "./store.ts";

export interface OpenStoreOptions extends OpenSqliteOptions {
  /** What whoever asked for the store should know. */
  notice?: (text: string) => void;
}

export async function openStore(location: string, options: OpenStoreOptions): Promise<Store> {
  if (isPostgres(location)) return openPostgresStore(location, options);
  const { openSqlite } = await import("./sqlite/open.ts");
  return openSqlite(location, options);
}

/** The part of the store that takes new jobs; opens faster. */
export async function openInbox(location: string, options: OpenStoreOptions): Promise<Inbox> {
  if (isPostgres(location)) return openPostgresStore(location, options);
  const { openSqliteInbox } = await import("./sqlite/open.ts");
  return openSqliteInbox(location, options);
}

/** False for a file; an address of another kind is refused. */
function isPostgres(location: string): boolean {
  if (!location.includes("://")) return false;
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(location)?.[1]?.toLowerCase();
  if (scheme === undefined) return false;
  if (scheme === "postgres" || scheme === "postgresql") return true;
  throw new LeaseError("unsupported", `this lease has no ${scheme}:// stores: name a file or postgres://…`);
}

/** What leads a job to the same store from any folder, and as little else as can be: `opened` is where it was found. */
export async function urlInJobs(
  location: string,
  opened: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<string> {
  if (!isPostgres(location)) return opened;
  const { urlForJobs } = await import("./postgres/session/url.ts");
  return urlForJobs(location, env);
}

/** Where it is from any folder, and the secret in that, if there is one. */
export async function wholeLocation(location: string): Promise<{ location: string; secret: string }> {
  if (!isPostgres(location)) return { location: lazyPath().resolve(location), secret: "" };
  const { passwordIn } = await import("./postgres/session/url.ts");
  return { location, secret: passwordIn(location) };
}

async function openPostgresStore(location: string, options: OpenStoreOptions): Promise<Store> {
  const { openPostgres } = await import("./postgres/open.ts");
  const { passwordIn } = await import("./postgres/session/url.ts");
  hideArgument(location, passwordIn(location));
  return openPostgres(location, options);
}

/** What a DBA runs to make a place for the store there. */
export async function grantsFor(location: string, env: Readonly<Record<string, string | undefined>>): Promise<string> {
  if (!isPostgres(location)) {
    const advice = "name one with --store postgres://user@host/database";
    throw new LeaseError("usage", `grants are for stores in PostgreSQL, and ${location} is a file: ${advice}`);
  }
  const { grantsSql } = await import("./postgres/session/grants.ts");
  return grantsSql(location, env);
}
