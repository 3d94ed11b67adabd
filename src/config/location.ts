/** Where things are when nobody says otherwise: the store in the folder for state, lease.toml in that for settings. */

import { LeaseError } from "../core/errors.ts";

export type Env = Readonly<Record<string, string | undefined>>;

/** `chosen` is what a flag or a setting says. */
export function storeLocation(chosen: string | undefined, env: Env): string {
  if (chosen === "") throw new LeaseError("usage", "--store is empty: name a file, or leave it out");
  if (chosen !== undefined) return chosen;
  const state = baseFolder(env, "XDG_STATE_HOME", ".local/state");
  if (state === null) throw new LeaseError("usage", "HOME is not set: name the store with --store or LEASE_STORE");
  return `${state}/lease/lease.db`;
}

/** Null when not even the home folder is known. */
export function baseFolder(env: Env, variable: string, in_home: string): string | null {
  const folder = nonEmpty(env[variable]);
  // The XDG standard has relative paths ignored.
  if (folder !== undefined && folder.startsWith("/")) return folder;
  const home = nonEmpty(env["HOME"]);
  return home === undefined ? null : `${home}/${in_home}`;
}

/** A variable that is set to nothing is not set. */
export function nonEmpty(value: string | undefined): string | undefined {
  return value === "" ? undefined : value;
}
