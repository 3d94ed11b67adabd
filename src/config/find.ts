/**
 * Which lease.toml counts: the one that --config or LEASE_CONFIG names, else that of the working folder, else the
 * user's own. One, not several on top of each other. Every start asks this, so it looks and reads nothing.
 */

import { LeaseError } from "../core/errors.ts";
import { baseFolder, nonEmpty, type Env } from "./location.ts";

/** Whether there is a file of that name. */
export type Exists = (path: string) => boolean;

export interface FoundConfig {
  path: string;
  /** Somebody meant exactly this file; it was not just lying there. */
  named: boolean;
}

const NAME = "lease.toml";

export function findConfig(flag: string | undefined, env: Env, exists: Exists): FoundConfig | null {
  if (flag === "") throw new LeaseError("usage", "--config is empty: name a file, or leave it out");
  const variable = nonEmpty(env["LEASE_CONFIG"]);
  const named = flag ?? variable;
  if (named !== undefined) {
    if (exists(named)) return { path: named, named: true };
    const by = flag === undefined ? "LEASE_CONFIG" : "--config";
    throw new LeaseError("usage", `${by} ${named} does not exist: name a file that does, or leave it out`);
  }
  if (exists(NAME)) return { path: NAME, named: false };
  const folder = baseFolder(env, "XDG_CONFIG_HOME", ".config");
  const own = folder === null ? null : `${folder}/lease/${NAME}`;
  return own !== null && exists(own) ? { path: own, named: false } : null;
}
