/**
 * A worker's own folder for what is written on the way: results of jobs, and what the enforcer is told. It lies beside the
 * store, where nobody else may write, so that a sweep finds it; with a store elsewhere in the user's runtime folder. Made
 * for us alone, and looked at before each use: whoever could put another in its place would read results, or have us
 * read files of ours to them.
 */

import { lstatSync, mkdirSync, mkdtempSync, readdirSync, rmdirSync, rmSync, type Stats } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";

/** In order of preference; a sweep looks into all of them. */
function roots(store_url: string): string[] {
  if (store_url.startsWith("/")) return [`${store_url}-scratch`];
  const { XDG_RUNTIME_DIR, XDG_STATE_HOME } = process.env;
  const runtime = [XDG_RUNTIME_DIR, `/run/user/${process.getuid?.()}`].filter((folder) => isOwn(folder));
  const state = XDG_STATE_HOME || join(homedir(), ".local", "state");
  return [...new Set([...runtime, state])].map((folder) => join(folder, "lease", "scratch"));
}

/** Where nobody else may write. */
function isOwn(folder: string | undefined): folder is string {
  return folder !== undefined && folder.startsWith("/") && ownFolder(folder) !== null;
}

/** Null: there is nothing. Where we may not even look, as in a folder that is closed to us, is not ours. */
function lookAt(path: string): Stats | "not ours" | null {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) ?? null;
  } catch {
    return "not ours";
  }
}

/** A real folder of ours that others can't write into; null when it is anything else. */
function ownFolder(path: string): Stats | null {
  const stats = lookAt(path);
  if (stats === null || stats === "not ours" || !stats.isDirectory()) return null;
  return stats.uid === process.getuid?.() && (stats.mode & 0o022) === 0 ? stats : null;
}

/** None of a folder that another worker has just removed with the last that was in it. */
function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** What came out of a store is part of a path only if it names nothing else. */
const NAME = /^(?!\.{1,2}$)[\w.-]{1,200}$/;

/** The folders in which the worker of that name may have left something; none but ours. */
export function scratchFolders(store_url: string, worker_id?: string): string[] {
  const found = roots(store_url)
    .filter(isOwn)
    .flatMap((root) => namesIn(root).map((name) => ({ root, name })));
  const wanted = found.filter(({ name }) => NAME.test(name) && (worker_id === undefined || name === worker_id));
  return wanted.map(({ root, name }) => join(root, name)).filter(isOwn);
}

/** Workers of another user run here too: what is left of their jobs is not ours to see, nor to kill. */
export function othersWorkHere(store_url: string): boolean {
  const own = process.getuid?.();
  const found = roots(store_url).map(lookAt);
  return own !== 0 && found.some((stats) => stats === "not ours" || (stats !== null && stats.uid !== own));
}

/** Never throws: what can't be removed is no reason not to go on. */
export function removeScratch(folder: string): void {
  try {
    rmSync(folder, { recursive: true, force: true });
    // Those of other workers may be in it.
    rmdirSync(join(folder, ".."));
  } catch {
    // The next sweep on this machine tries again.
  }
}

const TRIES = 5;

export class Scratch {
  readonly #store_url: string;
  readonly #name: string;
  #made: { path: string; dev: number; ino: number } | null = null;

  constructor(store_url: string, worker_id: string) {
    this.#store_url = store_url;
    this.#name = worker_id;
  }

  /** The folder, made anew if it has gone; throws where there is no place for one. */
  folder(): string {
    if (this.#made !== null && this.isSame()) return this.#made.path;
    const path = this.#make();
    const { dev, ino } = lstatSync(path);
    this.#made = { path, dev, ino };
    return path;
  }

  /** It is there, and is the one that we made. */
  isSame(): boolean {
    if (this.#made === null) return false;
    const stats = ownFolder(this.#made.path);
    return stats !== null && stats.dev === this.#made.dev && stats.ino === this.#made.ino;
  }

  remove(): void {
    if (this.#made !== null && this.isSame()) removeScratch(this.#made.path);
    this.#made = null;
  }

  #make(): string {
    for (const root of roots(this.#store_url)) {
      const path = join(root, this.#name);
      if (NAME.test(this.#name) && makeIn(root, path)) return path;
    }
    // Under a name that nobody can have foreseen; no sweep finds it.
    return mkdtempSync(join(tmpdir(), "lease-"));
  }
}

function makeIn(root: string, path: string): boolean {
  for (let tries = 0; tries < TRIES; tries++) {
    try {
      mkdirSync(root, { recursive: true, mode: 0o700 });
      if (!isOwn(root)) return false;
      mkdirSync(path, { mode: 0o700 });
      return true;
    } catch (error) {
      // Another worker that ended has just removed the folder around it.
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") return false;
    }
  }
  return false;
}
