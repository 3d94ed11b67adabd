/**
 * Where things are: the store, and which lease.toml counts: the one that --config or LEASE_CONFIG names, else that of
 * the working folder, else the user's own. One, not several on top of each other. Every start asks this, so it looks
 * and reads nothing.
 */

import { LeaseError } from "../core/errors.ts";

export type Env = Readonly<Record<string, string | undefined>>;

/** `chosen` is what a flag or a setting says; else it is in the folder for state. */
export function storeLocation(chosen: string | undefined, env: Env): string {
  if (chosen === "") throw new LeaseError("usage", "--store is empty: name a file, or leave it out");
  if (chosen !== undefined) return chosen;
  const state = baseFolder(env, "XDG_STATE_HOME", ".local/state");
  if (state === null) throw new LeaseError("usage", "HOME is not set: name the store with --store or LEASE_STORE");
  return `${state}/lease/lease.db`;
}

/** Null when not even the home folder is known. */
function baseFolder(env: Env, variable: string, in_home: string): string | null {
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

export interface FoundConfig {
  path: string;
  /** Somebody meant exactly this file; it was not just lying there. */
  named: boolean;
}

const CONFIG_NAME = "lease.toml";

/** `exists` tells whether there is a file of that name. */
export function findConfig(flag: string | undefined, env: Env, exists: (path: string) => boolean): FoundConfig | null {
  if (flag === "") throw new LeaseError("usage", "--config is empty: name a file, or leave it out");
  const named = flag ?? nonEmpty(env["LEASE_CONFIG"]);
  if (named !== undefined) {
    if (exists(named)) return { path: named, named: true };
    const by = flag === undefined ? "LEASE_CONFIG" : "--config";
    throw new LeaseError("usage", `${by} ${named} does not exist: name a file that does, or leave it out`);
  }
  if (exists(CONFIG_NAME)) return { path: CONFIG_NAME, named: false };
  const folder = baseFolder(env, "XDG_CONFIG_HOME", ".config");
  const own = folder === null ? null : `${folder}/lease/${CONFIG_NAME}`;
  return own !== null && exists(own) ? { path: own, named: false } : null;
}
