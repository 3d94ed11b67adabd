/**
 * What a job must be to be accepted, checked before anything is written and the same for every way in.
 */

import { checkTimes } from "./calibration.ts";
import { LeaseError } from "./errors.ts";
import { gateText, LONGEST_GATE } from "./gate.ts";
import { isResourceName } from "./resources.ts";
import { INPUT_LIMIT_BYTES, type NewJob } from "./job.ts";

export const NAME_LIMIT = 255;
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
  if (job.settings.on_failed?.includes(NUL)) refuse("what to run when it fails can't contain NUL bytes");
  checkFolder(job.cwd);
  checkWords("the command", job.argv, "put the data in a file, or pass it by --input");
  checkGate(job);
  // This runs for each line of a bulk: a loop without the lists that Object.entries makes.
  const variables: string[] = [];
  for (const name in job.env) {
    const value = job.env[name] ?? "";
    variables.push(name, value);
    if (name === "" || name.includes("=") || name.includes(NUL) || value.includes(NUL)) {
      refuse(`environment variable ${JSON.stringify(name)} is not one that a program can be given`);
    }
  }
  checkWords("its environment", variables, "put the data in a file");
  if (job.input !== null) checkInput(job.input);
  if (!Number.isSafeInteger(job.priority)) refuse(`priority ${job.priority} is not a whole number`);
  if (job.run_at_ms !== null && !(Math.abs(job.run_at_ms) <= LATEST_MS))
    refuse("a job can't be put off beyond the year 9999");
  const { retries, timeout_ms } = job.settings;
  if (!Number.isSafeInteger(retries) || retries < 0) refuse(`retries ${retries} is not a whole number from 0 up`);
  checkTimes(job.settings);
  if (timeout_ms !== null && timeout_ms <= 0) refuse("--timeout must be longer than 0");
}

/** What of a command, and of its variables, any system can hand to a program. */
export const WORDS_LIMIT_BYTES = 1024 * 1024;
export const PATH_LIMIT_BYTES = 4_096;
/** Years have four digits. */
export const LATEST_MS = 253_402_300_799_999;

/** No text has more than three bytes for each of its units: only the few that may be too long are measured. */
function isOver(text: string, limit_bytes: number): boolean {
  return text.length * 3 > limit_bytes && new TextEncoder().encode(text).length > limit_bytes;
}

function checkWords(what: string, words: readonly string[], advice: string): void {
  let most_bytes = 0;
  for (const word of words) most_bytes += word.length * 3 + 1;
  if (most_bytes <= WORDS_LIMIT_BYTES || !isOver(words.join(" "), WORDS_LIMIT_BYTES)) return;
  throw new LeaseError("input_too_large", `${what} has more than 1 MiB, which is the limit: ${advice}`);
}

function checkFolder(cwd: string): void {
  if (cwd.includes(NUL)) refuse("a working folder can't contain NUL bytes");
  if (isOver(cwd, PATH_LIMIT_BYTES)) refuse("a working folder has a path of at most 4096 bytes");
}

/** It is shown in lists, and written again with each extension. */
const MESSAGE_LIMIT_BYTES = 4_096;

export function checkMessage(text: string): void {
  if (!isOver(text, MESSAGE_LIMIT_BYTES)) return;
  throw new LeaseError("input_too_large", "a message has at most 4 KiB: print what is longer, or make it a checkpoint");
}

/** For a beat, which must not fail because of it. */
export function shortMessage(text: string | null): string | null {
  return text === null || !isOver(text, MESSAGE_LIMIT_BYTES) ? text : `${text.slice(0, MESSAGE_LIMIT_BYTES / 4)}…`;
}

/** The next attempt gets it in its environment, where no variable can be longer than 128 KiB on Linux. */
export const CHECKPOINT_LIMIT_BYTES = 64 * 1024;

export function checkCheckpoint(text: string): void {
  if (text.includes(NUL)) throw new LeaseError("usage", "a checkpoint can't contain NUL: no variable can hold it");
  checkCheckpointSize(text);
}

/** All that a store asks of it: what is in it is between a job and its next attempt. */
export function checkCheckpointSize(text: string): void {
  if (!isOver(text, CHECKPOINT_LIMIT_BYTES)) return;
  throw new LeaseError("input_too_large", "a checkpoint has at most 64 KiB: put the data in a file and note its name");
}

function checkGate(job: NewJob): void {
  for (const name of job.limits) checkLimitName(name);
  for (const name in job.needs) {
    const amount = job.needs[name];
    if (!isResourceName(name) || !Number.isSafeInteger(amount) || (amount as number) < 1)
      refuse(`need ${JSON.stringify(name)} is not a resource and how much of it: write gpu, gpu=2 or mem=8G`);
  }
  if (gateText(job).length > LONGEST_GATE)
    refuse(`its limits and needs are too many: together they may have ${LONGEST_GATE} characters`);
}

/** A queue is a limit by its own name, so the same names will do. */
export function checkLimitName(name: string): void {
  checkName("limit", name);
  if (/[,"\\]/.test(name)) refuse(`limit ${JSON.stringify(name)} is not one that can be joined: leave out , " and \\`);
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
