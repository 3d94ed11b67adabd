/**
 * PostgreSQL's errors as ours: which of them may go away by themselves, after which of them it is unknown whether the
 * statement was carried out, and what to tell people about the rest.
 */

import { LeaseError, errorText, type ErrorCode } from "../../core/errors.ts";

function codes(names: string): ReadonlySet<string> {
  return new Set(names.split(" "));
}

/** Of the driver and of the system: the connection is gone, or could not be made. */
const LOST = codes("CONNECTION_CLOSED CONNECTION_DESTROYED CONNECTION_ENDED ECONNRESET EPIPE ETIMEDOUT");
const UNREACHABLE = codes("CONNECT_TIMEOUT ECONNREFUSED EHOSTUNREACH ENETUNREACH ENETDOWN EAI_AGAIN ENOTFOUND ENOENT");
/** The server ends or has not begun: shutdowns, crashes, start-up, too many connections. */
const SERVER_AWAY = codes("57P01 57P02 57P03 53300 25006 STANDBY");
/** Nothing was done, and another look may well help: serialization, deadlock, lock timeout, a key just taken. */
const COLLIDED = codes("40001 40P01 55P03 23505");
/** A plan of before a migration by somebody else. */
const OUTDATED = codes("0A000 26000");

export const NO_RIGHT = "42501";
export const READ_ONLY = "25006";
export const UNIQUE_VIOLATION = "23505";
export const UNDEFINED_TABLE = "42P01";
export const UNDEFINED_SCHEMA = "3F000";

export function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : "";
}

/** Whether the connection itself is gone, or could not be made. */
export function isConnectionLoss(error: unknown): boolean {
  const code = codeOf(error);
  return LOST.has(code) || UNREACHABLE.has(code) || SERVER_AWAY.has(code);
}

/** Whether it makes sense to ask again. */
export function isPassing(error: unknown): boolean {
  if (error instanceof LeaseError) return false;
  return isConnectionLoss(error) || COLLIDED.has(codeOf(error)) || OUTDATED.has(codeOf(error));
}

/** Whether the statement may have been carried out all the same. */
export function isUncertain(error: unknown): boolean {
  const code = codeOf(error);
  return LOST.has(code) || code === "57P01" || code === "57P02";
}

/** Whether a value does not fit its column, or breaks a rule of its table. */
export function isRefusedValue(error: unknown): boolean {
  return /^2[23]/.test(codeOf(error instanceof LeaseError ? error.cause : error));
}

const MEANINGS: Readonly<Record<string, readonly [ErrorCode, string]>> = {
  "28P01": ["store_path", "refuses the password: put it into the URL, PGPASSWORD or ~/.pgpass"],
  "28000": ["store_path", "does not let this user in: check the user's name and pg_hba.conf"],
  "3D000": ["store_path", "does not exist: create it with `createdb`, or name another database"],
  "42501": ["store_readonly", "does not let this user do that: `lease doctor --grants` prints the rights it needs"],
  "25006": ["store_readonly", "is read-only: is it a standby? Name the primary"],
  STANDBY: ["store_readonly", "takes no writes: it is a standby that nobody has promoted; name the primary"],
  NO_TLS: ["store_untrusted", "does not encrypt, and sslmode insists on it: switch ssl on at the server"],
  "53100": ["store_full", "can't grow: the disk is full; free some space and try again"],
  "53300": ["store_busy", "has no connection left: raise max_connections, or stop something"],
  "55P03": ["store_busy", "is locked: look at pg_locks for who holds it"],
  "57014": ["store_busy", "did not answer in time: look at pg_stat_activity for what keeps it busy"],
  "57P03": ["store_failed", "is starting up or shutting down: try again in a moment"],
  ENOTFOUND: ["store_path", "can't be reached: there is no such host"],
  EAI_AGAIN: ["store_path", "can't be reached: its host could not be looked up"],
  ECONNREFUSED: ["store_failed", "can't be reached: nothing listens there; is the server running?"],
  ENOENT: ["store_failed", "can't be reached: there is no such socket; is the server running?"],
  CONNECT_TIMEOUT: ["store_failed", "can't be reached: no answer in time"],
};

/** A LeaseError for what the engine or the way to it said about the store at `location`; others come back as they are. */
export function explain(error: unknown, location: string): unknown {
  const code = codeOf(error);
  if (error instanceof LeaseError || code === "") return error;
  const [meaning, advice] = MEANINGS[code] ?? [];
  if (meaning !== undefined) return new LeaseError(meaning, `store ${location} ${advice}`, { cause: error });
  if (isConnectionLoss(error)) {
    const message = `the connection to store ${location} was lost: is the server running?`;
    return new LeaseError("store_failed", message, { cause: error });
  }
  const text = errorText(error).split("\n")[0];
  return new LeaseError("store_failed", `store ${location} failed: ${text} (${code})`, { cause: error });
}

export function uncertain(location: string, error: unknown): LeaseError {
  const message = `the connection to store ${location} was lost before it answered: look whether it was done, then try again`;
  return new LeaseError("store_failed", message, { cause: error });
}
