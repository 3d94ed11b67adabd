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
import { every, type Clock } from "../../core/clock.ts";
import { isReplaced, type LeaseError } from "../../core/errors.ts";
import { systemClock } from "../../platform/clock.ts";
import type { Database } from "./open.ts";
import type { Writer } from "./writer.ts";

/**
 * A write is reported before its commit can be seen, which waits for the disk: a look that finds nothing is repeated, soon
 * at first, as a job may be waiting for it.
 */
const LOOKS_AFTER_MS = [0, 1, 1, 1, 1, 2, 2, 4, 8, 25];
/** Where others commit all the time, it is enough to hear of it so often: a fleet spends its time on jobs instead. */
const PAUSE_AFTER_CHANGE_MS = 5;

/** When to look whether a write has become a commit of somebody else. */
export class CommitLooks {
  readonly #clock: Pick<Clock, "after">;
  readonly #version: () => unknown;
  readonly #changed: () => void;
  #seen: unknown;
  /** How many have been made, or are about to be, since the last write. */
  #looks = LOOKS_AFTER_MS.length;
  #cancelNext: (() => void) | null = null;
  /** The next comes after a change: not sooner for any write. */
  #paused = false;
  #ended = false;

  constructor(clock: Pick<Clock, "after">, version: () => unknown, changed: () => void) {
    this.#clock = clock;
    this.#version = version;
    this.#changed = changed;
    this.#seen = version();
  }

  written(): void {
    const delay_ms = LOOKS_AFTER_MS[this.#looks - 1] ?? 0;
    // The last look for an earlier write is later than the first for this one.
    if (this.#cancelNext !== null && !this.#paused && delay_ms > 1) this.#skipNext();
    this.#looks = 0;
    if (this.#cancelNext === null) this.#next();
  }

  /** Where writes are not reported. */
  look(): void {
    this.#skipNext();
    const version = this.#version();
    this.#paused = version !== this.#seen;
    this.#seen = version;
    if (this.#paused) this.#changed();
    this.#next();
  }

  end(): void {
    this.#ended = true;
    this.#skipNext();
  }

  #skipNext(): void {
    this.#cancelNext?.();
    this.#cancelNext = null;
  }

  #next(): void {
    const delay_ms = LOOKS_AFTER_MS[this.#looks++];
    if (delay_ms === undefined || this.#ended) return;
    const least_ms = this.#paused ? PAUSE_AFTER_CHANGE_MS : 0;
    this.#cancelNext = this.#clock.after(Math.max(delay_ms, least_ms), () => this.look());
  }
}

export function watchCommits(path: string, db: Database, changed: () => void): () => void {
  const wal = `${basename(path)}-wal`;
  const version = () => db.sql("PRAGMA data_version").get()?.["data_version"];
  const looks = new CommitLooks(systemClock, version, changed);
  // The folder, not the file: a WAL may be removed and made again.
  const unwatch = watchFolder(dirname(path), (_event, name) => {
    if (name === wal) looks.written();
  });
  const regular = platform.watches_folders ? null : setInterval(() => looks.look(), LOOK_INSTEAD_MS);
  regular?.unref();
  return () => {
    unwatch();
    if (regular !== null) clearInterval(regular);
    looks.end();
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

/** The net below the events, which not every file system has: it is noticed within a second. */
const LOOK_EVERY_MS = 900;
/**
 * So many commits between two looks, and there is no listening: each of them has looked by itself, and the events of its
 * writes would only wake us up, in a fleet those of everybody.
 */
const BUSY_COMMITS = 20;

export interface WatchedFiles {
  /** Throws when the files are others; called before each commit too. */
  check(): void;
  /** How many commits there have been so far. */
  commits(): number;
  /** Hears of files that come, go and are renamed, until the answer is called; throws when there is no watch to be had. */
  listen(heard: () => void): () => void;
}

/** Tells once when the files are not those any more that were opened. */
export class ReplacedWatch {
  readonly #files: WatchedFiles;
  readonly #fence: (error: LeaseError) => void;
  readonly #cancel: () => void;
  #commits: number;
  #unlisten: (() => void) | null = null;

  constructor(clock: Pick<Clock, "after">, files: WatchedFiles, fence: (error: LeaseError) => void) {
    this.#files = files;
    this.#fence = fence;
    this.#commits = files.commits();
    this.#cancel = every(clock, LOOK_EVERY_MS, () => {
      if (this.#look()) this.#listenUnlessBusy();
    });
    this.#listen();
  }

  end(): void {
    this.#cancel();
    this.#unlisten?.();
    this.#unlisten = null;
  }

  /** Whether they are the same, as far as can be told. */
  #look(): boolean {
    try {
      this.#files.check();
    } catch (error) {
      // What can't be looked at just now may be the same all the same.
      if (!isReplaced(error)) return true;
      this.end();
      this.#fence(error);
      return false;
    }
    return true;
  }

  #listenUnlessBusy(): void {
    const commits = this.#files.commits();
    const busy = commits - this.#commits >= BUSY_COMMITS;
    this.#commits = commits;
    if (!busy) return this.#listen();
    this.#unlisten?.();
    this.#unlisten = null;
  }

  #listen(): void {
    try {
      this.#unlisten ??= this.#files.listen(() => this.#look());
    } catch {
      // The system has no more watches to give.
    }
  }
}

/** Nobody stays for these looks alone. */
const unheld: Pick<Clock, "after"> = {
  after(delay_ms, fn) {
    const timer = setTimeout(fn, delay_ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
};

export function watchReplaced(path: string, writer: Writer, fence: (error: LeaseError) => void): () => void {
  const name = basename(path);
  const files: WatchedFiles = {
    check: () => writer.checkFile(),
    commits: () => writer.commits,
    listen: (heard) =>
      watchFolder(dirname(path), (event, changed) => {
        if (event === "rename" && (changed === null || changed.startsWith(name))) heard();
      }),
  };
  const watch = new ReplacedWatch(unheld, files, fence);
  return () => watch.end();
}
