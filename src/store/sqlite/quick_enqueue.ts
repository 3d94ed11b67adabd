/**
 * `lease enqueue` of a job by itself into a store that is plainly right: a statement or two on a connection that nothing
 * else is ever asked of. It says yes or nothing. Whatever is not plain (no store yet, another version, a lock, a key that
 * is taken, a parent that failed) is left to the store proper, which also knows how to say what is wrong.
 *
 * Scripts call it thousands of times a day, and what it loads and links is what they wait for.
 */

import { platform } from "#platform";
import process from "node:process";
import { gateText } from "../../core/gate.ts";
import type { NewJob } from "../../core/job.ts";
import type { QuickFiles, QuickStats, SqlDatabase, SqlStatement, SqlValue } from "../../platform/platform.ts";
import { SATISFIED, envColumn, isBlocked, leaseColumn, settingsColumn } from "../shared/columns.ts";
import { explain, isBusy, isRefused } from "./failure.ts";
import { INDEX_BYTES, isNeeded, lostPages, noteLoss, readIndex } from "./lost_log.ts";

/** What marks a file as a store, and the schema that this lease knows. */
export const APPLICATION_ID = 0x4c454153;
export const SCHEMA_VERSION = 9;

/**
 * The whole schema of a store as one text. Control characters between its parts: what is in a name or a statement can't
 * be taken for them without being seen to differ.
 */
export const SCHEMA_TEXT = `(SELECT group_concat(type || char(2) || name || char(2) || tbl_name || char(2) || coalesce(sql, ''),
  char(1)) FROM (SELECT * FROM sqlite_schema ORDER BY type, name))`;

/** What it is in a store of this version, as the build found it; run from source nobody knows before it is asked. */
declare const LEASE_SCHEMA: string | undefined;
export const builtSchema = () => (typeof LEASE_SCHEMA === "string" ? LEASE_SCHEMA : null);

/** The WAL is cut back to this after a checkpoint. */
export const WAL_LIMIT_BYTES = 64 * 1024 * 1024;
/** A process that ends leaves so much of it to the next one, for whom a longer one would be slow to read. */
export const SHORT_WAL_BYTES = 256 * 1024;

export const INSERT_JOB = `INSERT INTO jobs (state, queue, priority, run_at_ms, retries, lease_ms, created_at_ms, task, key,
  argv, cwd, settings, env, gate) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)`;

/** The state in which a new job begins. */
export function firstState(job: NewJob, now_ms: number): "blocked" | "scheduled" | "pending" {
  if (isBlocked(job)) return "blocked";
  return (job.run_at_ms ?? now_ms) > now_ms || job.delay_ms > 0 ? "scheduled" : "pending";
}

/** In the order of INSERT_JOB. `settings` is their column, where the caller has it already. */
export function jobColumns(job: NewJob, now_ms: number, settings = settingsColumn(job.settings)): SqlValue[] {
  // The first question to Math makes all of it, which takes longer than the rest of this file.
  const wanted_ms = job.run_at_ms ?? now_ms;
  const earliest_ms = now_ms + job.delay_ms;
  return [
    firstState(job, now_ms),
    job.queue,
    job.priority,
    wanted_ms > earliest_ms ? wanted_ms : earliest_ms,
    job.settings.retries,
    leaseColumn(job.settings),
    now_ms,
    job.task,
    job.key,
    JSON.stringify(job.argv),
    job.cwd,
    settings,
    envColumn(job.env),
    gateText(job),
  ];
}

/** Whose store it is and whether it syncs is asked by the statement that writes first: no answer can change in between. */
export const OURS = `user_version = ${SCHEMA_VERSION} AND application_id = ${APPLICATION_ID} AND synchronous = 2
  AND ${SCHEMA_TEXT}`;
export const OF_OURS = "pragma_user_version, pragma_application_id, pragma_synchronous";

const INSERT_IF_OURS = `${INSERT_JOB.replace("VALUES (", "SELECT ").slice(0, -1)} FROM ${OF_OURS} WHERE ${OURS} = ?15`;

