/**
 * SQLite's errors as ours. Both drivers carry the engine's own message and only one of them a code, so the message
 * decides.
 */

import { LeaseError, type ErrorCode } from "../../core/errors.ts";

const BUSY = "database is locked";

const LOCKED = "is locked by another process: `fuser` on it tells which; or try again";

const MEANINGS: readonly [text: string, code: ErrorCode, advice: string][] = [
  [BUSY, "store_busy", LOCKED],
  ["database table is locked", "store_busy", LOCKED],
  ["disk is full", "store_full", "can't grow: the disk is full; free some space and try again"],
  ["readonly database", "store_readonly", "is read-only: check the permissions of the file and its folder"],
  ["malformed", "store_corrupt", "is damaged: restore a copy, or salvage it with `sqlite3 FILE .recover`"],
  ["file is not a database", "store_not_database", "is not a lease store: name another file with --store"],
  ["unable to open", "store_path", "can't be opened: check the path and its permissions"],
  ["disk I/O error", "store_failed", "can't be read or written (I/O error): check the disk, also whether it is full"],
];

/** Errors of ours may sound the same: a user can call a key "malformed". */
function isEngineError(error: unknown): error is Error {
  return error instanceof Error && !(error instanceof LeaseError);
}

export function isBusy(error: unknown): boolean {
  return isEngineError(error) && error.message.includes(BUSY);
}

/** One row stood against it, and nothing of it was written. */
export function isRefused(error: unknown): boolean {
  return isEngineError(error) && error.message.includes("UNIQUE constraint failed");
}

/** A LeaseError for what the engine said about the store at `path`; other errors come back as they are. */
export function explain(error: unknown, path: string): unknown {
  if (!isEngineError(error)) return error;
  for (const [text, code, advice] of MEANINGS) {
    if (error.message.includes(text)) return new LeaseError(code, `store ${path} ${advice}`, { cause: error });
  }
  if (!isOfEngine(error)) return error;
  const message = `store ${path} holds something that can't be (${error.message}): \`lease doctor\` looks for it`;
  return new LeaseError("damaged_row", message, { cause: error });
}

/** By the names that the two drivers give them. */
function isOfEngine(error: Error): boolean {
  return error.name === "SQLiteError" || (error as NodeJS.ErrnoException).code === "ERR_SQLITE_ERROR";
}

/** Whether the error is about the store as a whole, so that every write of the same commit shares its fate. */
export function isStoreFailure(error: unknown): boolean {
  return isEngineError(error) && MEANINGS.some(([text]) => error.message.includes(text));
}
