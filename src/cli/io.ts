/** What a command works with: the store it was told to use, time, and how to print. */

import process from "node:process";
import { storeLocation } from "../config/location.ts";
import { systemClock, systemRandom } from "../platform/clock.ts";
import { openInbox, openStore } from "../store/open.ts";
import type { Inbox, Store } from "../store/store.ts";
import { ansi, plain } from "../view/style.ts";
import type { Screen } from "../view/style.ts";
import { wantsColor } from "./color.ts";
import type { Io } from "./command.ts";

interface SharedArgs {
  store: string | undefined;
  trust_store: boolean;
}

export interface Opened {
  store: Store;
  /** What a job is told in LEASE_STORE, so that it finds the same store from any folder. */
  store_url: string;
}

/** Runs `work` on the store and closes it, whatever happens. */
export async function withStore<T>(
  args: SharedArgs,
  io: Io,
  options: { create: boolean },
  work: (opened: Opened) => Promise<T>,
): Promise<T> {
  const location = storeLocation(args.store, io.env);
  const store = await openStore(location, openOptions(args, options.create));
  try {
    return await work({ store, store_url: location.includes("://") ? location : store.location });
  } finally {
    await store.close({ exiting: true });
  }
}

/** The same for new jobs alone. */
export async function withInbox<T>(args: SharedArgs, io: Io, work: (inbox: Inbox) => Promise<T>): Promise<T> {
  const inbox = await openInbox(storeLocation(args.store, io.env), openOptions(args, true));
  try {
    return await work(inbox);
  } finally {
    await inbox.close();
  }
}

function openOptions({ trust_store }: SharedArgs, create: boolean) {
  return { clock: systemClock, random: systemRandom, trust: trust_store, create };
}

export function screenOf(color: "auto" | "always" | "never", io: Io, now_ms: number): Screen {
  return { now_ms, width: io.columns, paint: wantsColor(color, io) ? ansi : plain };
}

/** All of standard input, up to a limit: one byte more than it means that there was more. */
export async function readStdin(limit_bytes: number): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of process.stdin as AsyncIterable<Uint8Array>) {
    pieces.push(piece);
    size += piece.length;
    if (size > limit_bytes) break;
  }
  const all = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}