/** Links a job to one that it waits for, unless that is not there or has ended in a way that takes another look. */
const WAIT_FOR = `INSERT INTO dependencies (job_id, parent_id, kind)
  SELECT ?1, id, 'success' FROM jobs WHERE id = ?2 AND id <> ?1 AND state NOT IN ('failed', 'cancelled')
  RETURNING (SELECT state FROM jobs WHERE id = parent_id) AS state`;

/** Of a blocked job, when there is nothing left that it waits for. */
export const UNBLOCK = `UPDATE jobs SET state = iif(run_at_ms > ?2, 'scheduled', 'pending')
  WHERE id = ?1 AND state = 'blocked' AND NOT EXISTS (
    SELECT 1 FROM dependencies AS d JOIN jobs AS parent ON parent.id = d.parent_id
    WHERE d.job_id = ?1 AND NOT ${SATISFIED})`;

/** The id of the job, which is on disk; null: nothing was done, and nothing is wrong that is known yet. */
export function quickEnqueue(files: QuickFiles, file: string, job: NewJob, now_ms: number): number | null {
  if (job.input !== null || job.after_any.length + job.after_failed.length + job.after_task.length > 0) return null;
  return onQuickStore(files, file, now_ms, INSERT_IF_OURS, (database, insert, schema) => {
    const add = () => {
      const added = insert.run(...jobColumns(job, now_ms), schema);
      return added.changes > 0 ? added.last_id : null;
    };
    if (job.after.length === 0) return add();
    return together(database, () => {
      const id = add();
      if (id === null) return null;
      const waitFor = database.prepare(WAIT_FOR);
      let waits = false;
      for (const parent of job.after) {
        const state = waitFor.get(id, parent)?.["state"];
        if (state === undefined) return null;
        waits ||= state !== "completed";
      }
      if (!waits) database.prepare(UNBLOCK).run(id, now_ms);
      return id;
    });
  });
}

/** All of it, or, when it answers null, nothing. */
export function together<T>(database: SqlDatabase, work: () => T | null): T | null {
  database.exec("BEGIN IMMEDIATE");
  const done = work();
  database.exec(done === null ? "ROLLBACK" : "COMMIT");
  return done;
}

/**
 * What `work` wrote is on disk; when it answers null, it has written nothing. After that the connection stays open, and
 * has to end with the process, as in a crash: closing it would fold the WAL back, which takes longer than all of this.
 * `sql` is what it begins with: where that can't even be asked, nobody was there to write.
 */
export function onQuickStore<T>(
  files: QuickFiles,
  file: string,
  now_ms: number,
  sql: string,
  work: (database: SqlDatabase, first: SqlStatement, schema: string) => T | null,
): T | null {
  const schema = builtSchema();
  const location = schema === null ? null : quickLocation(files, file);
  if (schema === null || location === null) return null;
  const index = files.view(`${location.path}-shm`, INDEX_BYTES);
  const before = index === null ? null : readIndex(index);
  // It may also be of before a power failure.
  if (location.wal_bytes === 0 && isNeeded(before)) return null;
  const opened = open(location.path, sql);
  if (opened === null) return null;
  const { database, first } = opened;
  if (files.lstat(location.path)?.identity !== location.identity) {
    database.close();
    return null;
  }
  let done: T | null;
  try {
    const lost_pages = index === null ? 0 : lostPages(before, readIndex(index));
    if (lost_pages > 0) noteIfLost(files, database, location, lost_pages, now_ms);
    done = work(database, first, schema);
  } catch (error) {
    database.close();
    // After any other error it may be there all the same: who is told can look, but must not find it twice.
    if (isBusy(error) || isRefused(error)) return null;
    throw explain(error, location.path);
  }
  // Whoever looks again finds everything as it was.
  if (done === null) database.closeKeepingWal();
  else if (location.wal_bytes > SHORT_WAL_BYTES) closeAndFold(database);
  return done;
}

