/** The way out of a transaction that failed. */

import type { SqlDatabase } from "../../platform/platform.ts";

/** After a full disk or an I/O error SQLite has rolled back by itself, and says so by an error. */
export function rollback(database: SqlDatabase): void {
  try {
    database.exec("ROLLBACK");
  } catch {
    // Nothing is left to roll back.
  }
}
