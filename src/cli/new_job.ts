/** A job as the flags and words of a command line describe it. */

import { LeaseError, errorText } from "../core/errors.ts";
import { INPUT_LIMIT_BYTES } from "../core/job.ts";
import type { NewJob } from "../core/job.ts";
import { systemClock } from "../platform/clock.ts";
import { lazyFs } from "../platform/lazy.ts";
import type { Io } from "./io.ts";
import { readStdin } from "./io.ts";
import { plainJob, type JobArgs, type JobLists } from "./plain_job.ts";

export async function newJob(args: JobArgs, lists: JobLists, words: readonly string[], io: Io): Promise<NewJob> {
  const job = plainJob(args, lists, words, io.env);
  const text = (name: "input" | "at" | "delay") => args[name] as string | undefined;
  return { ...job, input: await inputOf(text("input")), run_at_ms: await momentOf(text("at"), text("delay")) };
}

async function momentOf(at: string | undefined, delay: string | undefined): Promise<number | null> {
  if (at === undefined) return null;
  if (delay !== undefined) throw new LeaseError("usage", "--at and --delay both say when: give one of them");
  // Loaded only when asked for: most jobs run at once, and every enqueue pays for what is loaded.
  const { parseAt } = await import("../config/at.ts");
  return parseAt(at, "--at", systemClock.wall_ms());
}

async function inputOf(input: string | undefined): Promise<Uint8Array | null> {
  if (input === undefined) return null;
  if (input === "-") return readStdin(INPUT_LIMIT_BYTES);
  if (!input.startsWith("@")) return new TextEncoder().encode(input);
  if (input.startsWith("@@")) return new TextEncoder().encode(input.slice(1));
  return readInput(input.slice(1), `--input ${input}`);
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
    throw new LeaseError("usage", `${name} can't be read: ${errorText(error)}`);
  }
}
