/** A job as the flags and words of a command line describe it. */

import { LeaseError, errorText } from "../core/errors.ts";
import { INPUT_LIMIT_BYTES } from "../core/job.ts";
import type { NewJob } from "../core/job.ts";
import { checkTogether } from "../core/job_fields.ts";
import { hideArgument } from "../platform/arguments.ts";
import { systemClock } from "../platform/clock.ts";
import { lazyFs } from "../platform/platform.ts";
import { flagName } from "./flags.ts";
import { readStdin, type Io } from "./io.ts";
import { plainJob, type JobArgs, type JobLists } from "./job_flags.ts";

export async function newJob(args: JobArgs, lists: JobLists, words: readonly string[], io: Io): Promise<NewJob> {
  hideVariables(lists);
  checkTogether(
    (name) => name !== "if_exists" && args[name] !== undefined,
    (name) => `--${flagName(name)}`,
  );
  const stdin = args.input === "-" ? await readStdin(INPUT_LIMIT_BYTES) : null;
  // Loaded only when asked for: most jobs run at once, and every enqueue pays for what is loaded.
  const at = args.at === undefined ? null : await import("../config/at.ts");
  return plainJob(args, lists, words, io.env, {
    input: (text, name) => stdin ?? inputOf(text, (path) => readInput(path, `${name} ${text}`)),
    moment: (text, name) => at?.parseAt(text, name, systemClock.wall_ms()) ?? 0,
  });
}

/** What `--env A=1` says is nobody's to read in `ps`; some commands stay for long. */
function hideVariables({ env = [] }: JobLists): void {
  for (const text of env) if (text.includes("=")) hideArgument(text, text.slice(text.indexOf("=") + 1));
}

/** To be thrown: a file that a flag names. */
export function unreadable(name: string, error: unknown): LeaseError {
  const why = FILE_PROBLEMS[(error as NodeJS.ErrnoException).code ?? ""] ?? errorText(error);
  return new LeaseError("usage", `${name} can't be read: ${why}`);
}

const FILE_PROBLEMS: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file",
  ENOTDIR: "there is no such file",
  EACCES: "it is not yours to read",
  EISDIR: "it is a folder",
};

const encoder = new TextEncoder();

/** `@FILE` is what is in a file, `@@…` a text that begins with @. */
export function inputOf(text: string, read: (path: string) => Uint8Array): Uint8Array {
  if (!text.startsWith("@")) return encoder.encode(text);
  return text.startsWith("@@") ? encoder.encode(text.slice(1)) : read(text.slice(1));
}

/** At most one byte more than is allowed, which tells that there was more; `name` is what the error calls it. */
export function readInput(path: string, name: string): Uint8Array {
  const { closeSync, openSync, readSync } = lazyFs();
  try {
    const file = openSync(path, "r");
    try {
      const buffer = new Uint8Array(INPUT_LIMIT_BYTES + 1);
      let size = 0;
      for (let more = -1; more !== 0 && size < buffer.length; size += more)
        more = readSync(file, buffer, size, buffer.length - size, null);
      return buffer.slice(0, size);
    } finally {
      closeSync(file);
    }
  } catch (error) {
    throw unreadable(name, error);
  }
}
