/** A location → the store there. */

import { LeaseError } from "../core/errors.ts";
import type { OpenSqliteOptions } from "./sqlite/open.ts";
import { openSqlite } from "./sqlite/open.ts";
import type { Store } from "./store.ts";

export type OpenStoreOptions = OpenSqliteOptions;

export async function openStore(location: string, options: OpenStoreOptions): Promise<Store> {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(location)?.[1]?.toLowerCase();
  if (scheme === undefined) return openSqlite(location, options);
  if (scheme === "postgres" || scheme === "postgresql") {
    // Its driver is loaded by those who need it.
    const { openPostgres } = await import("./postgres/open.ts");
    return openPostgres(location, options);
  }
  throw new LeaseError("unsupported", `this lease has no ${scheme}:// stores: name a file or postgres://…`);
}
