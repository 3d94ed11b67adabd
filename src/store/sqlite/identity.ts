/**
 * Which files an open store is, and which life of it.
 *
 * Files that were deleted or replaced stay open behind the engine's back, and all that is written to them is lost with us.
 *
 * A store that was put back from a backup knows nothing of the grants since, and gives out their tokens again. So every
 * time it is put back it begins a new life: the second part of its id (`id+life`), which jobs carry in their environment.
 * Who comes with the id of another life is refused, whatever the token; and what still runs of one is found by the first
 * part. A new life is noticed by the file, which is another one, by its log, which is gone: we never remove it, or by
 * commits that the log has lost.
 */

import * as fs from "node:fs";
import * as os from "node:os";
import { platform } from "#platform";
import { LeaseError } from "../../core/errors.ts";
import { isStoreId, newLife } from "../../core/life.ts";
import type { SqlDatabase } from "../../platform/platform.ts";
import { INDEX_BYTES, lostPages, noteLoss, readIndex, type LogIndex } from "./lost_log.ts";
import { isOlderLog } from "./quick_enqueue.ts";
import { rollback } from "./writer.ts";

export function replaced(path: string): LeaseError {
  const advice = "was deleted or replaced by another file while it was in use: start again to use what is there now";
  return new LeaseError("store_replaced", `store ${path} ${advice}`);
}

interface Found {
  identity: string | null;
  written_ms: number;
}

interface OpenFile {
  look_again: () => Found;
  identity: string | null;
}

/** Which file is there; null: none. */
export function identityOf(path: string): string | null {
  return look(path).identity;
}

function look(path: string): Found {
  const stats = fs.statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return { identity: null, written_ms: Number.NaN };
  return { identity: `${stats.dev}:${stats.ino}`, written_ms: stats.mtimeMs };
}

/** To be asked before each commit, and so without what need not be known: `written_ms` is right where it is `dated`. */
function lookOften(path: string, dated: boolean): () => Found {
  const ask = platform.quickFiles()?.whichFile(path, { dated });
  return ask === undefined ? () => look(path) : () => ask() ?? look(path);
}

/** The files of a store that was just opened. */
export class OpenFiles {
  readonly #path: string;
  readonly #store: OpenFile;
  readonly #beside: readonly OpenFile[];
  /** When the file itself was last written, as of the last check. */
  #written_ms: number;

  constructor(path: string) {
    this.#path = path;
    const look_again = lookOften(path, true);
    const { identity, written_ms } = look_again();
    this.#store = { look_again, identity };
    this.#written_ms = written_ms;
    this.#beside = [`${path}-wal`, `${path}-shm`]
      .map((part) => lookOften(part, false))
      .map((beside) => ({ look_again: beside, identity: beside().identity }))
      .filter((part) => part.identity !== null);
  }