/** Nobody else could notice it after us. */
function noteIfLost(
  files: QuickFiles,
  database: SqlDatabase,
  { path, wal_bytes }: QuickLocation,
  pages: number,
  now_ms: number,
): void {
  // If it has another length now, then not damage but somebody else was at it.
  if (files.lstat(`${path}-wal`)?.size !== wal_bytes) return;
  database.exec("PRAGMA busy_timeout = 5000");
  noteLoss(database, pages, now_ms);
}

function open(path: string, sql: string): { database: SqlDatabase; first: SqlStatement } | null {
  let database: SqlDatabase | null = null;
  try {
    database = platform.openSqlite(path);
    return { database, first: database.prepare(sql) };
  } catch {
    database?.close();
    return null;
  }
}

/** What was written is safe, whatever becomes of this. */
function closeAndFold(database: SqlDatabase): void {
  try {
    database.exec(`PRAGMA journal_size_limit = ${WAL_LIMIT_BYTES}`);
    database.close();
  } catch {
    // The WAL stays as long as it is until the next one tries.
  }
}

/** Magic numbers of statfs(2): ext, XFS, Btrfs, tmpfs, overlay, ZFS, F2FS. */
const LOCAL = new Set([0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630, 0x2fc12fc1, 0xf2f52010]);
const TYPE = 0o170000;
const FOLDER = 0o040000;
const FILE = 0o100000;
const STICKY = 0o1000;
const OTHERS_WRITE = 0o022;

export interface QuickLocation {
  /** The real path of the store. */
  path: string;
  wal_bytes: number;
  /** Of the file that was looked at. */
  identity: string;
}

/**
 * Says yes where it is plain that a store is right: a file of ours that nobody else can write, without a second name, in a
 * folder of ours that nobody else can write or replace, on a well-known local file system. About anything else it says
 * nothing, by null, and location.ts looks closely.
 */
export function quickLocation(files: QuickFiles, file: string): QuickLocation | null {
  const path = file.includes("\0") ? null : files.realPath(file);
  if (path === null) return null;
  const folder_path = path.slice(0, path.lastIndexOf("/")) || "/";
  if (!LOCAL.has(files.fileSystem(folder_path) ?? 0)) return null;
  const own_uid = process.getuid?.();
  const ours = (part: string, type: number) => {
    const stats = files.lstat(part);
    const is_right =
      stats !== null && (stats.mode & TYPE) === type && (stats.mode & OTHERS_WRITE) === 0 && stats.uid === own_uid;
    return is_right ? stats : null;
  };
  const folder = ours(folder_path, FOLDER);
  const store = ours(path, FILE);
  const wal = ours(`${path}-wal`, FILE);
  if (folder === null || store === null || wal === null || ours(`${path}-shm`, FILE) === null) return null;
  if (store.size === 0 || isOlderLog(store, wal)) return null;
  if (store.links !== 1 || store.mount === null || store.mount !== folder.mount) return null;
  // A journal is most often not there; one that is takes a closer look.
  if (files.lstat(`${path}-journal`) !== null || !isKeptAbove(files, folder_path, own_uid)) return null;
  return { path, wal_bytes: wal.size, identity: store.identity };
}

/** Who copies a store with its log may copy the log first. */
const COPIED_WITHIN_S = 1;

/** The log is made when the store is first opened: one that is older was made for another file. */
export function isOlderLog(store: QuickStats, log: QuickStats): boolean {
  if (store.size === 0 || log.size === 0 || store.born_s === null || log.born_s === null) return false;
  return log.born_s < store.born_s - COPIED_WITHIN_S;
}

/** Nobody else can put another folder in the place of this one. */
function isKeptAbove(files: QuickFiles, folder: string, own_uid: number | undefined): boolean {
  for (let end = folder.lastIndexOf("/"); end >= 0; end = folder.lastIndexOf("/", end - 1)) {
    const above = files.lstat(folder.slice(0, end) || "/");
    if (above === null || (above.uid !== own_uid && above.uid !== 0)) return false;
    if ((above.mode & OTHERS_WRITE) !== 0 && (above.mode & STICKY) === 0) return false;
    if (end === 0) break;
  }
  return true;
}
