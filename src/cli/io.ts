/**
 * What a command works with: where its answers go, whether they are coloured, the store it was told to use, and the job
 * that it was called by.
 */

import { platform } from "#platform";
import process from "node:process";
import { storeLocation } from "../config/location.ts";
import { LeaseError } from "../core/errors.ts";
import { isFinished, type Job } from "../core/job.ts";
import { systemClock, systemRandom } from "../platform/clock.ts";
import { lazyFs } from "../platform/platform.ts";
import { grantsFor, openInbox, openStore, urlInJobs, wholeLocation } from "../store/open.ts";
import type { Inbox, Store } from "../store/store.ts";
import { ansi, plain, type Screen } from "../view/style.ts";
import type { COLOR_CHOICES } from "./flags.ts";

/** Where a command's answers and complaints go, and what it knows of its surroundings. */
export interface Io {
  stdout: (text: string) => void;
  /** For what is not ours, and perhaps not text. */
  stdoutBytes: (bytes: Uint8Array) => void;
  stderr: (text: string) => void;
  env: Readonly<Record<string, string | undefined>>;
  /** Whether stdout is a terminal. */
  is_tty: boolean;
  /** Null: not known. */
  columns: number | null;
}

/** Whole, in order and before we exit, also into a pipe that is full or closed. */
function write(fd: number, bytes: Uint8Array): void {
  const files = platform.quickFiles();
  if (files?.isGiven(fd) === false) throw Object.assign(new Error("it is closed"), { code: "EBADF", syscall: "write" });
  for (let at = files?.write(fd, bytes) ?? 0; at < bytes.length;) {
    try {
      at += lazyFs().writeSync(fd, bytes, at);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}

const encoder = new TextEncoder();

/** Our own sentences, between words; by hand, because what could measure text is not loaded where nobody complains. */
function wrapped(text: string, columns: number): string {
  return text.replaceAll(/[^\n]+/g, (line) => {
    const lines = [""];
    for (const word of line.split(" ")) {
      const last = lines.at(-1) ?? "";
      if (last === "") lines.splice(-1, 1, word);
      else if (last.length + 1 + word.length <= columns) lines.splice(-1, 1, `${last} ${word}`);
      else lines.push(word);
    }
    return lines.join("\n");
  });
}

/** Nobody may be there to read it, which changes nothing about what happened. */
function complain(text: string): void {
  try {
    const columns = text.startsWith("lease: ") && isTerminal(2) ? process.stderr.columns || 0 : 0;
    write(2, encoder.encode(columns > 0 && text.length > columns ? wrapped(text, columns) : text));
  } catch {
    // There is no better place to say so.
  }
}

/** This process's own. */
export const processIo: Io = {
  stdout: (text) => write(1, encoder.encode(text)),
  stdoutBytes: (bytes) => write(1, bytes),
  stderr: complain,
  env: process.env,
  get is_tty() {
    return isTerminal(1);
  },
  get columns() {
    // Some terminals say 0 when they don't know.
    return this.is_tty ? process.stdout.columns || Number(process.env["COLUMNS"]) || null : null;
  },
};

/** What cron jobs and services often have for a terminal: Linux numbers it 1:3. */
const DEV_NULL = 0x103;

/** Of stdout or stderr. The stream itself is asked last: loading it costs a third of an enqueue. */
export function isTerminal(fd: 1 | 2): boolean {
  try {
    const stats = lazyFs().fstatSync(fd);
    if (!stats.isCharacterDevice() || stats.rdev === DEV_NULL) return false;
  } catch {
    // It was closed before we began.
    return false;
  }
  return process[fd === 1 ? "stdout" : "stderr"].isTTY;
}

/** It goes to /dev/null: nobody will ever read it. */
export function isDiscarded(fd: 1 | 2): boolean {
  try {
    return lazyFs().fstatSync(fd).rdev === DEV_NULL;
  } catch {
    return true;
  }
}

export type ColorChoice = (typeof COLOR_CHOICES)[number];

/** Whether to colour: what the user says, else NO_COLOR, else whether somebody is looking. */
export function wantsColor(choice: ColorChoice, { env, is_tty }: Pick<Io, "env" | "is_tty">): boolean {
  if (choice !== "auto") return choice === "always";
  // no-color.org: set and not empty.
  return is_tty && (env["NO_COLOR"] ?? "") === "" && env["TERM"] !== "dumb";
}

export function screenOf(color: ColorChoice, io: Io, now_ms: number): Screen {
  return { now_ms, width: io.columns, paint: wantsColor(color, io) ? ansi : plain };
}

export interface StoreArgs {
  store: string | undefined;
  trust_store: boolean;
}

/**
 * Runs `work` on the store and closes it, unless that gives it up with all that was asked of it and not begun: to close it
 * is to wait for that. `store_url` leads a job to the same store from any folder.
 */
export async function withStore<T>(
  args: StoreArgs,
  io: Io,
  options: { create: boolean },
  work: (opened: { store: Store; store_url: string; abandon: () => void }) => Promise<T>,
): Promise<T> {
  const location = storeLocation(args.store, io.env);
  const store = await openStore(location, openOptions(args, options.create, io));
  let abandoned = false;
  const abandon = () => void (abandoned = true);
  try {
    return await work({ store, store_url: await urlInJobs(location, store.location, io.env), abandon });
  } finally {
    if (!abandoned) await store.close({ exiting: true });
  }
}

/** The same for new jobs alone. */
export async function withInbox<T>(args: StoreArgs, io: Io, work: (inbox: Inbox) => Promise<T>): Promise<T> {
  const inbox = await openInbox(storeLocation(args.store, io.env), openOptions(args, true, io));
  try {
    return await work(inbox);
  } finally {
    await inbox.close();
  }
}

/** The SQL by which a DBA makes a place for that store. */
export function storeGrants(store: string | undefined, io: Io): Promise<string> {
  return grantsFor(storeLocation(store, io.env), io.env);
}

/** Where the store is, for somebody who is started in another folder and with another environment. */
export function storePlace(store: string | undefined, io: Io): Promise<{ location: string; secret: string }> {
  return wholeLocation(storeLocation(store, io.env));
}

function openOptions({ trust_store }: StoreArgs, create: boolean, io: Io) {
  // Inside a job its worker has said so already.
  const notice = (text: string) => void (io.env["LEASE_JOB_ID"] === undefined && io.stderr(`lease: ${text}\n`));
  return { clock: systemClock, random: systemRandom, trust: trust_store, create, notice };
}

/** All of standard input, up to a limit: one byte more than it means that there was more. */
export async function readStdin(limit_bytes: number): Promise<Uint8Array> {
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  for await (const piece of process.stdin as AsyncIterable<Uint8Array<ArrayBuffer>>) {
    pieces.push(piece);
    size += piece.length;
    if (size > limit_bytes) break;
  }
  return new Blob(pieces).bytes();
}

/** The job that this process belongs to, as its worker told it: for commands that a job calls about itself. */
interface OwnJob {
  id: number;
  token: number;
  /** The store, and the life of it, that the token is of; null where the worker did not say. */
  store_id: string | null;
}

export function ownJob(env: Readonly<Record<string, string | undefined>>): OwnJob {
  const id = Number(env["LEASE_JOB_ID"] ?? "");
  const token = Number(env["LEASE_TOKEN"] ?? "");
  if (Number.isSafeInteger(id) && id > 0 && Number.isSafeInteger(token) && token > 0)
    return { id, token, store_id: env["LEASE_STORE_ID"] ?? null };
  throw new LeaseError("usage", "this is for use inside a job: LEASE_JOB_ID and LEASE_TOKEN are not set");
}

/** A token says nothing in another store, nor in this one after it was put back to an earlier state. */
export async function refuseOtherLife(store: Store, { id, store_id }: OwnJob): Promise<void> {
  if (store_id === null || store_id === (await store.storeId())) return;
  const why = "the store was put back to an earlier state since, or is another one";
  throw new LeaseError("lease_lost", `job ${id} has lost its lease (${why}): stop working on it`);
}

/** Says what became of the job, which is what whoever lost it wants to know. */
export async function leaseLost(store: Store, { id, token }: Pick<OwnJob, "id" | "token">): Promise<LeaseError> {
  const [job = null] = await store.jobs([id]);
  return new LeaseError("lease_lost", `job ${id} has lost its lease (${lossText(job, token)}): stop working on it`);
}

function lossText(job: Job | null, token: number): string {
  if (job === null) return "there is no such job any more";
  const { name } = job.state;
  if (name !== "running") return isFinished(job.state) ? `it has ended: ${name}` : `it is ${name} again`;
  return job.token === token ? "it has run out" : "somebody else holds it";
}
