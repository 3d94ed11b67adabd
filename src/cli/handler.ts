/** The program that a worker hands jobs to: found before the first of them is taken. */

import { accessSync, constants, statSync } from "node:fs";
import { join, resolve } from "node:path";
import process from "node:process";
import { LeaseError } from "../core/errors.ts";
import type { Io } from "./io.ts";

/**
 * One that can't be started would fail every job of the queue. A path is the worker's, not the job's: jobs bring folders
 * of their own.
 */
export function findHandler([name, ...words]: readonly string[], env: Io["env"]): readonly string[] {
  if (name === undefined) return [];
  const paths = name.includes("/")
    ? [resolve(name)]
    : (env["PATH"] ?? "").split(":").map((folder) => join(folder, name));
  const there = paths.filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile());
  const where = name.includes("/") ? `in ${process.cwd()}` : "on PATH";
  if (there.length === 0) throw new LeaseError("not_found", `handler not found: ${name} (${where}); nothing was run`);
  if (!there.some(isExecutable))
    throw new LeaseError("not_executable", `handler not executable: ${name} (chmod +x it); nothing was run`);
  return [name.includes("/") ? resolve(name) : name, ...words];
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