  get #has_all_beside(): boolean {
    return this.#beside.every((part) => part.look_again().identity === part.identity);
  }

  /** Throws when one of them is another now, or gone. */
  readonly check = (): void => {
    const store = this.#store.look_again();
    const same = store.identity === this.#store.identity;
    if (!same || !this.#has_all_beside) throw replaced(this.#path);
    this.#written_ms = store.written_ms;
  };

  /**
   * To be called before the store is closed, which folds its log back. When the log alone was deleted, that saves what was
   * acknowledged. Into a file that somebody has written since, or that has a new log, it would put pages that do not
   * belong there: then what is in the deleted log is dropped.
   */
  beforeClose(): void {
    if (this.#has_all_beside) return;
    const store = this.#store.look_again();
    if (store.identity !== this.#store.identity) return;
    const is_untouched = store.written_ms === this.#written_ms && identityOf(`${this.#path}-wal`) === null;
    if (!is_untouched) for (const link of this.#deletedLogs()) fs.truncateSync(link, 0);
  }

  /** Those that the engine still has open. */
  #deletedLogs(): string[] {
    try {
      const links = fs.readdirSync("/proc/self/fd").map((fd) => `/proc/self/fd/${fd}`);
      return links.filter((link) => linkTarget(link) === `${this.#path}-wal (deleted)`);
    } catch {
      return [];
    }
  }
}

function linkTarget(link: string): string | null {
  try {
    return fs.readlinkSync(link);
  } catch {
    return null;
  }
}

/** A store put back without its log would be read with the log of the other, page by page: that is neither of them. */
export function refuseOtherLog(path: string): void {
  const files = platform.quickFiles();
  // First these: who makes a store makes its log last, and its index after that.
  const log = files?.lstat(`${path}-wal`);
  const index = files?.lstat(`${path}-shm`);
  const store = files?.lstat(path);
  if (store?.size === 0 && (log || index)) {
    const fix = `put back a copy, or remove ${path}-wal and ${path}-shm to begin anew`;
    throw new LeaseError("store_corrupt", `store ${path} is empty, but has been one: its log lies beside it; ${fix}`);
  }
  if (!store || !log || !isOlderLog(store, log)) return;
  const fix = `if it was put back from a backup, remove ${path}-wal and ${path}-shm; else put back the file that was there`;
  throw new LeaseError("store_replaced", `the log beside store ${path} belongs to another file: ${fix}`);
}

/** What is known before a store is opened. */
export interface FoundFile {
  /** Null: there is none. */
  log_bytes: number | null;
  at_ms: number;
  index: LogIndex | null;
}

export function findFile(path: string, at_ms: number): FoundFile {
  // In this order: who shortens the log has noted that it is folded.
  const log_bytes = logBytes(path);
  const index = logIndex(path, false);
  return { log_bytes, at_ms, index: log_bytes === 0 && isOfEarlierBoot(`${path}-shm`, at_ms) ? null : index };
}

function logBytes(path: string): number | null {
  const log = `${path}-wal`;
  const files = platform.quickFiles();
  return (files === null ? fs.statSync(log, { throwIfNoEntry: false }) : files.lstat(log))?.size ?? null;
}

/**
 * The index is not synced: after a power failure it may be one of before the log was folded and emptied. In every other
 * case it knows too little then, not too much.
 */
function isOfEarlierBoot(index_path: string, now_ms: number): boolean {
  const stats = fs.statSync(index_path, { throwIfNoEntry: false });
  return stats !== undefined && stats.mtimeMs < now_ms - os.uptime() * 1_000;
}

/**
 * Null where there is none, or it can't be trusted. Once the engine has it open it is read by the engine's own descriptor:
 * to close another one would end all locks that this process has on it, and others would take the store for theirs alone.
 */
function logIndex(path: string, is_open: boolean): LogIndex | null {
  const bytes = new Uint8Array(INDEX_BYTES);
  try {
    const [own = null] = openDescriptors(`${path}-shm`);
    // Before the store is opened another handle of this process may have it; and then nothing is recovered.
    if ((own !== null) !== is_open) return null;
    const file = own ?? fs.openSync(`${path}-shm`, "r");
    try {
      if (fs.readSync(file, bytes, 0, bytes.length, 0) < bytes.length) return null;
    } finally {
      if (own === null) fs.closeSync(file);
    }
  } catch {
    return null;
  }
  return readIndex(new Uint32Array(bytes.buffer));
}

/** Of this process; throws where the system does not tell. */
function openDescriptors(path: string): number[] {
  const real = fs.realpathSync(path);
  const descriptors = fs.readdirSync("/proc/self/fd").map(Number);
  return descriptors.filter((descriptor) => linkTarget(`/proc/self/fd/${descriptor}`) === real);
}

/** The file for as long as it exists: also a number that is used again comes with another birth. */
function fileName(path: string): string {
  const quick = platform.quickFiles()?.lstat(path) ?? null;
  if (quick === null) return `${fs.statSync(path).ino}@`;
  return `${quick.identity.split(":")[1]}@${quick.born_s ?? ""}`;
}

/** Births are not known everywhere. */
function isSameFile(a: string, b: string): boolean {
  const [[number_a, born_a], [number_b, born_b]] = [a.split("@"), b.split("@")];
  return number_a === number_b && (born_a === born_b || !born_a || !born_b);
}

interface Known {
  id: string | null;
  file: string | null;
  /** When this life began, or was noticed. */
  life_at_ms: string | null;
}

const one = (name: string) => `(SELECT value FROM meta WHERE name = '${name}')`;
const GET = `SELECT ${one("store_id")} AS id, ${one("file")} AS file, ${one("life_at_ms")} AS life_at_ms`;
const SET = "INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2";

/** Gives a store that was just made its id, and one that was put back a new life. */
export function noticeNewLife(database: SqlDatabase, path: string, found: FoundFile, is_new: boolean): void {
  const get = database.prepare(GET);
  const file = fileName(path);
  const lost_pages = is_new ? 0 : lostPages(found.index, logIndex(path, true));
  // If it has another length now, then not damage but somebody else was at it.
  if (lost_pages > 0 && logBytes(path) === (found.log_bytes ?? 0)) noteLoss(database, lost_pages, found.at_ms);
  const next = () => nextLife(get.get() as unknown as Known, file, found, is_new);
  if (next() === null) return;
  database.exec("BEGIN IMMEDIATE");
  try {
    // Again, under the lock: another process may have been first.
    const set = database.prepare(SET);
    for (const [name, value] of Object.entries(next() ?? {})) set.run(name, value);
    database.exec("COMMIT");
  } catch (error) {
    rollback(database);
    throw error;
  }
}

/** What is to be noted; null: nothing. */
function nextLife(known: Known, file: string, { log_bytes, at_ms }: FoundFile, is_new: boolean) {
  const had_log = log_bytes !== null || !platform.keeps_log;
  const life_at_ms = String(at_ms);
  if (!isStoreId(known.id)) return is_new ? { store_id: crypto.randomUUID(), file, life_at_ms } : null;
  // Whoever noticed it after we looked has made the log that we did not see.
  const log_lost = !had_log && !(Number(known.life_at_ms) >= at_ms) && !is_new;
  const is_copy = known.file !== null && !isSameFile(known.file, file);
  const life = { store_id: newLife(known.id, at_ms), file, life_at_ms };
  if (is_copy || log_lost) return life;
  return known.file === file ? null : { file };
}
