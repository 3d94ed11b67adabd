/** A location → the store there. Engines are loaded when they are needed; what enqueue needs of SQLite is at hand. */

import { LeaseError } from "../core/errors.ts";
import type { OpenSqliteOptions } from "./sqlite/connection.ts";
import { openSqliteInbox } from "./sqlite/inbox.ts";
import type { Inbox, Store } from "./store.ts";

export type OpenStoreOptions = OpenSqliteOptions;

export async function openStore(location: string, options: OpenStoreOptions): Promise<Store> {
  refuseUnknown(location);
  const { openSqlite } = await import("./sqlite/open.ts");
  return openSqlite(location, options);
}

/** The part of the store that takes new jobs; opens faster. */
export async function openInbox(location: string, options: OpenStoreOptions): Promise<Inbox> {
  refuseUnknown(location);
  return openSqliteInbox(location, options);
}

function refuseUnknown(location: string): void {
  if (!location.includes("://")) return;
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(location)?.[1]?.toLowerCase();
  if (scheme === undefined) return;
  throw new LeaseError("unsupported", `this lease has no ${scheme}:// stores: name a file`);
}
