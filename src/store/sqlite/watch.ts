/**
 * Wake-ups: tells when another process has committed, within about a millisecond and for next to nothing; and when the files
 * are not those any more that were opened.
 *
 * The file system reports every write to the WAL, ours included; `PRAGMA data_version` changes only by a commit of
 * another connection and sorts the two apart.
 */

import { watch as watchFile, type WatchListener } from "node:fs";
import { basename, dirname } from "node:path";
import { platform } from "#platform";
import { isReplaced, type LeaseError } from "../../core/errors.ts";
import type { Database } from "./open.ts";

/** A write is reported before its commit can be seen, so a look that finds nothing is repeated a little later. */
const LOOKS_AFTER_MS = [0, 1, 5, 25];
/** Where others commit all the time, it is enough to hear of it so often: a fleet spends its time on jobs instead. */
const PAUSE_AFTER_CHANGE_MS = 5;

export function watchCommits(path: string, db: Database, changed: () => void): () => void {
  const wal = `${basename(path)}-wal`;
  const version = () => db.sql("PRAGMA data_version").get()?.["data_version"];
  let seen = version();
  let looks = LOOKS_AFTER_MS.length;
  let timer: ReturnType<typeof setTimeout> | null = null;
  let stopped = false;
  const look = () => {
    timer = null;
    const current = version();
    const changed_since = current !== seen;
    seen = current;
    if (changed_since) changed();
    next(changed_since ? PAUSE_AFTER_CHANGE_MS : 0);
  };
  const next = (least_ms = 0) => {
    const delay_ms = LOOKS_AFTER_MS[looks++];
    if (delay_ms !== undefined && !stopped) timer = setTimeout(look, Math.max(delay_ms, least_ms));
  };
  // The folder, not the file: a WAL may be removed and made again.
  const unwatch = watchFolder(dirname(path), (_event, name) => {
    if (name !== wal) return;
    looks = 0;
    if (timer === null) next();
  });
  const regular = platform.watches_folders ? null : setInterval(() => timer ?? look(), LOOK_INSTEAD_MS);
  regular?.unref();
  return () => {
    stopped = true;
    unwatch();
    if (regular !== null) clearInterval(regular);
    if (timer !== null) clearTimeout(timer);
  };
}

/** Where folders can't be watched. */
const LOOK_INSTEAD_MS = 20;

function watchFolder(folder: string, listener: WatchListener<string>): () => void {
  if (!platform.watches_folders) return () => {};
  const watcher = watchFile(folder, listener);
  watcher.unref();
  return () => watcher.close();
}

/** The net below the events, which not every file system has. */
const LOOK_EVERY_MS = 500;

/** `check` throws when the files are others. */
export function watchReplaced(path: string, check: () => void, fence: (error: LeaseError) => void): () => void {
  const name = basename(path);
  const look = () => {
    try {
      check();
    } catch (error) {
      // What can't be looked at just now may be the same all the same.
      if (!isReplaced(error)) return;
      stop();
      fence(error);
    }
  };
  const timer = setInterval(look, LOOK_EVERY_MS);
  timer.unref();
  let unwatch = () => {};
  try {
    unwatch = watchFolder(dirname(path), (event, changed) => {
      if (event === "rename" && (changed === null || changed.startsWith(name))) look();
    });
  } catch {
    // The system has no more watches to give.
  }
  const stop = () => {
    clearInterval(timer);
    unwatch();
  };
  return stop;
}
