/** Where the store is: the flag, else LEASE_STORE, else the usual place. */

import { isAbsolute, join } from "node:path";
import { LeaseError } from "../core/errors.ts";

type Env = Readonly<Record<string, string | undefined>>;

export function storeLocation(flag: string | undefined, env: Env): string {
  if (flag === "") throw new LeaseError("usage", "--store is empty: name a file, or leave it out");
  return flag ?? nonEmpty(env["LEASE_STORE"]) ?? join(stateFolder(env), "lease", "lease.db");
}

function stateFolder(env: Env): string {
  const state = nonEmpty(env["XDG_STATE_HOME"]);
  // The XDG standard has relative paths ignored.
  if (state !== undefined && isAbsolute(state)) return state;
  const home = nonEmpty(env["HOME"]);
  if (home === undefined) throw new LeaseError("usage", "HOME is not set: name the store with --store or LEASE_STORE");
  return join(home, ".local", "state");
}

function nonEmpty(value: string | undefined): string | undefined {
  return value === "" ? undefined : value;
}
