/**
 * What a job must be to be accepted, checked before anything is written and the same for every way in.
 */

import { checkTimes } from "./calibration.ts";
import { LeaseError } from "./errors.ts";
import { INPUT_LIMIT_BYTES, type NewJob } from "./job.ts";

const NAME_LIMIT = 255;
const NUL = "\0";

export function checkNewJob(job: NewJob): void {
  if (job.argv.length === 0 && job.input === null)
    refuse("there is no command: write one after --, or give an --input");
  if (job.argv[0] === "") refuse("the command is empty: write its name after --");
  if (job.argv.some((word) => word.includes(NUL)))
    refuse("a command can't contain NUL bytes: pass the data by --input");
  checkName("queue", job.queue);
  // A worker's -q has commas between queues, and * for all of them.
  if (job.queue.includes(",") || job.queue === "*")
    refuse(`queue ${JSON.stringify(job.queue)} is not one that a worker can name: leave out commas and *`);
  if (job.task !== null) checkName("task", job.task);
  if (job.key !== null) checkName("key", job.key);
  const torn = job.after_failed.find((id) => job.after.includes(id));
  if (torn !== undefined) refuse(`job ${torn} can't both complete and fail: name it in --after or in --after-failed`);
  if (job.cwd.includes(NUL)) refuse("a working folder can't contain NUL bytes");
  // This runs for each line of a bulk: a loop without the lists that Object.entries makes.
  for (const name in job.env) {
    const value = job.env[name] ?? "";
    if (name === "" || name.includes("=") || name.includes(NUL) || value.includes(NUL)) {
      refuse(`environment variable ${JSON.stringify(name)} is not one that a program can be given`);
    }
  }
  if (job.input !== null) checkInput(job.input);
  if (!Number.isSafeInteger(job.priority)) refuse(`priority ${job.priority} is not a whole number`);
  const { retries, timeout_ms } = job.settings;
  if (!Number.isSafeInteger(retries) || retries < 0) refuse(`retries ${retries} is not a whole number from 0 up`);
  checkTimes(job.settings);
  if (timeout_ms !== null && timeout_ms <= 0) refuse("--timeout must be longer than 0");
}

/** The next attempt gets it in its environment, where no variable can be longer than 128 KiB on Linux. */
export const CHECKPOINT_LIMIT_BYTES = 64 * 1024;

export function checkCheckpoint(text: string): void {
  if (text.includes(NUL)) throw new LeaseError("usage", "a checkpoint can't contain NUL: no variable can hold it");
  if (text.length * 3 > CHECKPOINT_LIMIT_BYTES && new TextEncoder().encode(text).length > CHECKPOINT_LIMIT_BYTES) {
    const message = "a checkpoint has at most 64 KiB: put the data in a file and note its name";
    throw new LeaseError("input_too_large", message);
  }
}

function checkInput(input: Uint8Array): void {
  if (input.length > INPUT_LIMIT_BYTES) {
    const limit = "1 MiB: put it in a file and pass the file's name";
    throw new LeaseError("input_too_large", `the input has ${input.length} bytes, and the limit is ${limit}`);
  }
  const nul_at = input.indexOf(0);
  if (nul_at >= 0) refuse(`an input is text, and byte ${nul_at} of this one is NUL: pass the name of its file instead`);
}

export function checkName(what: string, name: string): void {
  if (name === "" || name.length > NAME_LIMIT || hasControl(name)) {
    const rule = `1 to ${NAME_LIMIT} characters, none of them control characters`;
    refuse(`${what} ${JSON.stringify(name)} is not a name: ${rule}`);
  }
}

/** A loop, because a regular expression takes longer to compile than all else that an enqueue checks. */
function hasControl(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return true;
  }
  return false;
}

function refuse(message: string): never {
  throw new LeaseError("invalid_job", message);
}
