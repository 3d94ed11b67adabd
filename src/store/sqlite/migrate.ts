/** Brings the schema of a store to this version, under the lock. */

import { LeaseError } from "../../core/errors.ts";
import type { SqlDatabase } from "../../platform/platform.ts";
import { rollback } from "./rollback.ts";
import { MIGRATIONS } from "./schema.ts";
import { APPLICATION_ID } from "./version.ts";

export function migrate(database: SqlDatabase, path: string): void {
  database.exec("BEGIN IMMEDIATE");
  try {
    // Read again under the lock: another process may have been first.
    const version = readPragma(database, "user_version") as number;
    if (version > MIGRATIONS.length) {
      throw new LeaseError(
        "store_newer",
        `store ${path} has schema ${version} and this lease knows ${MIGRATIONS.length}: use a newer lease`,
      );
    }
    for (const step of MIGRATIONS.slice(version)) database.exec(step);
    database.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
    database.exec(`PRAGMA user_version = ${MIGRATIONS.length}`);
    database.exec("COMMIT");
  } catch (error) {
    rollback(database);
    throw error;
  }
}

function readPragma(database: SqlDatabase, name: string): unknown {
  return database.prepare(`PRAGMA ${name}`).get()?.[name];
}
