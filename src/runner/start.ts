/**
 * Starting a job's program: the environment it sees, and what it means when it can't be started.
 */

import { statSync } from "node:fs";
import process from "node:process";
import { platform } from "#platform";
import { LeaseError } from "../core/errors.ts";
import type { Child, SpawnOptions } from "../platform/platform.ts";

export async function start(options: SpawnOptions): Promise<Child> {
  if (options.argv.length === 0) {
    throw new LeaseError(
      "not_found",
      "there is no command: this job has only an input and needs a worker with a handler",
    );
  }
  try {
    return await platform.spawn(options);
  } catch (error) {
    throw explainStart(error, options);
  }
}

let inherited: Record<string, string> | null = null;

/** The worker's environment, what the job brought, and the variables by which it can ask about itself (null: unset). */
export function jobEnvironment(
  own: Readonly<Record<string, string>>,
  about: Readonly<Record<string, string | null>>,
): Record<string, string> {
  // Copied once: reading all of process.env is slow, and ours does not change.
  inherited ??= Object.fromEntries(
    Object.entries(process.env).filter((pair): pair is [string, string] => pair[1] !== undefined),
  );
  const env: Record<string, string> = { ...inherited, ...own };
  for (const name in about) {
    const value = about[name];
    if (value !== null && value !== undefined) env[name] = value;
    // Only what is there: an object that something was deleted from is slow ever after.
    else if (name in env) delete env[name];
  }
  return env;
}

export function explainStart(error: unknown, { argv, cwd }: Pick<SpawnOptions, "argv" | "cwd">): unknown {
  if (error instanceof LeaseError) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  const command = argv[0] ?? "";
  const folder = statOrNull(cwd);
  if (folder === null) return failed("not_found", `working folder ${cwd} does not exist here`, error);
  if (!folder.isDirectory()) return failed("not_found", `working folder ${cwd} is not a folder`, error);
  if (code === "ENOENT") {
    const place = command.includes("/") ? `in ${cwd}` : "on the worker's PATH";
    const shell = /\s/.test(command) ? "; a whole shell line is run with -c" : "";
    return failed("not_found", `command not found: ${command} (${place})${shell}`, error);
  }
  if (code === "EACCES" || code === "EPERM") {
    return failed(
      "not_executable",
      `not executable: ${command} (chmod +x it, or check the folder's permissions)`,
      error,
    );
  }
  if (code === "ENOEXEC") {
    return failed(
      "not_executable",
      `not executable: ${command} (its first line must name an interpreter: #!/bin/sh)`,
      error,
    );
  }
  if (code === "E2BIG") {
    return failed("not_executable", `the arguments of ${command} are too long for this system: use --input`, error);
  }
  return failed("not_executable", `${command} could not be started: ${message}`, error);
}

function failed(code: "not_found" | "not_executable", message: string, cause: unknown): LeaseError {
  return new LeaseError(code, message, { cause });
}

function statOrNull(path: string) {
  try {
    return statSync(path);
  } catch {
    return null;
  }
}
