/** Starting a job's program, and what it means when it can't be started. */

import { accessSync, constants, statSync } from "node:fs";
import { resolve } from "node:path";
import { platform } from "#platform";
import { LeaseError } from "../core/errors.ts";
import type { Child, SpawnOptions } from "../platform/platform.ts";

const permission = (command: string) => `not executable: ${command} (chmod +x it, or check the folder's permissions)`;

const NOT_EXECUTABLE: Readonly<Record<string, (command: string) => string>> = {
  EACCES: permission,
  EPERM: permission,
  ENOEXEC: (command) => `not executable: ${command} (its first line must name an interpreter: #!/bin/sh)`,
  E2BIG: (command) => `the arguments of ${command} are too long for this system: use --input`,
};

export async function start(options: SpawnOptions): Promise<Child> {
  if (options.argv.length === 0) {
    throw new LeaseError(
      "not_found",
      "there is no command: this job has only an input and needs a worker with a handler",
    );
  }
  try {
    return await platform.spawn((options.joins ?? []).length === 0 ? options : joining(options));
  } catch (error) {
    throw explainStart(error, options);
  }
}

/** Moves itself into the groups, and becomes the program. */
const JOIN = 'while [ "$1" != -- ]; do echo $$ >"$1" || exit 125; shift; done; shift; exec "$@"';

function joining({ joins = [], ...options }: SpawnOptions): SpawnOptions {
  const [command = ""] = options.argv;
  // A shell that can't become it would end as if the program had.
  if (!candidates(command, options).some(isExecutable))
    throw Object.assign(new Error("no such file"), { code: "ENOENT" });
  return { ...options, argv: ["/bin/sh", "-c", JOIN, "lease", ...joins, "--", ...options.argv] };
}

function candidates(command: string, { cwd, env }: SpawnOptions): string[] {
  if (command.includes("/")) return [resolve(cwd, command)];
  return (env["PATH"] ?? "/usr/bin:/bin").split(":").map((folder) => resolve(cwd, folder, command));
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** What the system said, in words for the person who queued the job. */
export function explainStart(error: unknown, { argv, cwd }: Pick<SpawnOptions, "argv" | "cwd">): unknown {
  if (error instanceof LeaseError) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  const command = argv[0] ?? "";
  const folder = statOrNull(cwd);
  if (folder === null) return failed("not_found", `working folder ${cwd} does not exist here`, error);
  if (!folder.isDirectory()) return failed("not_found", `working folder ${cwd} is not a folder`, error);
  if (code === "ENOENT") {
    const where = command.includes("/") ? `in ${cwd}` : "on the worker's PATH";
    const shell = /\s/.test(command) ? "; a whole shell line is run with -c" : "";
    return failed("not_found", `command not found: ${command} (${where})${shell}`, error);
  }
  const why = NOT_EXECUTABLE[code ?? ""]?.(command) ?? `${command} could not be started: ${message}`;
  return failed("not_executable", why, error);
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
